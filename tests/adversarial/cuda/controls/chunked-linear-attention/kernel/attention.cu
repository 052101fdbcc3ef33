// Causal linear attention with decay over sequences of different lengths, in chunks of 16 tokens and 64 × 64 states.
//
// `prepare` has a CTA for each (chunk, head): outputs from tokens of the same chunk, and what the chunk adds to the state of the sequence
// that its last token belongs to. `walk` has a CTA a head: it carries the state through the chunks in order. Thread c owns column c of v.
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;
constexpr int CHUNK = 16, DIM = 64;

// The sequence of a token; `sequences` for those after the last.
__device__ __forceinline__ int sequence_of(int token, const int* lengths, int sequences) {
  int end = 0;
  for (int one = 0; one < sequences; ++one) {
    end += lengths[one];
    if (token < end) return one;
  }
  return sequences;
}

extern "C" __global__ void __launch_bounds__(DIM)
prepare(const bf16* q, const bf16* k, const bf16* v, const int* lengths, int* g_sequence, float* g_states, float* g_within, int tokens,
        int sequences, float decay) {
  __shared__ float s_q[CHUNK][DIM], s_k[CHUNK][DIM], s_products[CHUNK][CHUNK];
  __shared__ int s_sequence[CHUNK];
  const int chunk = blockIdx.x, head = blockIdx.y, column = threadIdx.x;
  const int first = chunk * CHUNK, count = min(CHUNK, tokens - first);
  const long long base = (static_cast<long long>(head) * tokens + first) * DIM;
  for (int t = 0; t < count; ++t) {
    s_q[t][column] = float(q[base + t * DIM + column]);
    s_k[t][column] = float(k[base + t * DIM + column]);
  }
  if (column < count) {
    s_sequence[column] = sequence_of(first + column, lengths, sequences);
    if (head == 0) g_sequence[first + column] = s_sequence[column];
  }
  __syncthreads();
  for (int pair = column; pair < count * count; pair += DIM) {
    const int t = pair / count, s = pair % count;
    float product = 0.f;
    if (s <= t && s_sequence[s] == s_sequence[t] && s_sequence[t] < sequences) {
      for (int d = 0; d < DIM; ++d) product += s_q[t][d] * s_k[s][d];
      for (int step = s; step < t; ++step) product *= decay;
    }
    s_products[t][s] = product;
  }
  __syncthreads();
  float r_v[CHUNK], r_state[DIM] = {};
#pragma unroll
  for (int s = 0; s < CHUNK; ++s) r_v[s] = s < count ? float(v[base + s * DIM + column]) : 0.f;
  for (int t = 0; t < count; ++t) {
    float sum = 0.f;
#pragma unroll
    for (int s = 0; s < CHUNK; ++s)
      if (s <= t) sum += s_products[t][s] * r_v[s];
    g_within[base + t * DIM + column] = sum;
  }
  const int last = s_sequence[count - 1];
#pragma unroll
  for (int s = 0; s < CHUNK; ++s) {
    if (s >= count) break;
#pragma unroll
    for (int d = 0; d < DIM; ++d) r_state[d] = r_state[d] * decay + (s_sequence[s] == last ? s_k[s][d] * r_v[s] : 0.f);
  }
  float* g_state = g_states + (static_cast<long long>(head) * gridDim.x + chunk) * DIM * DIM;
#pragma unroll
  for (int d = 0; d < DIM; ++d) g_state[d * DIM + column] = r_state[d];
}

extern "C" __global__ void __launch_bounds__(DIM)
walk(const bf16* q, const int* g_sequence, const float* g_states, const float* g_within, bf16* o, int tokens, int sequences, float decay) {
  __shared__ float s_q[CHUNK][DIM];
  const int head = blockIdx.x, column = threadIdx.x, chunks = (tokens + CHUNK - 1) / CHUNK;
  float r_state[DIM] = {};
  int carried = -1;  // the sequence whose state is held
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int first = chunk * CHUNK, count = min(CHUNK, tokens - first);
    const long long base = (static_cast<long long>(head) * tokens + first) * DIM;
    __syncthreads();
    for (int t = 0; t < count; ++t) s_q[t][column] = float(q[base + t * DIM + column]);
    __syncthreads();
    float power = 1.f;
    for (int t = 0; t < count; ++t) {
      power *= decay;
      float sum = g_within[base + t * DIM + column];
      if (g_sequence[first + t] == carried && carried < sequences) {
        float across = 0.f;
#pragma unroll
        for (int d = 0; d < DIM; ++d) across += s_q[t][d] * r_state[d];
        sum += power * across;
      }
      o[base + t * DIM + column] = bf16(sum);
    }
    const int last = g_sequence[first + count - 1];
    const float kept = last == carried ? power : 0.f;
    const float* g_state = g_states + (static_cast<long long>(head) * chunks + chunk) * DIM * DIM;
#pragma unroll
    for (int d = 0; d < DIM; ++d) r_state[d] = r_state[d] * kept + g_state[d * DIM + column];
    carried = last;
  }
}
