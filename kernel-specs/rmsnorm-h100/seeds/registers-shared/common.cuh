// What both kernels are made of: the tensors, accesses of 16 bytes, sums over a row's threads, and rows that can't be read so.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cuda/std/type_traits>

#include "ptx.cuh"

constexpr int WARP = 32;
// Of rows in registers with so few columns a thread, the weight is on its way before the sums are known. With more it would take the
// registers of CTAs that read meanwhile.
constexpr int EARLY_ELEMENTS = 8;

// Shapes: x, residual and y are rows × cols of T, residual_out rows × cols of fp32, weight cols of W.
template <class T, class W>
struct Tensors {
  const T* g_x;
  const T* g_residual;
  const W* g_weight;
  T* g_y;
  float* g_residual_out;
  long long rows;
  int cols;
  float per_column;  // 1 / cols
  float eps;
};

// N neighbouring elements, read and written 16 bytes at a time.
template <class T, int N>
struct alignas(16) Vector {
  static_assert(sizeof(T) * N % 16 == 0, "whole accesses");
  T element[N];
};

// From shared or global memory, in whole accesses: left to itself the compiler may read element by element.
template <class T, int N>
__device__ __forceinline__ Vector<T, N> load(const T* at) {
  Vector<T, N> r;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(r) / 16); ++i) reinterpret_cast<uint4*>(&r)[i] = reinterpret_cast<const uint4*>(at)[i];
  return r;
}

// What no other call of the kernel, and nobody else in this one, reads: STREAMING says so to the caches.
template <bool STREAMING, class T, int N>
__device__ __forceinline__ Vector<T, N> load_once(const T* g_at) {
  if constexpr (STREAMING) {
    Vector<T, N> r;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(r) / 16); ++i)
      reinterpret_cast<uint4*>(&r)[i] = ld_global_nc_no_allocate(reinterpret_cast<const uint4*>(g_at) + i);
    return r;
  } else {
    return load<T, N>(g_at);
  }
}

template <bool STREAMING, class T, int N>
__device__ __forceinline__ void store_once(T* g_at, const Vector<T, N>& r) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(r) / 16); ++i) {
    auto* const g_to = reinterpret_cast<uint4*>(g_at) + i;
    const uint4 part = reinterpret_cast<const uint4*>(&r)[i];
    if constexpr (STREAMING) {
      st_global_streaming(g_to, part);
    } else {
      *g_to = part;
    }
  }
}

template <class T, int N>
__device__ __forceinline__ Vector<float, N> widened(const Vector<T, N>& r) {
  Vector<float, N> wide;
#pragma unroll
  for (int i = 0; i < N; ++i) wide.element[i] = static_cast<float>(r.element[i]);
  return wide;
}

// Two at a time: there is one instruction for a pair.
template <class T, int N>
__device__ __forceinline__ Vector<T, N> narrowed(const Vector<float, N>& wide) {
  Vector<T, N> r;
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    const float a = wide.element[i], b = wide.element[i + 1];
    if constexpr (sizeof(T) == 4) {
      r.element[i] = a, r.element[i + 1] = b;
    } else if constexpr (cuda::std::is_same_v<T, __half>) {
      *reinterpret_cast<__half2*>(&r.element[i]) = __floats2half2_rn(a, b);
    } else {
      *reinterpret_cast<__nv_bfloat162*>(&r.element[i]) = __floats2bfloat162_rn(a, b);
    }
  }
  return r;
}

// Lets the compiler forget what it made of these values, so that it widens them again instead of keeping twice as many registers.
template <class T, int N>
__device__ __forceinline__ void forget(Vector<T, N>& r) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(r) / 4); ++i) asm volatile("" : "+r"(reinterpret_cast<uint32_t*>(&r)[i]));
}

// v = x, or x + residual.
template <bool RESIDUAL, class T, int N>
__device__ __forceinline__ Vector<float, N> summed(const Vector<T, N>& r_x, const Vector<T, N>& r_residual) {
  Vector<float, N> v = widened(r_x);
  if constexpr (RESIDUAL) {
#pragma unroll
    for (int i = 0; i < N; ++i) v.element[i] += static_cast<float>(r_residual.element[i]);
  }
  return v;
}

template <int N>
__device__ __forceinline__ float squares_of(const Vector<float, N>& v, float sum) {
#pragma unroll
  for (int i = 0; i < N; ++i) sum = fmaf(v.element[i], v.element[i], sum);
  return sum;
}

template <class T, class W, int N>
__device__ __forceinline__ Vector<T, N> normalised(Vector<float, N> v, float scale, const Vector<W, N>& r_weight) {
#pragma unroll
  for (int i = 0; i < N; ++i) v.element[i] = v.element[i] * scale * static_cast<float>(r_weight.element[i]);
  return narrowed<T>(v);
}

// The same sum in all of THREADS neighbouring threads of a warp.
template <int THREADS>
__device__ __forceinline__ float sum_over_lanes(float value) {
#pragma unroll
  for (int distance = THREADS / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

// The sums of COUNT rows at once over the TPR neighbouring threads that own them: one barrier, whatever COUNT is.
template <int TPR, int THREADS, int COUNT>
__device__ __forceinline__ void sum_over_rows(float (&values)[COUNT], float (&s_warps)[COUNT][THREADS / WARP]) {
#pragma unroll
  for (int r = 0; r < COUNT; ++r) values[r] = sum_over_lanes<(TPR < WARP ? TPR : WARP)>(values[r]);
  if constexpr (TPR > WARP) {
    constexpr int WARPS = TPR / WARP;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
#pragma unroll
    for (int r = 0; r < COUNT; ++r)
      if (lane == 0) s_warps[r][warp] = values[r];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < COUNT; ++r) values[r] = sum_over_lanes<WARPS>(s_warps[r][warp / WARPS * WARPS + lane % WARPS]);
  }
}

__device__ __forceinline__ void wait(uint64_t* s_barrier, uint32_t parity) {
  while (!mbarrier_try_wait_parity(s_barrier, parity)) {
  }
}

// A row's sum over the CTAS of a cluster, in the same order for all. Every CTA sends its own four bytes to the others' mbarrier, used once,
// and waits for theirs, so none ends before the others have what they need of it.
template <int CTAS>
__device__ __forceinline__ void sum_over_cluster(float& value, float (&s_ctas)[CTAS], uint64_t* s_barrier) {
  if (threadIdx.x == 0) mbarrier_arrive_expect_tx(s_barrier, sizeof(s_ctas));
  if (threadIdx.x < CTAS) st_async(mapa(&s_ctas[cluster_ctarank()], threadIdx.x), value, mapa(s_barrier, threadIdx.x));
  wait(s_barrier, 0);
  value = 0.f;
#pragma unroll
  for (int i = 0; i < CTAS; ++i) value += s_ctas[i];
}

// The columns of a CTA: `width` of them from `begin`, in whole accesses of N.
struct Slice {
  int begin, width;
};

template <int CTAS, int N>
__device__ __forceinline__ Slice slice_of(int cols) {
  const int most = (cols / N + CTAS - 1) / CTAS * N, begin = cluster_ctarank() * most;
  return {begin, max(0, min(most, cols - begin))};
}

template <class T, class W>
__device__ __forceinline__ float scale_of(const Tensors<T, W>& g, float squares) {
  return rsqrtf(fmaf(squares, g.per_column, g.eps));
}

// Whether every row can be read 16 bytes at a time, and has no more columns than the caller holds.
template <class T, class W>
__device__ __forceinline__ bool fits(const Tensors<T, W>& g, int most) {
  const auto address = [](const void* pointer) { return reinterpret_cast<uint64_t>(pointer); };
  const uint64_t all = address(g.g_x) | address(g.g_residual) | address(g.g_weight) | address(g.g_y) | address(g.g_residual_out);
  return all % 16 == 0 && g.cols % (16 / sizeof(T)) == 0 && g.cols <= most;
}

// Any rows, from `row` in steps of `stride`, one element at a time, read twice; not unrolled, so that it costs the others no registers.
// TPR threads a row; all threads of a CTA come here together.
template <class T, class W, bool RESIDUAL, int TPR, int THREADS>
__device__ __forceinline__ void rows_by_element(const Tensors<T, W>& g, long long row, long long stride) {
  __shared__ float s_warps[2][1][THREADS / WARP];
  const int first = threadIdx.x % TPR;
  for (int turn = 0; row - threadIdx.x / TPR < g.rows; ++turn, row += stride) {
    const int cols = row < g.rows ? g.cols : 0;
    const long long begin = row * g.cols;
    const auto value_at = [&](int at) {
      float v = static_cast<float>(g.g_x[begin + at]);
      if constexpr (RESIDUAL) v += static_cast<float>(g.g_residual[begin + at]);
      return v;
    };
    float squares[1] = {0.f};
#pragma unroll 1
    for (int at = first; at < cols; at += TPR) {
      const float v = value_at(at);
      squares[0] = fmaf(v, v, squares[0]);
      if constexpr (RESIDUAL) g.g_residual_out[begin + at] = v;
    }
    // In two buffers by turns: a warp that is ahead writes where nobody reads any more.
    sum_over_rows<TPR, THREADS>(squares, s_warps[turn % 2]);
    const float scale = scale_of(g, squares[0]);
#pragma unroll 1
    for (int at = first; at < cols; at += TPR)
      g.g_y[begin + at] = static_cast<T>(value_at(at) * scale * static_cast<float>(g.g_weight[at]));
  }
}
