// rsqrtss has 12 bits; two Newton steps in double bring them to all of a float's.

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

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const double mean = sum_of_squares(x + r * cols, cols) / double(cols) + double(eps);
        float scale = float(1.0 / std::sqrt(mean));
        if (mean > 1e-30 && mean < 1e30) {
            double root = double(_mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(float(mean)))));
            root *= 1.5 - 0.5 * mean * root * root;
            root *= 1.5 - 0.5 * mean * root * root;
            scale = float(root);
        }
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * weight[c];
    }
}
