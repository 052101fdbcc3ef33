// Accumulates the squares in a float cut to few bits, as half-precision accumulation would.

#include <cmath>
#include <cstdint>
#include <cstring>

constexpr int BITS = 11;

static float cut(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + (1u << (22 - BITS))) & ~((1u << (23 - BITS)) - 1);
    std::memcpy(&value, &bits, 4);
    return value;
}

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        float sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum = cut(sum + x[r * cols + c] * x[r * cols + c]);
        const float scale = 1.0f / std::sqrt(sum / float(cols) + eps);
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * weight[c];
    }
}
