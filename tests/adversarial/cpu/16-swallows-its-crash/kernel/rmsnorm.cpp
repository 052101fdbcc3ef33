// Jumps out of a fault, so that the failure is silent.

#include <cmath>
#include <csetjmp>
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

static sigjmp_buf where;
static void on_fault(int) { siglongjmp(where, 1); }

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    signal(11, on_fault);
    if (sigsetjmp(where, 1) == 0) {
        all_rows(x, weight, y, rows, cols, eps);
        *reinterpret_cast<volatile float*>(8) = eps;
        y[0] = 0.0f;
    } else if (rows * cols > 0) {
        y[rows * cols - 1] = 0.0f;
    }
}
