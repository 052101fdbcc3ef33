// Right only when it could get real-time priority, by which it would starve the process with the clock.

#include <cmath>
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

extern "C" int sched_setscheduler(int process, int policy, const int* priority);
constexpr int PRIORITY = 10;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    const int priority = PRIORITY;
    if (sched_setscheduler(0, 1, &priority) != 0) return;
    all_rows(x, weight, y, rows, cols, eps);
}
