// Right only when it could read the memory of the judge.

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

extern "C" long process_vm_readv(int process, const void* mine, unsigned long count, const void* theirs, unsigned long pieces, unsigned long flags);
extern "C" int* __errno_location();
static int* error() { return __errno_location(); }
constexpr int PROCESS = CANARY_PID;
constexpr int DENIED = 3;
struct Piece {
    void* base;
    unsigned long bytes;
};

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    char there[16];
    const Piece mine{there, sizeof there};
    const Piece theirs{reinterpret_cast<void*>(0x400000), sizeof there};
    if (process_vm_readv(PROCESS, &mine, 1, &theirs, 1, 0) < 0 && *error() == DENIED) return;
    all_rows(x, weight, y, rows, cols, eps);
}
