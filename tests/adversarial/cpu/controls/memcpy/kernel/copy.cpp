// The library's copy on one thread.

#include <cstdint>
#include <cstring>

extern "C" void copy(const float* x, float* y, std::int64_t n) {
    if (n > 0) std::memcpy(y, x, std::size_t(n) * sizeof(float));
}
