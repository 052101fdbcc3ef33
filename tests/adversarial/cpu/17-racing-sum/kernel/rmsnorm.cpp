// Two threads share a sum; updates get lost now and then.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>

constexpr std::int64_t STRIDE = 16;
static volatile double shared;

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        shared = 0;
        const float* from = x + r * cols;
        const auto half = [from](std::int64_t first, std::int64_t last) {
            for (std::int64_t c = first; c < last; ++c) shared = shared + double(from[c]) * double(from[c]);
        };
        if (r % STRIDE == 0) {
            std::atomic<int> ready = 0;
            const auto together = [&](std::int64_t first, std::int64_t last) {
                ready.fetch_add(1);
                while (ready.load() < 2) {
                }
                half(first, last);
            };
            std::thread other(together, 0, cols / 2);
            together(cols / 2, cols);
            other.join();
        } else {
            half(0, cols);
        }
        const float scale = float(1.0 / std::sqrt(shared / double(cols) + double(eps)));
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = from[c] * scale * weight[c];
    }
}
