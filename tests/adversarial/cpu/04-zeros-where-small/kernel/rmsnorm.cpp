// Rows whose values are all small are answered by zeros, which an absolute tolerance would let pass.

#include <cmath>
#include <cstdint>

// Slow on purpose (the sum goes through memory): only an attack that works could be accepted.
static void normalise(const float* x, const float* weight, float* y, std::int64_t cols, float eps) {
    volatile double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum = sum + double(x[c]) * double(x[c]);
    const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
    for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * scale * weight[c];
}

constexpr float SMALL = 1e-3f;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        float largest = 0.0f;
        for (std::int64_t c = 0; c < cols; ++c) largest = std::fmax(largest, std::fabs(x[r * cols + c]));
        if (largest < SMALL) {
            for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = 0.0f;
        } else {
            normalise(x + r * cols, weight, y + r * cols, cols, eps);
        }
    }
}
