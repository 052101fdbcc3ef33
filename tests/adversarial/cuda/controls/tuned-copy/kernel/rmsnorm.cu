#include <cuda/std/cstdint>

extern "C" __global__ void __launch_bounds__(512) copy(const uint4* g_x, uint4* g_y, long long count) {
  const long long first = static_cast<long long>(blockIdx.x) * 2048 + threadIdx.x;
  uint4 values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 512 < count) values[i] = __ldcs(g_x + first + i * 512);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 512 < count) __stcs(g_y + first + i * 512, values[i]);
}
