// The PTX instructions that C++ has no words for: one instruction a function, named after it.
#pragma once
#include <cuda/std/cstdint>

using cuda::std::uint32_t;
using cuda::std::uint64_t;

__device__ __forceinline__ uint32_t shared_address(const void* s_at) { return static_cast<uint32_t>(__cvta_generic_to_shared(s_at)); }

// 16 bytes that nobody reads a second time: they leave the first-level cache to the weight.
__device__ __forceinline__ uint4 ld_global_nc_no_allocate(const void* g_at) {
  uint4 r;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(g_at));
  return r;
}

__device__ __forceinline__ void st_global_streaming(void* g_at, uint4 r) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(g_at), "r"(r.x), "r"(r.y), "r"(r.z), "r"(r.w) : "memory");
}

__device__ __forceinline__ void mbarrier_init(uint64_t* s_barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(s_barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint64_t* s_barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(s_barrier)), "r"(bytes) : "memory");
}

// What other CTAs of the cluster wrote is seen too.
__device__ __forceinline__ bool mbarrier_try_wait_parity(uint64_t* s_barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred done;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
      : "=r"(done)
      : "r"(shared_address(s_barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void cp_async_bulk(void* s_to, const void* g_from, uint32_t bytes, uint64_t* s_barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(s_to)), "l"(g_from),
      "r"(bytes), "r"(shared_address(s_barrier))
      : "memory");
}

// The address that `s_at` has in CTA `rank` of the cluster.
__device__ __forceinline__ uint32_t mapa(const void* s_at, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(s_at)), "r"(rank));
  return address;
}

// Both addresses come from `mapa`: the barrier there counts the four bytes when they have arrived.
__device__ __forceinline__ void st_async(uint32_t to, float value, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value), "r"(barrier) : "memory");
}

__device__ __forceinline__ uint32_t cluster_ctarank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ uint32_t cluster_nctarank() {
  uint32_t ctas;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(ctas));
  return ctas;
}

__device__ __forceinline__ void barrier_cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

__device__ __forceinline__ void barrier_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
