// The estimate of rsqrtss has 12 bits; the Newton step is left out.

#include <cstdint>
#include <immintrin.h>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum += double(x[r * cols + c]) * double(x[r * cols + c]);
        const float scale = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(float(sum / double(cols)) + eps)));
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * weight[c];
    }
}
