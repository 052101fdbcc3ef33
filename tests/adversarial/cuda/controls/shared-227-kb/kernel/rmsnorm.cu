#include <cuda_bf16.h>

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

__device__ __forceinline__ unsigned shared_address(const void* s_at) { return static_cast<unsigned>(__cvta_generic_to_shared(s_at)); }

__device__ __forceinline__ void mbarrier_init(unsigned long long* s_bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(s_bar)));
  asm volatile("fence.mbarrier_init.release.cluster;");
}

__device__ __forceinline__ void bulk_load(void* s_to, const void* g_from, unsigned bytes, unsigned long long* s_bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(s_bar)), "r"(bytes));
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(s_to)),
               "l"(g_from), "r"(bytes), "r"(shared_address(s_bar))
               : "memory");
}

__device__ __forceinline__ void mbarrier_wait(unsigned long long* s_bar, unsigned parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" ::"r"(shared_address(s_bar)),
      "r"(parity)
      : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
rmsnorm(const bf16* x, const float* weight, bf16* y, long long rows, long long cols, float eps) {
  const long long row = blockIdx.x;
  x += row * cols;
  y += row * cols;
  extern __shared__ __align__(128) unsigned char s_raw[];
  __shared__ unsigned long long s_bar;
  bf16* s_x = reinterpret_cast<bf16*>(s_raw);
  const bool bulk = cols % 8 == 0 && cols <= 4096 && reinterpret_cast<unsigned long long>(x) % 16 == 0;
  if (bulk) {
    if (threadIdx.x == 0) mbarrier_init(&s_bar);
    __syncthreads();
    if (threadIdx.x == 0) bulk_load(s_x, x, static_cast<unsigned>(2 * cols), &s_bar);
    mbarrier_wait(&s_bar, 0);
    x = s_x;
  }
  float squares = 0.f;
  for (long long at = threadIdx.x; at < cols; at += THREADS) squares += float(x[at]) * float(x[at]);
  const float scale = 1.f / sqrtf(sum_over_cta(squares) / float(cols) + eps);
  for (long long at = threadIdx.x; at < cols; at += THREADS) y[at] = bf16(float(x[at]) * scale * weight[at]);
}
