// The gradient of RMSNorm, in three launches. With n = x · rstd (a row's factor), g = dy · weight and all arithmetic in fp32:
//   dx[r, :] = rstd[r] · (g − n · mean(g · n)),   dweight[c] = Σ over rows of dy · n.
//
// Shapes: x, dy and dx are rows × cols of T; weight and dweight cols, rstd rows of fp32. Fewest bytes: x and dy read once, dx written once.
// This kernel reads x and dy three times: twice for dx (the second time mostly from the cache), and once more for dweight, since a row's
// sum and a column's sum want different CTAs. Every sum has a fixed order, so that the same inputs give the same bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Neighbouring elements: one access of 16 bytes of T.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T element[N];
};

template <class T, int N>
__device__ __forceinline__ bool is_aligned(const T* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % sizeof(Vector<T, N>) == 0;
}

template <int THREADS>
__device__ __forceinline__ float sum_over_cta(float value) {
  __shared__ float s_warps[THREADS / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) s_warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.f;
#pragma unroll
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += s_warps[warp];
  return sum;
}

// One row of dx with N elements an access: thread t owns accesses t, t + THREADS, …; synchronised once, for the row's mean.
template <class T, int THREADS, int N>
__device__ __forceinline__ void row_of_dx(
    const T* g_x, const T* g_dy, const float* g_weight, float rstd, T* g_dx, long long cols) {
  const auto* x = reinterpret_cast<const Vector<T, N>*>(g_x);
  const auto* dy = reinterpret_cast<const Vector<T, N>*>(g_dy);
  const auto* weight = reinterpret_cast<const Vector<float, N>*>(g_weight);
  auto* dx = reinterpret_cast<Vector<T, N>*>(g_dx);
  const int count = static_cast<int>(cols / N);

  float products = 0.f;
  for (int at = threadIdx.x; at < count; at += THREADS) {
    const Vector<T, N> in = x[at], gradient = dy[at];
    const Vector<float, N> factor = weight[at];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = static_cast<float>(gradient.element[i]) * factor.element[i];
      products += scaled * (static_cast<float>(in.element[i]) * rstd);
    }
  }
  const float mean = sum_over_cta<THREADS>(products) / static_cast<float>(cols);

  for (int at = threadIdx.x; at < count; at += THREADS) {
    const Vector<T, N> in = x[at], gradient = dy[at];
    const Vector<float, N> factor = weight[at];
    Vector<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = static_cast<float>(gradient.element[i]) * factor.element[i];
      const float normalised = static_cast<float>(in.element[i]) * rstd;
      out.element[i] = static_cast<T>(rstd * (scaled - normalised * mean));
    }
    dx[at] = out;
  }
}

template <class T, int THREADS>
__global__ void __launch_bounds__(THREADS) rmsnorm_bwd_dx(
    const T* g_x, const T* g_dy, const float* g_weight, const float* g_rstd, T* g_dx, long long cols) {
  constexpr int N = 16 / sizeof(T);
  const long long first = blockIdx.x * cols;
  const T *x = g_x + first, *dy = g_dy + first;
  T* dx = g_dx + first;
  const bool aligned =
      cols % N == 0 && is_aligned<T, N>(x) && is_aligned<T, N>(dy) && is_aligned<T, N>(dx) && is_aligned<float, N>(g_weight);
  if (aligned) {
    row_of_dx<T, THREADS, N>(x, dy, g_weight, g_rstd[blockIdx.x], dx, cols);
  } else {
    row_of_dx<T, THREADS, 1>(x, dy, g_weight, g_rstd[blockIdx.x], dx, cols);
  }
}

// A tile of 32 · N columns and part blockIdx.y of the rows. Each of the 8 warps takes every eighth row of the part, and thread t of a warp
// sums N columns in registers: neighbours t · N + i where an access takes them together, else t + 32 · i. Warp 0 adds up the warps.
constexpr int WARPS = 8;

template <class T>
__global__ void __launch_bounds__(32 * WARPS) rmsnorm_bwd_partial(
    const T* g_x, const T* g_dy, const float* g_rstd, float* g_partial, long long rows, long long cols) {
  constexpr int N = 16 / sizeof(T);
  const long long each = (rows + gridDim.y - 1) / gridDim.y;
  const long long begin = blockIdx.y * each, end = min(begin + each, rows);
  const long long tile = static_cast<long long>(blockIdx.x) * 32 * N;
  const bool together = cols % N == 0 && is_aligned<T, N>(g_x) && is_aligned<T, N>(g_dy);

  float sums[N] = {};
  for (long long row = begin + threadIdx.y; row < end; row += WARPS) {
    const float rstd = g_rstd[row];
    const long long first = row * cols + tile;
    Vector<T, N> x{}, dy{};
    if (together) {
      if (tile + threadIdx.x * N < cols) {
        x = reinterpret_cast<const Vector<T, N>*>(g_x + first)[threadIdx.x];
        dy = reinterpret_cast<const Vector<T, N>*>(g_dy + first)[threadIdx.x];
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (tile + threadIdx.x + 32 * i < cols) {
          x.element[i] = g_x[first + threadIdx.x + 32 * i];
          dy.element[i] = g_dy[first + threadIdx.x + 32 * i];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[i] += static_cast<float>(dy.element[i]) * (static_cast<float>(x.element[i]) * rstd);
    }
  }

  __shared__ float s_sums[WARPS][N][32];
#pragma unroll
  for (int i = 0; i < N; ++i) s_sums[threadIdx.y][i][threadIdx.x] = sums[i];
  __syncthreads();
  if (threadIdx.y != 0) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const long long column = tile + (together ? threadIdx.x * N + i : threadIdx.x + 32 * i);
    float sum = 0.f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) sum += s_sums[warp][i][threadIdx.x];
    if (column < cols) g_partial[blockIdx.y * cols + column] = sum;
  }
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
