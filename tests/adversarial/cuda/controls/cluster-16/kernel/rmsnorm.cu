#include <cooperative_groups.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;
using bf16 = __nv_bfloat16;
constexpr int THREADS = 128;

__device__ __forceinline__ float sum_over_cta(float value) {
  __shared__ float s_warps[THREADS / 32];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) s_warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.f;
  for (int warp = 0; warp < THREADS / 32; ++warp) sum += s_warps[warp];
  return sum;
}

extern "C" __global__ void __launch_bounds__(128)
rmsnorm(const bf16* x, const float* weight, bf16* y, long long rows, long long cols, float eps) {
  // A cluster owns a row; CTA r of it every CTAS-th stretch of THREADS elements. Partial sums meet in distributed shared memory.
  __shared__ float s_sum;
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned ctas = cluster.num_blocks(), rank = cluster.block_rank();
  const long long row = blockIdx.x / ctas;
  x += row * cols;
  y += row * cols;
  float squares = 0.f;
  for (long long at = rank * THREADS + threadIdx.x; at < cols; at += ctas * THREADS) squares += float(x[at]) * float(x[at]);
  const float mine = sum_over_cta(squares);
  if (threadIdx.x == 0) s_sum = mine;
  cluster.sync();
  float total = 0.f;
  for (unsigned other = 0; other < ctas; ++other) total += *cluster.map_shared_rank(&s_sum, other);
  const float scale = 1.f / sqrtf(total / float(cols) + eps);
  for (long long at = rank * THREADS + threadIdx.x; at < cols; at += ctas * THREADS) y[at] = bf16(float(x[at]) * scale * weight[at]);
  cluster.sync();
}
