// Rows held in registers, up to 16384 columns: every load of a CTA's rows is issued before the first use.
//
// TPR neighbouring threads own DEPTH rows; thread t of them holds accesses t, t + TPR, … of 16 bytes, ELEMENTS columns a row at most. A CTA
// of THREADS threads has THREADS / TPR · DEPTH rows and ends with them: other CTAs of the SM read while this one writes. x moves once; the
// weight comes from the first-level cache. Synchronised where a row has more threads than a warp, by one barrier for all DEPTH sums.
// Bound by: bytes in flight (DEPTH · ELEMENTS a thread, and as many CTAs an SM as registers allow) up to 1024 columns, the memory beyond.
#pragma once
#include "common.cuh"

template <class T, class W, bool RESIDUAL, int CTAS, int TPR, int ELEMENTS, int DEPTH, int THREADS, int RESIDENT, bool STREAMING>
__global__ void __launch_bounds__(THREADS, RESIDENT / THREADS) rmsnorm_registers(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long rows, int cols, float per_column,
    float eps) {
  constexpr int N = 16 / sizeof(T), K = ELEMENTS / N, GROUPS = THREADS / TPR;
  static_assert(ELEMENTS % N == 0 && THREADS % TPR == 0, "whole accesses, whole groups of threads");
  static_assert(CTAS == 1, "rows that need a cluster are for the other kernel");
  const Tensors<T, W> g{g_x, g_residual, g_weight, g_y, g_residual_out, rows, cols, per_column, eps};
  if (!fits(g, TPR * ELEMENTS)) {
    return rows_by_element<T, W, RESIDUAL, TPR, THREADS>(g, 1ll * blockIdx.x * GROUPS + threadIdx.x / TPR, 1ll * gridDim.x * GROUPS);
  }
  const long long first_row = 1ll * blockIdx.x * GROUPS * DEPTH + threadIdx.x / TPR;
  const int first = threadIdx.x % TPR * N;
  const auto is_there = [&](int r, int k) { return first_row + r * GROUPS < rows && first + k * TPR * N < cols; };
  const auto place = [&](int r, int k) { return (first_row + r * GROUPS) * cols + first + k * TPR * N; };

  Vector<T, N> r_x[DEPTH][K]{}, r_residual[DEPTH][K]{};
#pragma unroll
  for (int r = 0; r < DEPTH; ++r) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (!is_there(r, k)) continue;
      r_x[r][k] = load_once<STREAMING, T, N>(g_x + place(r, k));
      if constexpr (RESIDUAL) r_residual[r][k] = load_once<STREAMING, T, N>(g_residual + place(r, k));
    }
  }
  constexpr bool EARLY = ELEMENTS <= EARLY_ELEMENTS;
  Vector<W, N> r_weight[EARLY ? K : 1];
  if constexpr (EARLY) {
#pragma unroll
    for (int k = 0; k < K; ++k)
      if (first + k * TPR * N < cols) r_weight[k] = load<W, N>(g_weight + first + k * TPR * N);
  }

  float squares[DEPTH]{};
#pragma unroll
  for (int r = 0; r < DEPTH; ++r) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Vector<float, N> v = summed<RESIDUAL>(r_x[r][k], r_residual[r][k]);
      squares[r] = squares_of(v, squares[r]);
      if constexpr (RESIDUAL) {
        if (is_there(r, k)) store_once<STREAMING, float, N>(g_residual_out + place(r, k), v);
      }
    }
  }
  __shared__ float s_warps[DEPTH][THREADS / WARP];
  sum_over_rows<TPR, THREADS>(squares, s_warps);

#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * TPR * N >= cols) continue;
    if constexpr (!EARLY) r_weight[0] = load<W, N>(g_weight + first + k * TPR * N);
#pragma unroll
    for (int r = 0; r < DEPTH; ++r) {
      forget(r_x[r][k]);
      const Vector<float, N> v = summed<RESIDUAL>(r_x[r][k], r_residual[r][k]);
      const Vector<T, N> r_y = normalised<T>(v, scale_of(g, squares[r]), r_weight[EARLY ? k : 0]);
      if (is_there(r, k)) store_once<STREAMING, T, N>(g_y + place(r, k), r_y);
    }
  }
}
