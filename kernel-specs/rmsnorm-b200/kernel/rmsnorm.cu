// RMSNorm, one CTA a row: y[r, c] = v / sqrt(mean(v[r, :]²) + eps) · weight[c] with v = x + residual, where a residual is given.
//
// Shapes: x, residual and y are rows × cols of T; residual_out rows × cols of fp32; weight cols of W. All arithmetic is fp32.
// Fewest bytes: x (and residual) read once, y (and residual_out) written once. This kernel reads x twice: the second time mostly from the
// cache, since a row was read just before. Thread t owns elements t, t + THREADS, … in units of 16 bytes of x where all rows are aligned.
// Synchronised once: the sum of squares goes through shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__device__ __forceinline__ float to_float(T value) {
  return static_cast<float>(value);
}

template <class T>
__device__ __forceinline__ T from_float(float value) {
  return static_cast<T>(value);
}

// Four, or eight, neighbouring elements.
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

// Rows with N elements an access. The fp32 sum of each thread is short (cols / THREADS elements), so no more precision is needed.
template <class T, class W, int THREADS, int N>
__device__ __forceinline__ void normalise_row(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long cols, float eps) {
  const auto* x = reinterpret_cast<const Vector<T, N>*>(g_x);
  const auto* residual = reinterpret_cast<const Vector<T, N>*>(g_residual);
  const auto* weight = reinterpret_cast<const Vector<W, N>*>(g_weight);
  auto* y = reinterpret_cast<Vector<T, N>*>(g_y);
  auto* residual_out = reinterpret_cast<Vector<float, N>*>(g_residual_out);
  const int count = static_cast<int>(cols / N);

  float squares = 0.f;
  for (int at = threadIdx.x; at < count; at += THREADS) {
    Vector<T, N> in = x[at], add{};
    if (residual) add = residual[at];
    Vector<float, N> sum;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum.element[i] = to_float(in.element[i]) + (residual ? to_float(add.element[i]) : 0.f);
      squares += sum.element[i] * sum.element[i];
    }
    if (residual_out) residual_out[at] = sum;
  }
  const float mean = sum_over_cta<THREADS>(squares) / static_cast<float>(cols);
  const float scale = 1.f / sqrtf(mean + eps);

  for (int at = threadIdx.x; at < count; at += THREADS) {
    Vector<T, N> in = x[at], add{}, out;
    if (residual) add = residual[at];
    Vector<W, N> factor = weight[at];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float sum = to_float(in.element[i]) + (residual ? to_float(add.element[i]) : 0.f);
      out.element[i] = from_float<T>(sum * scale * to_float(factor.element[i]));
    }
    y[at] = out;
  }
}

template <class T, class W, int THREADS>
__global__ void __launch_bounds__(THREADS) rmsnorm(
    const T* g_x, const T* g_residual, const W* g_weight, T* g_y, float* g_residual_out, long long cols, float eps) {
  constexpr int N = 16 / sizeof(T);
  const long long first = blockIdx.x * cols;
  const T* x = g_x + first;
  const T* residual = g_residual ? g_residual + first : nullptr;
  T* y = g_y + first;
  float* residual_out = g_residual_out ? g_residual_out + first : nullptr;
  const bool aligned = cols % N == 0 && is_aligned<T, N>(x) && is_aligned<T, N>(y) && is_aligned<W, N>(g_weight) &&
                       is_aligned<T, N>(residual) && is_aligned<float, N>(residual_out);
  if (aligned) {
    normalise_row<T, W, THREADS, N>(x, residual, g_weight, y, residual_out, cols, eps);
  } else {
    normalise_row<T, W, THREADS, 1>(x, residual, g_weight, y, residual_out, cols, eps);
  }
}
