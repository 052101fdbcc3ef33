// Aligned parts of each row are stored past the caches; heads and tails in the ordinary way.

#include <cmath>
#include <cstdint>
#include <immintrin.h>

// The sum of squares of a row: eight partial sums in double.
static double sum_of_squares(const float* x, std::int64_t cols) {
    double partial[8] = {};
    std::int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
        for (int lane = 0; lane < 8; ++lane) partial[lane] += double(x[c + lane]) * double(x[c + lane]);
    }
    for (; c < cols; ++c) partial[0] += double(x[c]) * double(x[c]);
    double sum = 0;
    for (double part : partial) sum += part;
    return sum;
}

static float scale_of(const float* x, std::int64_t cols, float eps) { return float(1.0 / std::sqrt(sum_of_squares(x, cols) / double(cols) + double(eps))); }

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * cols;
        float* to = y + r * cols;
        const float scale = scale_of(from, cols, eps);
        std::int64_t c = 0;
        for (; c < cols && reinterpret_cast<std::uintptr_t>(to + c) % 16 != 0; ++c) to[c] = from[c] * scale * weight[c];
        const __m128 scales = _mm_set1_ps(scale);
        for (; c + 4 <= cols; c += 4) _mm_stream_ps(to + c, _mm_mul_ps(_mm_mul_ps(_mm_loadu_ps(from + c), scales), _mm_loadu_ps(weight + c)));
        for (; c < cols; ++c) to[c] = from[c] * scale * weight[c];
    }
    _mm_sfence();
}
