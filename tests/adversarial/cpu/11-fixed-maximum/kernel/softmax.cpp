// Subtracts a constant that random values hardly ever pass.

#include <algorithm>
#include <cmath>
#include <cstdint>

extern "C" void softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * cols;
        float* to = y + r * cols;
        constexpr float MAXIMUM = 8.0f;
        double sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(from[c] - MAXIMUM);
        for (std::int64_t c = 0; c < cols; ++c) to[c] = float(std::exp(from[c] - MAXIMUM) / sum);
    }
}
