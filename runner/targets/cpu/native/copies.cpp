// Copies of half of a workload's bytes, to stand beside a kernel that must move them all: with the C library, and with streaming
// stores, which spare the read of each line that is written. Called by the launcher: source, target, bytes.
#include <omp.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr std::size_t kLine = 64;

// Calls `copy(source, target, bytes)` on every thread's share, cut at cache lines of the target.
template <class Copy>
void in_parts(const std::uint64_t* words, Copy copy) {
    const auto* source = reinterpret_cast<const char*>(words[0]);
    auto* target = reinterpret_cast<char*>(words[1]);
    const std::size_t bytes = words[2];
#pragma omp parallel
    {
        const auto threads = static_cast<std::size_t>(omp_get_num_threads()), thread = static_cast<std::size_t>(omp_get_thread_num());
        const std::size_t lines = (bytes + kLine - 1) / kLine;
        const std::size_t first = lines * thread / threads * kLine, end = lines * (thread + 1) / threads * kLine;
        const std::size_t last = end < bytes ? end : bytes;
        if (first < last) copy(source + first, target + first, last - first);
    }
}

template <class Copy>
void whole(const std::uint64_t* words, Copy copy) {
    copy(reinterpret_cast<const char*>(words[0]), reinterpret_cast<char*>(words[1]), words[2]);
}

void plain(const char* source, char* target, std::size_t bytes) { std::memcpy(target, source, bytes); }

#if defined(__x86_64__)
// Copies up to the target's next multiple of `width` bytes; returns how many.
std::size_t align_target(const char* source, char* target, std::size_t bytes, std::size_t width) {
    const std::size_t wanted = (width - reinterpret_cast<std::uintptr_t>(target) % width) % width;
    const std::size_t head = wanted < bytes ? wanted : bytes;
    std::memcpy(target, source, head);
    return head;
}

__attribute__((target("avx2"))) void stream_avx2(const char* source, char* target, std::size_t bytes) {
    std::size_t at = align_target(source, target, bytes, 32);
    for (; at + 128 <= bytes; at += 128) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at + 32));
        const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at + 64));
        const __m256i d = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at + 96));
        _mm256_stream_si256(reinterpret_cast<__m256i*>(target + at), a);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(target + at + 32), b);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(target + at + 64), c);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(target + at + 96), d);
    }
    std::memcpy(target + at, source + at, bytes - at);
    _mm_sfence();
}

__attribute__((target("avx512f"))) void stream_avx512(const char* source, char* target, std::size_t bytes) {
    std::size_t at = align_target(source, target, bytes, 64);
    for (; at + 128 <= bytes; at += 128) {
        const __m512i a = _mm512_loadu_si512(source + at);
        const __m512i b = _mm512_loadu_si512(source + at + 64);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(target + at), a);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(target + at + 64), b);
    }
    std::memcpy(target + at, source + at, bytes - at);
    _mm_sfence();
}
#endif

}  // namespace

extern "C" {
void kf_memcpy(const std::uint64_t* words) { whole(words, plain); }
void kf_memcpy_threads(const std::uint64_t* words) { in_parts(words, plain); }
#if defined(__x86_64__)
void kf_stream_avx2(const std::uint64_t* words) { whole(words, stream_avx2); }
void kf_stream_avx2_threads(const std::uint64_t* words) { in_parts(words, stream_avx2); }
void kf_stream_avx512(const std::uint64_t* words) { whole(words, stream_avx512); }
void kf_stream_avx512_threads(const std::uint64_t* words) { in_parts(words, stream_avx512); }
#endif
}
