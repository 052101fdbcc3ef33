// The serving loop for a Python process (a baseline that is called through Python), to be used through ctypes.
#include "serve.hpp"

extern "C" {

// Maps the arena behind `fd`; to be given to `kf_serve`.
kf::Control* kf_attach(int fd) { return kf::attach(fd); }

// Serves for ever: each call is `call(its only argument)`.
void kf_serve(kf::Control* control, void (*call)(std::uint64_t)) {
    kf::serve(control, [call](const std::uint64_t* row, std::uint32_t) { call(row[0]); });
}

}  // extern "C"
