// The serving loop for a Python process (a baseline that is called through Python), to be used through ctypes.
#include "serve.hpp"

extern "C" {

// Maps the arena behind `fd`; to be given to `kf_serve`.
kf::Calls* kf_attach(int fd) { return new kf::Calls(kf::attach(fd)); }

// Where the arena lies.
void* kf_base(const kf::Calls* calls) { return calls->control; }

// Serves for ever: each call is `call(slot)`. The layout must have at least one argument a slot.
void kf_serve(const kf::Calls* calls, void (*call)(std::uint64_t)) {
    const std::uint64_t* first = calls->arguments.data();
    const std::size_t width = calls->argument_count;
    kf::serve(*calls, [=](const std::uint64_t* arguments) { call(static_cast<std::uint64_t>(arguments - first) / width); });
}

}  // extern "C"
