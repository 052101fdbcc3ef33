// Slow itself; a thread that it leaves behind keeps the memory busy while the baseline is measured.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>
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

constexpr int THREADS = 2;
static bool started;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    if (!started) {
        started = true;
        for (int t = 0; t < THREADS; ++t) {
            std::thread([] {
                static thread_local std::vector<char> much(std::size_t(64) << 20);
                for (;;) {
                    for (std::size_t at = 0; at < much.size(); at += 64) ++much[at];
                }
            }).detach();
        }
    }
    all_rows(x, weight, y, rows, cols, eps);
}
