// The launcher's own kernels. Copies move `count` bytes (a multiple of 16) at 16 bytes a thread and access.
#include <cuda/std/cstdint>

using Vector = uint4;

// Reads `bytes` so that every cache holds these lines, clean, and nothing else. Nothing is written: the sum is never this value.
extern "C" __global__ void __launch_bounds__(1024) sweep(const Vector* g_memory, long long bytes) {
  long long count = bytes / sizeof(Vector), stride = (long long)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
    Vector value = __ldcg(g_memory + at);
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
  if (sum == 0x5eedf00du) __trap();
}

// Writes what nobody foresees over all shared memory that a CTA can have: of an SM, where it has all that there is.
extern "C" __global__ void __launch_bounds__(1024) scrub(unsigned seed, int bytes) {
  extern __shared__ Vector s_all[];
  for (int at = threadIdx.x; at < bytes / (int)sizeof(Vector); at += blockDim.x) {
    unsigned word = (seed ^ at) * 0x9e3779b1u;
    s_all[at] = {word, word ^ seed, ~word, word + seed};
  }
}

// One tile a CTA: each thread has four accesses in flight before its first store; stores stream past the cache.
extern "C" __global__ void __launch_bounds__(512) copy_streaming(const Vector* g_source, Vector* g_target, long long bytes) {
  constexpr int ACCESSES = 4;
  long long count = bytes / sizeof(Vector);
  long long at = (long long)blockIdx.x * (blockDim.x * ACCESSES) + threadIdx.x;
  Vector values[ACCESSES];
#pragma unroll
  for (int i = 0; i < ACCESSES; ++i)
    if (at + i * blockDim.x < count) values[i] = __ldcs(g_source + at + i * blockDim.x);
#pragma unroll
  for (int i = 0; i < ACCESSES; ++i)
    if (at + i * blockDim.x < count) __stcs(g_target + at + i * blockDim.x, values[i]);
}

// The same without hints: the cache may keep what it likes.
extern "C" __global__ void __launch_bounds__(512) copy_plain(const Vector* g_source, Vector* g_target, long long bytes) {
  constexpr int ACCESSES = 4;
  long long count = bytes / sizeof(Vector);
  long long at = (long long)blockIdx.x * (blockDim.x * ACCESSES) + threadIdx.x;
  Vector values[ACCESSES];
#pragma unroll
  for (int i = 0; i < ACCESSES; ++i)
    if (at + i * blockDim.x < count) values[i] = g_source[at + i * blockDim.x];
#pragma unroll
  for (int i = 0; i < ACCESSES; ++i)
    if (at + i * blockDim.x < count) g_target[at + i * blockDim.x] = values[i];
}

// A persistent grid with eight accesses in flight a thread.
extern "C" __global__ void __launch_bounds__(1024) copy_persistent(const Vector* g_source, Vector* g_target, long long bytes) {
  constexpr int ACCESSES = 8;
  long long count = bytes / sizeof(Vector), stride = (long long)gridDim.x * blockDim.x * ACCESSES;
  for (long long first = (long long)blockIdx.x * blockDim.x * ACCESSES + threadIdx.x; first < count; first += stride) {
    Vector values[ACCESSES];
#pragma unroll
    for (int i = 0; i < ACCESSES; ++i)
      if (first + i * blockDim.x < count) values[i] = __ldcs(g_source + first + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < ACCESSES; ++i)
      if (first + i * blockDim.x < count) __stcs(g_target + first + i * blockDim.x, values[i]);
  }
}
