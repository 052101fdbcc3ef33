// RMSNorm forward, fp32: y[r, c] = x[r, c] / sqrt(mean(x[r, :]^2) + eps) * weight[c].
//
// Shapes: x and y [rows, cols], weight [cols]; any row count >= 0, any column count >= 1, any 4-byte alignment.
// Bytes that must move: 4 * (2 * rows * cols + cols). An ordinary store first reads the line that it overwrites, which makes
// three transfers of two; a streaming store does not, so outputs that no cache will hold are streamed.
// A thread owns whole rows: it reads a row once from memory and a second time from its own cache.
//
// Knobs (launch.yaml): WIDTH, UNROLL, STREAM_BYTES, PREFETCH, ROWS_PER_TASK, THREADS.

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

using Index = std::int64_t;
typedef float Vector __attribute__((vector_size(WIDTH * sizeof(float)), aligned(sizeof(float)), may_alias));

constexpr Index kStep = Index(WIDTH) * UNROLL;
// Partial sums in float are carried into a double every so many columns: the error then does not grow with the row.
constexpr Index kTile = std::max<Index>(kStep, 4096 / kStep * kStep);

inline Vector load(const float* address) { return *reinterpret_cast<const Vector*>(address); }
inline void store(float* address, Vector value) { *reinterpret_cast<Vector*>(address) = value; }

inline void prefetch(const float* address) {
    if constexpr (PREFETCH > 0) {
        for (Index line = 0; line < kStep; line += 16) _mm_prefetch(reinterpret_cast<const char*>(address + line) + PREFETCH, _MM_HINT_T0);
    }
}

// Stores WIDTH floats past the caches; the address is aligned to the vector.
inline void stream(float* address, Vector value) {
#if defined(__AVX512F__) && WIDTH == 16
    _mm512_stream_ps(address, reinterpret_cast<__m512&>(value));
#elif defined(__AVX__) && WIDTH >= 8
    for (int part = 0; part < WIDTH; part += 8) _mm256_stream_ps(address + part, _mm256_loadu_ps(reinterpret_cast<const float*>(&value) + part));
#else
    for (int part = 0; part < WIDTH; part += 4) _mm_stream_ps(address + part, _mm_loadu_ps(reinterpret_cast<const float*>(&value) + part));
#endif
}

double sum_of_squares(const float* x, Index cols) {
    double total = 0;
    Index col = 0;
    while (col + kStep <= cols) {
        const Index end = std::min(col + kTile, col + (cols - col) / kStep * kStep);
        Vector partial[UNROLL] = {};
        for (; col < end; col += kStep) {
            prefetch(x + col);
#pragma GCC unroll 8
            for (int lane = 0; lane < UNROLL; ++lane) {
                const Vector value = load(x + col + lane * WIDTH);
                partial[lane] += value * value;
            }
        }
        for (int lane = 1; lane < UNROLL; ++lane) partial[0] += partial[lane];
        for (int lane = 0; lane < WIDTH; ++lane) total += double(partial[0][lane]);
    }
    for (; col < cols; ++col) total += double(x[col]) * double(x[col]);
    return total;
}

template <bool Streaming>
void scale_row(const float* x, const float* weight, float* y, Index cols, float scale) {
    Index col = 0;
    if constexpr (Streaming) {
        // Scalar stores up to the first address that a streaming store accepts.
        const Index misaligned = Index(reinterpret_cast<std::uintptr_t>(y) / sizeof(float) % WIDTH);
        for (const Index head = std::min(cols, (WIDTH - misaligned) % WIDTH); col < head; ++col) y[col] = x[col] * scale * weight[col];
    }
    for (; col + kStep <= cols; col += kStep) {
#pragma GCC unroll 8
        for (int lane = 0; lane < UNROLL; ++lane) {
            const Index at = col + lane * WIDTH;
            const Vector value = load(x + at) * scale * load(weight + at);
            if constexpr (Streaming) {
                stream(y + at, value);
            } else {
                store(y + at, value);
            }
        }
    }
    for (; col < cols; ++col) y[col] = x[col] * scale * weight[col];
}

template <bool Streaming>
void rows_of(const float* x, const float* weight, float* y, Index first, Index last, Index cols, float eps) {
    for (Index row = first; row < last; ++row) {
        const float scale = float(1.0 / std::sqrt(sum_of_squares(x + row * cols, cols) / double(cols) + double(eps)));
        scale_row<Streaming>(x + row * cols, weight, y + row * cols, cols, scale);
    }
}

}  // namespace

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    const bool streaming = rows * cols * Index(sizeof(float)) >= Index(STREAM_BYTES);
    const Index chunk = ROWS_PER_TASK > 0 ? Index(ROWS_PER_TASK) : (rows + THREADS - 1) / THREADS;
    const Index tasks = chunk > 0 ? (rows + chunk - 1) / chunk : 0;
#pragma omp parallel for schedule(static, 1) num_threads(THREADS) if (THREADS > 1 && tasks > 1)
    for (Index task = 0; task < tasks; ++task) {
        const Index first = task * chunk;
        const Index last = std::min(rows, first + chunk);
        if (streaming) {
            rows_of<true>(x, weight, y, first, last, cols, eps);
        } else {
            rows_of<false>(x, weight, y, first, last, cols, eps);
        }
    }
    if (streaming) _mm_sfence();
}
