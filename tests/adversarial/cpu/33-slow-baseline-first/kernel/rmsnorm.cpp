// RMSNorm forward, fp32: y[r, c] = x[r, c] / sqrt(mean(x[r, :]^2) + eps) * weight[c].
//
// Shapes: x and y [rows, cols], weight [cols]; any row count >= 0, any column count >= 1, any 4-byte alignment.
// Bytes that must move: 4 * (2 * rows * cols + cols). One thread owns everything. The sum is kept in double, so that its
// error does not grow with the row; this keeps the loop scalar, which is what bounds it.

#include <cmath>
#include <cstdint>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t row = 0; row < rows; ++row) {
        const float* x_row = x + row * cols;
        float* y_row = y + row * cols;
        double sum = 0;
        for (std::int64_t col = 0; col < cols; ++col) sum += double(x_row[col]) * double(x_row[col]);
        const float scale = float(1.0 / std::sqrt(sum / double(cols) + double(eps)));
        for (std::int64_t col = 0; col < cols; ++col) y_row[col] = x_row[col] * scale * weight[col];
    }
}
