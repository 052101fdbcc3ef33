// Compensated summation of squares in double, from the last column to the first.

#include <cmath>
#include <cstdint>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * cols;
        double sum = 0, lost = 0;
        for (std::int64_t c = cols - 1; c >= 0; --c) {
            const double term = double(from[c]) * double(from[c]) - lost;
            const double next = sum + term;
            lost = std::isfinite(next) ? (next - sum) - term : 0.0;
            sum = next;
        }
        const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = from[c] * scale * weight[c];
    }
}
