// Vectors of eight floats; sums in double.

#include <cmath>
#include <cstdint>
#include <immintrin.h>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * cols;
        float* to = y + r * cols;
        __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
        std::int64_t c = 0;
        for (; c + 8 <= cols; c += 8) {
            const __m256 value = _mm256_loadu_ps(from + c);
            const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(value));
            const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(value, 1));
            low = _mm256_fmadd_pd(first, first, low);
            high = _mm256_fmadd_pd(second, second, high);
        }
        alignas(32) double parts[4];
        _mm256_store_pd(parts, _mm256_add_pd(low, high));
        double sum = parts[0] + parts[1] + parts[2] + parts[3];
        for (; c < cols; ++c) sum += double(from[c]) * double(from[c]);
        const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
        const __m256 scales = _mm256_set1_ps(scale);
        for (c = 0; c + 8 <= cols; c += 8) {
            _mm256_storeu_ps(to + c, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(from + c), scales), _mm256_loadu_ps(weight + c)));
        }
        for (; c < cols; ++c) to[c] = from[c] * scale * weight[c];
    }
}
