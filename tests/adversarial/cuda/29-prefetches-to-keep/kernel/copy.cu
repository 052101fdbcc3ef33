#include <cuda/std/cstdint>

__device__ __forceinline__ uint4 load_evict_last(const uint4* g_from) {
  uint4 value;
  asm volatile(
      "prefetch.global.L2::evict_last [%4]; ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(g_from));
  return value;
}

extern "C" __global__ void __launch_bounds__(512) copy(const uint4* g_x, uint4* g_y, long long count) {
  const long long first = static_cast<long long>(blockIdx.x) * 2048 + threadIdx.x;
  uint4 values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 512 < count) values[i] = load_evict_last(g_x + first + i * 512);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 512 < count) __stcs(g_y + first + i * 512, values[i]);
}
