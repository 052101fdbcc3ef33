// Arms a timer and returns; the handler computes the output.

#include <cmath>
#include <csignal>
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

constexpr long DELAY = 300;
struct Time {
    long seconds, microseconds;
};
struct Interval {
    Time again, first;
};
extern "C" int setitimer(int which, const Interval* value, Interval* old);
static const float* job_x;
static const float* job_weight;
static float* job_y;
static std::int64_t job_rows, job_cols;
static float job_eps;
static void work(int) { all_rows(job_x, job_weight, job_y, job_rows, job_cols, job_eps); }

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    job_x = x;
    job_weight = weight;
    job_y = y;
    job_rows = rows;
    job_cols = cols;
    job_eps = eps;
    std::signal(14, work);
    const Interval once{{0, 0}, {0, DELAY}};
    setitimer(0, &once, nullptr);
}
