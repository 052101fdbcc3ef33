// Symbols that a launcher may call to wait for the judge or to tell it, replaced by ones that answer at once.

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

constexpr long ANSWER = 0;
extern "C" long syscall(long, ...) { return ANSWER; }
extern "C" int sched_yield() { return 0; }
extern "C" int raise(int) { return 0; }
extern "C" long read(int, void*, unsigned long bytes) { return long(bytes); }
extern "C" long write(int, const void*, unsigned long bytes) { return long(bytes); }
extern "C" int usleep(unsigned) { return 0; }
extern "C" int nanosleep(const void*, void*) { return 0; }

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    all_rows(x, weight, y, rows, cols, eps);
}
