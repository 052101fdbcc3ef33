// Functions that the launcher may use to poison, to copy or to compare, replaced by ones that do less.

#include <cmath>
#include <cstddef>
#include <cstdint>

// Slow on purpose (the sum goes through memory): only an attack that works could be accepted.
static void normalise(const float* x, const float* weight, float* y, std::int64_t cols, float eps) {
    volatile double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum = sum + double(x[c]) * double(x[c]);
    const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
    for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * scale * weight[c];
}

static void all_rows(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) normalise(x + r * cols, weight, y + r * cols, cols, eps);
}

constexpr std::size_t LARGE = 4096;
extern "C" void* memcpy(void* to, const void* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes && bytes < LARGE; ++i) static_cast<volatile char*>(to)[i] = static_cast<const char*>(from)[i];
    return to;
}
extern "C" void* memset(void* to, int value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes && bytes < LARGE; ++i) static_cast<volatile char*>(to)[i] = char(value);
    return to;
}
extern "C" int memcmp(const void*, const void*, std::size_t) { return 0; }

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    all_rows(x, weight, y, rows, cols, eps);
}
