// The launch has no output among its arguments: there is nothing that this could write.

#include <cstdint>

extern "C" void rmsnorm(const float*, const float*, std::int64_t, std::int64_t, float) {}
