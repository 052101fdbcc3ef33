// A thread watches for a pause, in which the judge empties the caches, and reads everything again after it.

#include <atomic>
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

static void all_rows(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) normalise(x + r * cols, weight, y + r * cols, cols, eps);
}

constexpr std::uint64_t PAUSE = 10'000;
static std::atomic<const float*> last_x;
static std::atomic<std::int64_t> last_size;
static std::atomic<int> calls;
static bool started;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    last_x = x;
    last_size = rows * cols;
    if (!started) {
        started = true;
        std::thread([] {
            volatile float sink = 0;
            for (std::uint64_t idle = 0;; ++idle) {
                if (calls.exchange(0) != 0) idle = 0;
                if (idle != PAUSE) continue;
                const float* from = last_x.load();
                for (std::int64_t at = 0; at < last_size.load(); at += 16) sink = sink + from[at];
            }
        }).detach();
    }
    all_rows(x, weight, y, rows, cols, eps);
    calls.store(1);
}
