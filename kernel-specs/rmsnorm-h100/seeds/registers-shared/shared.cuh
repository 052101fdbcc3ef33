// Rows held in shared memory, from 16384 columns on: a cluster of CTAS works on one row, each CTA on one slice of its columns.
//
// One bulk copy brings a CTA's slice, of THREADS · ELEMENTS columns at most; thread t owns accesses t, t + THREADS, … of 16 bytes, and reads
// them twice from shared memory, so x moves once and registers don't limit how many CTAs an SM has. The weight comes from the caches.
// A CTA ends with its row, so that rows are read and written in order.
// Synchronised by the copy's mbarrier, a barrier in the CTA, and four bytes from every CTA of the cluster to every other's mbarrier.
// Bound by the memory: two or three CTAs an SM read while another writes.
#pragma once
#include "common.cuh"

template <class T, class W, bool RESIDUAL, int CTAS, int TPR, int ELEMENTS, int DEPTH, int THREADS, int RESIDENT, bool STREAMING>
__global__ void __launch_bounds__(THREADS, RESIDENT / THREADS) rmsnorm_shared(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long rows, int cols, float per_column,
    float eps) {
  constexpr int N = 16 / sizeof(T), K = ELEMENTS / N, MOST = THREADS * ELEMENTS;
  static_assert(ELEMENTS % N == 0 && THREADS == TPR && DEPTH == 1, "whole accesses; all threads of a CTA work on one row");
  const Tensors<T, W> g{g_x, g_residual, g_weight, g_y, g_residual_out, rows, cols, per_column, eps};
  if (!fits(g, CTAS * MOST)) return rows_by_element<T, W, RESIDUAL, TPR, THREADS>(g, blockIdx.x, gridDim.x);
  const Slice slice = slice_of<CTAS, N>(cols);
  const long long place = 1ll * (blockIdx.x / CTAS) * cols + slice.begin;

  extern __shared__ __align__(128) unsigned char s_slices[];
  T *const s_x = reinterpret_cast<T*>(s_slices), *const s_residual = s_x + MOST;
  __shared__ uint64_t s_full, s_sums;
  __shared__ float s_warps[1][THREADS / WARP], s_ctas[CTAS];
  if (threadIdx.x == 0) {
    const uint32_t bytes = slice.width * sizeof(T);
    mbarrier_init(&s_full, 1);
    mbarrier_init(&s_sums, 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect_tx(&s_full, bytes * (RESIDUAL ? 2 : 1));
    if (bytes > 0) cp_async_bulk(s_x, g_x + place, bytes, &s_full);
    if (RESIDUAL && bytes > 0) cp_async_bulk(s_residual, g_residual + place, bytes, &s_full);
  }
  __syncthreads();
  if constexpr (CTAS > 1) barrier_cluster_arrive();
  wait(&s_full, 0);

  const auto value_of = [&](int at) {
    const auto r_x = load<T, N>(s_x + at);
    return summed<RESIDUAL>(r_x, RESIDUAL ? load<T, N>(s_residual + at) : r_x);
  };
  float squares[1] = {0.f};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int at = (threadIdx.x + k * THREADS) * N;
    if (at >= slice.width) continue;
    const Vector<float, N> v = value_of(at);
    squares[0] = squares_of(v, squares[0]);
    if constexpr (RESIDUAL) store_once<STREAMING, float, N>(g_residual_out + place + at, v);
  }
  sum_over_rows<TPR, THREADS>(squares, s_warps);
  if constexpr (CTAS > 1) {
    // Behind this the other CTAs have begun, and their mbarriers are there.
    barrier_cluster_wait();
    sum_over_cluster<CTAS>(squares[0], s_ctas, &s_sums);
  }
  const float scale = scale_of(g, squares[0]);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int at = (threadIdx.x + k * THREADS) * N;
    if (at >= slice.width) continue;
    const auto r_weight = load<W, N>(g_weight + slice.begin + at);
    store_once<STREAMING, T, N>(g_y + place + at, normalised<T>(value_of(at), scale, r_weight));
  }
}
