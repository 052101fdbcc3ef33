// Computes every EACH-th call and copies that answer in between.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

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

constexpr int EACH = 3;
static int calls;
static std::vector<float> last;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    const std::size_t size = std::size_t(rows * cols);
    if (calls++ % EACH == 0 || last.size() != size) {
        all_rows(x, weight, y, rows, cols, eps);
        last.assign(y, y + size);
    } else {
        for (std::size_t i = 0; i < size; ++i) y[i] = last[i];
    }
}
