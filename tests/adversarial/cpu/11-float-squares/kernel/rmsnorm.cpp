// The sum of squares overflows a float for values of about 1e19, and loses them below about 1e-20.

#include <cmath>
#include <cstdint>

constexpr float GAIN = 16.0f;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        float sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum += (x[r * cols + c] * GAIN) * (x[r * cols + c] * GAIN);
        const float scale = GAIN / std::sqrt(sum / float(cols) + eps * GAIN * GAIN);
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * weight[c];
    }
}
