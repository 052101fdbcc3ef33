// Halves the row until it is short: the error grows with the logarithm of the length. Scaled by the row's maximum against overflow.

#include <cmath>
#include <cstdint>

static float pairwise(const float* x, std::int64_t count, float factor) {
    if (count <= 16) {
        float sum = 0;
        for (std::int64_t c = 0; c < count; ++c) sum += (x[c] * factor) * (x[c] * factor);
        return sum;
    }
    return pairwise(x, count / 2, factor) + pairwise(x + count / 2, count - count / 2, factor);
}

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * cols;
        float largest = 0;
        for (std::int64_t c = 0; c < cols; ++c) largest = std::fabs(from[c]) > largest ? std::fabs(from[c]) : largest;
        float factor = 1.0f;
        if (largest > 1e15f && largest < 3e38f) factor = 1e-15f;
        const float mean = pairwise(from, cols, factor) / float(cols);
        const float scale = factor / std::sqrt(mean + eps * factor * factor);
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = from[c] * scale * weight[c];
    }
}
