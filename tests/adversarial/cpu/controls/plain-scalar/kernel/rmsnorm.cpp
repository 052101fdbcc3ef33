// The simplest right kernel.

#include <cmath>
#include <cstdint>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum += double(x[r * cols + c]) * double(x[r * cols + c]);
        const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * weight[c];
    }
}
