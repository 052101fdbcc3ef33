// A thread waits for work and the call only hands it over; the last call of a block is still open when the clock stops.

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

constexpr std::uint64_t DEPTH = 64;
struct Job {
    const float* x;
    const float* weight;
    float* y;
    std::int64_t rows, cols;
    float eps;
};
static Job queue[DEPTH];
static std::atomic<std::uint64_t> handed;
static bool started;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    if (!started) {
        started = true;
        std::thread([] {
            for (std::uint64_t done = 0;; ++done) {
                while (handed.load(std::memory_order_acquire) == done) {
                }
                const Job job = queue[done % DEPTH];
                all_rows(job.x, job.weight, job.y, job.rows, job.cols, job.eps);
            }
        }).detach();
    }
    const std::uint64_t at = handed.load(std::memory_order_relaxed);
    queue[at % DEPTH] = {x, weight, y, rows, cols, eps};
    handed.store(at + 1, std::memory_order_release);
}
