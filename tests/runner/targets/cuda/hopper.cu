// What a matrix kernel for Hopper is made of, for the test that none of it is refused: a cluster, a producer warpgroup that loads boxes by
// tensor map (multicast, with a cache hint) and gives its registers away, consumers that multiply, and a store by tensor map. It computes nothing.
#include <cuda/ptx>

struct alignas(64) TensorMap {
  unsigned char raw[128];
};

__device__ __forceinline__ unsigned shared_address(const void* s_at) { return static_cast<unsigned>(__cvta_generic_to_shared(s_at)); }

__device__ __forceinline__ void multiply(float (&r_sum)[4], unsigned long long a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred add; setp.ne.b32 add, 1, 0;"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, add, 1, 1, 0, 0; }"
      : "+f"(r_sum[0]), "+f"(r_sum[1]), "+f"(r_sum[2]), "+f"(r_sum[3])
      : "l"(a), "l"(b));
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
rmsnorm(const void* x, const float* weight, float* y, long long rows, long long cols, float eps, const __grid_constant__ TensorMap x_map,
        const __grid_constant__ TensorMap y_map) {
  extern __shared__ __align__(1024) unsigned char s_raw[];
  __shared__ unsigned long long s_bar;
  const unsigned bar = shared_address(&s_bar), tile = shared_address(s_raw);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("prefetch.tensormap [%0];" ::"l"(&x_map) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    unsigned chosen;
    asm volatile("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.b32 %0, 1, 0, one; }" : "=r"(chosen));
    for (int step = 0; chosen && step < rows; ++step) {
      const TensorMap* from = step % 2 ? &x_map : &y_map;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(bar) : "memory");
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}],"
          "[%2], %5, %6;" ::"r"(tile),
          "l"(from), "r"(bar), "r"(step), "r"(0), "h"(static_cast<unsigned short>(3)), "l"(0x12F0000000000000ull)
          : "memory");
      asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(&x_map), "r"(step + 1), "r"(0) : "memory");
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float r_sum[4] = {};
    asm volatile(
        "{ .reg .pred done; WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @done bra READY; bra WAIT; READY: }" ::"r"(bar)
        : "memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    multiply(r_sum, tile >> 4, (tile + 8192) >> 4);
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = r_sum[i];
    cuda::ptx::fence_proxy_async();
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&y_map), "r"(0), "r"(0), "r"(tile)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  asm volatile("griddepcontrol.launch_dependents;");
}
