#include "pairs.hpp"

extern "C" void pairs(const float*, const float*, const std::int32_t*, float* out, std::int64_t*, float*, std::int64_t, std::int32_t, float scale,
                      std::int32_t, double) {
    *out = scale;
}
