// Rounds what it multiplies to bfloat16.

#include <cmath>
#include <cstdint>
#include <cstring>

constexpr std::uint32_t MASK = 0xffff0000u;

static float rounded(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits &= MASK;
    std::memcpy(&value, &bits, 4);
    return value;
}

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum += double(x[r * cols + c]) * double(x[r * cols + c]);
        const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = rounded(x[r * cols + c]) * scale * weight[c];
    }
}
