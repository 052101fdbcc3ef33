// The gradient of RMSNorm, each of x and dy read once. With n = x · rstd (a row's factor), g = dy · weight and all arithmetic in fp32:
//   dx[r, :] = rstd[r] · (g − n · mean(g · n)),   dweight[c] = Σ over rows of dy · n.
//
// Shapes: x, dy and dx are rows × cols of T; weight and dweight cols, rstd rows of fp32; partial parts × cols of fp32.
// A row is owned by `tpr` neighbouring threads of each CTA of a cluster (of one CTA, mostly). Each holds ELEMENTS of its columns in registers
// from the load to the store, and its columns' weight and sums of dweight from the CTA's first row to its last; a cluster then writes one row
// of `partial`, and a second launch adds these up in a fixed order. What bounds each regime:
//   few columns   bytes in flight: many rows a CTA, and with PREFETCH the next row's loads are issued before this row's mean is known
//   one CTA a row the barrier of the row's mean, behind the same loads
//   clusters      the cluster's barrier (two buffers by turns, so one a row), and registers: x, dy, weight and sums of 32 columns are 96
// Rows that can't be read 16 bytes at a time, or are longer than the cluster's registers, take a CTA or cluster each, one element at a time,
// with their sums in `partial` itself. Not measured yet: a seed for search.
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

struct Shared {
  float warps[2][WARP], ctas[2][16];
};

template <class T, int ELEMENTS, bool PREFETCH>
__device__ __forceinline__ void rows_in_registers(
    const T* g_x, const T* g_dy, const float* g_weight, const float* g_rstd, T* g_dx, float* g_sums, long long rows, int cols, int tpr,
    Walk walk, Shared& s, float* s_sums) {
  constexpr int N = 16 / sizeof(T), K = ELEMENTS / N;
  static_assert(ELEMENTS % N == 0, "a thread owns whole accesses");
  const int step = tpr * N, first = cg::this_cluster().block_rank() * tpr * ELEMENTS + threadIdx.x % tpr * N;
  long long row = walk.row;

  Vector<float, N> r_weight[K], r_sums[K] = {};
  load(r_weight, g_weight, first, step, cols);
  Vector<T, N> r_x[K], r_dy[K], r_next_x[PREFETCH ? K : 1], r_next_dy[PREFETCH ? K : 1];
  // A row that is not there has no columns.
  if constexpr (PREFETCH) {
    load(r_next_x, g_x + row * cols, first, step, row < rows ? cols : 0);
    load(r_next_dy, g_dy + row * cols, first, step, row < rows ? cols : 0);
  }
  for (long long turn = 0; turn < walk.turns; ++turn, row += walk.stride) {
    const int here = row < rows ? cols : 0;
    const float rstd = row < rows ? g_rstd[row] : 0.f;
    if constexpr (PREFETCH) {
      const int there = row + walk.stride < rows ? cols : 0;
#pragma unroll
      for (int k = 0; k < K; ++k) r_x[k] = r_next_x[k], r_dy[k] = r_next_dy[k];
      load(r_next_x, g_x + (row + walk.stride) * cols, first, step, there);
      load(r_next_dy, g_dy + (row + walk.stride) * cols, first, step, there);
    } else {
      load(r_x, g_x + row * cols, first, step, here);
      load(r_dy, g_dy + row * cols, first, step, here);
    }
    float products = 0.f;
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float normalised = static_cast<float>(r_x[k].element[i]) * rstd, gradient = static_cast<float>(r_dy[k].element[i]);
        products += gradient * r_weight[k].element[i] * normalised;
        r_sums[k].element[i] += gradient * normalised;
      }
    }
    const int buffer = static_cast<int>(turn % 2);
    const float mean = sum_over_cluster(sum_over_row(products, tpr, s.warps, buffer), s.ctas, buffer) / static_cast<float>(cols);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      Vector<T, N> r_dx;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float normalised = static_cast<float>(r_x[k].element[i]) * rstd;
        const float scaled = static_cast<float>(r_dy[k].element[i]) * r_weight[k].element[i];
        r_dx.element[i] = static_cast<T>(rstd * (scaled - normalised * mean));
      }
      store(r_dx, g_dx + row * cols, first + k * step, here);
    }
  }

  // The rows that this CTA had at a time are added up in their order.
  const int own_rows = blockDim.x / tpr;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (own_rows > 1) {
      __syncthreads();
#pragma unroll
      for (int i = 0; i < N; ++i) s_sums[threadIdx.x + i * blockDim.x] = r_sums[k].element[i];
      __syncthreads();
      for (int other = 1; other < own_rows && threadIdx.x < tpr; ++other) {
#pragma unroll
        for (int i = 0; i < N; ++i) r_sums[k].element[i] += s_sums[threadIdx.x + other * tpr + i * blockDim.x];
      }
    }
    if (threadIdx.x < tpr) store(r_sums[k], g_sums, first + k * step, cols);
  }
}

template <class T>
__device__ __forceinline__ void rows_by_element(
    const T* g_x, const T* g_dy, const float* g_weight, const float* g_rstd, T* g_dx, float* g_sums, long long rows, int cols, Shared& s) {
  const auto cluster = cg::this_cluster();
  const int ctas = cluster.num_blocks(), step = ctas * blockDim.x, first = cluster.block_rank() * blockDim.x + threadIdx.x;
  const long long begin = blockIdx.x / ctas, stride = gridDim.x / ctas;
  int buffer = 0;
  for (long long row = begin; row < rows; row += stride, buffer ^= 1) {
    const T *x = g_x + row * cols, *dy = g_dy + row * cols;
    const float rstd = g_rstd[row];
    float products = 0.f;
    for (int at = first; at < cols; at += step) {
      const float normalised = static_cast<float>(x[at]) * rstd, gradient = static_cast<float>(dy[at]);
      products += gradient * g_weight[at] * normalised;
      g_sums[at] = (row == begin ? 0.f : g_sums[at]) + gradient * normalised;
    }
    const float mean = sum_over_cluster(sum_over_row(products, blockDim.x, s.warps, buffer), s.ctas, buffer) / static_cast<float>(cols);
    for (int at = first; at < cols; at += step) {
      const float normalised = static_cast<float>(x[at]) * rstd;
      g_dx[row * cols + at] = static_cast<T>(rstd * (static_cast<float>(dy[at]) * g_weight[at] - normalised * mean));
    }
  }
}

// A CTA has blockDim.x / tpr rows at a time, a cluster of several CTAs one; they walk over the rows in strides of the grid.
template <class T, int ELEMENTS, bool PREFETCH>
__global__ void __launch_bounds__(MOST_THREADS) rmsnorm_bwd_rows(
    const T* g_x, const T* g_dy, const float* g_weight, const float* g_rstd, T* g_dx, float* g_partial, long long rows, int cols, int tpr) {
  constexpr int N = 16 / sizeof(T);
  __shared__ Shared s;
  __shared__ float s_sums[MOST_THREADS * N];
  const auto cluster = cg::this_cluster();
  const int ctas = cluster.num_blocks(), own_rows = blockDim.x / tpr;
  const long long part = blockIdx.x / ctas, stride = static_cast<long long>(gridDim.x / ctas) * own_rows;
  const bool together = cols % N == 0 && cols <= ctas * tpr * ELEMENTS && is_aligned<T, N>(g_x) && is_aligned<T, N>(g_dy) &&
                        is_aligned<T, N>(g_dx) && is_aligned<float, N>(g_weight);
  float* g_sums = g_partial + part * cols;
  // Shared memory of another CTA is there once that CTA has begun, and must be there until nobody writes into it any more.
  if (ctas > 1) cluster.sync();
  if (together) {
    const Walk walk{part * own_rows + threadIdx.x / tpr, stride, (rows + stride - 1) / stride};
    rows_in_registers<T, ELEMENTS, PREFETCH>(g_x, g_dy, g_weight, g_rstd, g_dx, g_sums, rows, cols, tpr, walk, s, s_sums);
  } else {
    rows_by_element(g_x, g_dy, g_weight, g_rstd, g_dx, g_sums, rows, cols, s);
  }
  if (ctas > 1) cluster.sync();
}

// dweight from the partial sums: 32 columns a CTA, each of the warps takes every sixteenth part.
constexpr int SUMMERS = 16;

__global__ void __launch_bounds__(32 * SUMMERS) rmsnorm_bwd_sum(
    const float* g_partial, float* g_dweight, long long parts, long long cols) {
  const long long column = static_cast<long long>(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.f;
  if (column < cols) {
    for (long long part = threadIdx.y; part < parts; part += SUMMERS) sum += g_partial[part * cols + column];
  }
  __shared__ float s_sums[SUMMERS][32];
  s_sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= cols) return;
  float total = 0.f;
#pragma unroll
  for (int warp = 0; warp < SUMMERS; ++warp) total += s_sums[warp][threadIdx.x];
  g_dweight[column] = total;
}
