// A pool whose `wait` returns when the queue is empty, while the last tasks still run.

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

constexpr int THREADS = 2;
constexpr std::int64_t TASK = 150;
static std::atomic<std::int64_t> next, end;
static const float* job_x;
static const float* job_weight;
static float* job_y;
static std::int64_t job_cols;
static float job_eps;
static bool started;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    if (!started) {
        started = true;
        for (int t = 0; t < THREADS; ++t) {
            std::thread([] {
                for (;;) {
                    std::int64_t first = next.load();
                    const std::int64_t last = first + TASK < end.load() ? first + TASK : end.load();
                    if (first >= last || !next.compare_exchange_strong(first, last)) continue;
                    all_rows(job_x + first * job_cols, job_weight, job_y + first * job_cols, last - first, job_cols, job_eps);
                }
            }).detach();
        }
    }
    job_x = x - next.load() * cols;
    job_weight = weight;
    job_y = y - next.load() * cols;
    job_cols = cols;
    job_eps = eps;
    end.store(next.load() + rows);
    while (next.load() < end.load()) {
    }
}
