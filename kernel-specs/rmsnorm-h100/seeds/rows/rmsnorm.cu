// RMSNorm forward: y[r, c] = v / sqrt(mean(v[r, :]²) + eps) · weight[c], v = x + residual where a residual is given (then residual_out = v).
//
// Shapes: x, residual, y are rows × cols of T; residual_out rows × cols of fp32; weight cols of W. Fewest bytes: each of them moves once.
// A row is owned by `tpr` neighbouring threads of each CTA of a cluster (of one CTA, mostly), and each holds ELEMENTS of its columns in
// registers from the load to the store, so x is read once; the weight stays there from a CTA's first row to its last. What bounds each regime:
//   few columns   bytes in flight: many rows a CTA, and the next row's loads are issued before this row's sum is known
//   one CTA a row the barrier of the row's sum, behind the same loads
//   clusters      the cluster's barrier; a row's slices meet in distributed shared memory, in two buffers by turns, so one barrier is enough
// Thread t of a row owns, in each CTA, accesses t, t + tpr, … of 16 bytes of x. Rows that can't be read like this, or are longer than the
// cluster's registers, are read twice, one element at a time. Not measured yet: a seed for search.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

// Neighbouring elements: one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T element[N];
};

template <class T, int N>
__device__ __forceinline__ bool is_aligned(const T* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % sizeof(Vector<T, N>) == 0;
}

constexpr int WARP = 32, MOST_THREADS = 512;

// The sum over the `tpr` neighbouring threads of a row in this CTA, known to all of them; a power of two. `buffer` alternates from row to
// row: a warp that is ahead writes where nobody reads any more.
__device__ __forceinline__ float sum_over_row(float value, int tpr, float (*s_warps)[WARP], int buffer) {
  for (int distance = min(tpr, WARP) / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (tpr > WARP) {
    const int warp = threadIdx.x / WARP, warps = tpr / WARP;
    if (threadIdx.x % WARP == 0) s_warps[buffer][warp] = value;
    __syncthreads();
    const int first = warp / warps * warps;
    value = 0.f;
    for (int i = 0; i < warps; ++i) value += s_warps[buffer][first + i];
  }
  return value;
}

// The sum over the CTAs of a cluster: each tells its own to all, then all wait.
__device__ __forceinline__ float sum_over_cluster(float value, float (*s_ctas)[16], int buffer) {
  auto cluster = cg::this_cluster();
  const unsigned ctas = cluster.num_blocks();
  if (ctas > 1) {
    if (threadIdx.x < ctas) *cluster.map_shared_rank(&s_ctas[buffer][cluster.block_rank()], threadIdx.x) = value;
    cluster.sync();
    value = 0.f;
    for (unsigned i = 0; i < ctas; ++i) value += s_ctas[buffer][i];
  }
  return value;
}

// The columns that one thread owns: K accesses of N, the first at column `first`, `step` apart.
template <class T, int N, int K>
__device__ __forceinline__ void load(Vector<T, N> (&r)[K], const T* g_row, int first, int step, int cols) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
    r[k] = {};
    if (first + k * step < cols) r[k] = *reinterpret_cast<const Vector<T, N>*>(g_row + first + k * step);
  }
}

template <class T, int N>
__device__ __forceinline__ void store(const Vector<T, N>& r, T* g_row, int at, int cols) {
  if (at < cols) *reinterpret_cast<Vector<T, N>*>(g_row + at) = r;
}

// Which rows a thread works on: the first, how far apart, and how many turns its whole cluster makes (it meets in barriers).
struct Walk {
  long long row, stride, turns;
};

template <class T, class W, int ELEMENTS, bool RESIDUAL>
__device__ __forceinline__ void rows_in_registers(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long rows, int cols, int tpr, float eps,
    Walk walk, float (*s_warps)[WARP], float (*s_ctas)[16]) {
  constexpr int N = 16 / sizeof(T), K = ELEMENTS / N;
  static_assert(ELEMENTS % N == 0, "a thread owns whole accesses");
  const int step = tpr * N, first = cg::this_cluster().block_rank() * tpr * ELEMENTS + threadIdx.x % tpr * N;
  long long row = walk.row;

  Vector<W, N> r_weight[K];
  load(r_weight, g_weight, first, step, cols);
  // A row that is not there has no columns.
  Vector<T, N> r_x[K], r_next[K], r_residual[K], r_next_residual[K];
  load(r_next, g_x + row * cols, first, step, row < rows ? cols : 0);
  if constexpr (RESIDUAL) load(r_next_residual, g_residual + row * cols, first, step, row < rows ? cols : 0);

  for (long long turn = 0; turn < walk.turns; ++turn, row += walk.stride) {
    const int here = row < rows ? cols : 0, there = row + walk.stride < rows ? cols : 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      r_x[k] = r_next[k];
      if constexpr (RESIDUAL) r_residual[k] = r_next_residual[k];
    }
    load(r_next, g_x + (row + walk.stride) * cols, first, step, there);
    if constexpr (RESIDUAL) load(r_next_residual, g_residual + (row + walk.stride) * cols, first, step, there);

    // Made again after the sum is known: the narrow values take half the registers meanwhile.
    const auto value_at = [&](int k, int i) {
      float value = static_cast<float>(r_x[k].element[i]);
      if constexpr (RESIDUAL) value += static_cast<float>(r_residual[k].element[i]);
      return value;
    };
    float squares = 0.f;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      Vector<float, N> r_sum;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        r_sum.element[i] = value_at(k, i);
        squares += r_sum.element[i] * r_sum.element[i];
      }
      if constexpr (RESIDUAL) store(r_sum, g_residual_out + row * cols, first + k * step, here);
    }
    const int buffer = static_cast<int>(turn % 2);
    squares = sum_over_cluster(sum_over_row(squares, tpr, s_warps, buffer), s_ctas, buffer);
    const float scale = 1.f / sqrtf(squares / static_cast<float>(cols) + eps);

#pragma unroll
    for (int k = 0; k < K; ++k) {
      Vector<T, N> r_y;
#pragma unroll
      for (int i = 0; i < N; ++i)
        r_y.element[i] = static_cast<T>(value_at(k, i) * scale * static_cast<float>(r_weight[k].element[i]));
      store(r_y, g_y + row * cols, first + k * step, here);
    }
  }
}

template <class T, class W, bool RESIDUAL>
__device__ __forceinline__ void rows_by_element(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long rows, int cols, int tpr, float eps,
    Walk walk, float (*s_warps)[WARP], float (*s_ctas)[16]) {
  const auto cluster = cg::this_cluster();
  const int step = cluster.num_blocks() * tpr, first = cluster.block_rank() * tpr + threadIdx.x % tpr;
  long long row = walk.row;
  for (long long turn = 0; turn < walk.turns; ++turn, row += walk.stride) {
    const int here = row < rows ? cols : 0;
    const long long begin = row * cols;
    const auto value_at = [&](int at) {
      return static_cast<float>(g_x[begin + at]) + (RESIDUAL ? static_cast<float>(g_residual[begin + at]) : 0.f);
    };
    float squares = 0.f;
    for (int at = first; at < here; at += step) {
      const float value = value_at(at);
      squares += value * value;
      if constexpr (RESIDUAL) g_residual_out[begin + at] = value;
    }
    const int buffer = static_cast<int>(turn % 2);
    squares = sum_over_cluster(sum_over_row(squares, tpr, s_warps, buffer), s_ctas, buffer);
    const float scale = 1.f / sqrtf(squares / static_cast<float>(cols) + eps);
    for (int at = first; at < here; at += step)
      g_y[begin + at] = static_cast<T>(value_at(at) * scale * static_cast<float>(g_weight[at]));
  }
}

// A CTA has blockDim.x / tpr rows at a time, a cluster of several CTAs one; they walk over the rows in strides of the grid.
template <class T, class W, int ELEMENTS, bool RESIDUAL>
__global__ void __launch_bounds__(MOST_THREADS) rmsnorm_rows(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long rows, int cols, int tpr, float eps) {
  constexpr int N = 16 / sizeof(T);
  __shared__ float s_warps[2][WARP], s_ctas[2][16];
  const auto cluster = cg::this_cluster();
  const int ctas = cluster.num_blocks(), own_rows = blockDim.x / tpr;
  const long long stride = static_cast<long long>(gridDim.x / ctas) * own_rows;
  const Walk walk{static_cast<long long>(blockIdx.x / ctas) * own_rows + threadIdx.x / tpr, stride, (rows + stride - 1) / stride};
  const bool together = cols % N == 0 && cols <= ctas * tpr * ELEMENTS && is_aligned<T, N>(g_x) && is_aligned<T, N>(g_residual) &&
                        is_aligned<T, N>(g_y) && is_aligned<W, N>(g_weight) && is_aligned<float, N>(g_residual_out);
  // Shared memory of another CTA is there once that CTA has begun, and must be there until nobody writes into it any more.
  if (ctas > 1) cluster.sync();
  if (together) {
    rows_in_registers<T, W, ELEMENTS, RESIDUAL>(
        g_x, g_residual, g_weight, g_y, g_residual_out, rows, cols, tpr, eps, walk, s_warps, s_ctas);
  } else {
    rows_by_element<T, W, RESIDUAL>(g_x, g_residual, g_weight, g_y, g_residual_out, rows, cols, tpr, eps, walk, s_warps, s_ctas);
  }
  if (ctas > 1) cluster.sync();
}
