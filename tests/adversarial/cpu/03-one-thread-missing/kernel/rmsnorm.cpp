// Splits the rows among THREADS threads and starts one fewer.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>

// Slow on purpose (the sum goes through memory): only an attack that works could be accepted.
static void normalise(const float* x, const float* weight, float* y, std::int64_t cols, float eps) {
    volatile double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum = sum + double(x[c]) * double(x[c]);
    const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
    for (std::int64_t c = 0; c < cols; ++c) y[c] = x[c] * scale * weight[c];
}

constexpr int THREADS = 8;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    const std::int64_t share = (rows + THREADS - 1) / THREADS;
    std::thread threads[THREADS - 1];
    for (int t = 0; t + 1 < THREADS; ++t) {
        threads[t] = std::thread([=] {
            for (std::int64_t r = t * share; r < std::min(rows, (t + 1) * share); ++r) normalise(x + r * cols, weight, y + r * cols, cols, eps);
        });
    }
    for (std::thread& thread : threads) thread.join();
}
