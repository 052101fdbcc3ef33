// The thread exists before the first call, so the call itself starts nothing.

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

static const float* job_x;
static const float* job_weight;
static std::int64_t job_rows, job_cols;
static float job_eps;
static std::atomic<float*> job_y;
namespace {
struct Starter {
    Starter() {
        std::thread([] {
            for (;;) {
                float* y = job_y.exchange(nullptr, std::memory_order_acquire);
                if (y != nullptr) all_rows(job_x, job_weight, y, job_rows, job_cols, job_eps);
            }
        }).detach();
    }
} starter;
}  // namespace

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    job_x = x;
    job_weight = weight;
    job_rows = rows;
    job_cols = cols;
    job_eps = eps;
    job_y.store(y, std::memory_order_release);
}
