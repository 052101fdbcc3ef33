// What judge and worker share: the control page, the layout of the arena, and the loop that answers the judge's commands.
//
// The arena is one memory file. It begins with the control page, then comes the layout (used once, before any foreign code runs,
// and never mapped afterwards), then the tensors of every slot. The control page and every segment of the layout are mapped at
// places of their own, drawn at random from all of the address space, with nothing around them: no place tells another one.
// Times, bounds and comparisons are the judge's; nothing here is trusted by it.
#pragma once

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace kf {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kControlBytes = 16 * kPage;
constexpr std::uint64_t kMagic = 0x6b666172656e6132;  // "kfarena2"

enum Reason : std::uint32_t { kNone = 0, kForbiddenCall = 1, kAborted = 2, kCannotLoad = 3 };

// Written by the judge: command, count, arguments, zeros, words. Written by the worker, and therefore never more than a hint: the rest.
// `words` holds a row for each call: its arguments, then (address, bytes) of what is cleared before it. Only the calls of the
// present command stand here: which come later is nowhere in the worker's process.
struct Control {
    std::uint32_t command;  // the number of the judge's latest command
    std::uint8_t pad0[60];
    std::uint32_t done;  // the number of the latest command that was carried out
    std::uint8_t pad1[60];
    std::uint32_t ready;
    std::uint32_t reason;
    char text[56];
    std::uint32_t count;
    std::uint32_t arguments;
    std::uint32_t zeros;
    std::uint8_t pad2[52];
    std::uint64_t words[8160];
};
static_assert(offsetof(Control, done) == 64 && offsetof(Control, ready) == 128 && offsetof(Control, reason) == 132);
static_assert(offsetof(Control, text) == 136 && offsetof(Control, count) == 192 && offsetof(Control, words) == 256);
static_assert(sizeof(Control) == kControlBytes);

inline std::uint32_t acquire(const std::uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
inline void release(std::uint32_t* word, std::uint32_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

inline long futex_wait(const std::uint32_t* word, std::uint32_t seen, const timespec* timeout) {
    return syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, nullptr, 0);
}
inline void futex_wake(std::uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

[[noreturn]] inline void fail(const char* what) {
    std::fprintf(stderr, "launcher: %s: error %d\n", what, errno);
    std::_Exit(70);
}

// Maps `length` bytes at a random place of the upper address space. Private memory where `fd` is -1.
inline char* map_anywhere(std::size_t length, int fd, std::size_t offset) {
    const int sharing = fd >= 0 ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (int attempt = 0; attempt < 100; ++attempt) {
        std::uint64_t random = 0;
        if (getrandom(&random, sizeof random, 0) != sizeof random) fail("getrandom");
        // Between 2^40 and 2^46: above what is linked low, below where the kernel puts libraries and stacks.
        const std::uint64_t place = (std::uint64_t(1) << 40) + random % ((std::uint64_t(1) << 46) - (std::uint64_t(1) << 41)) / kPage * kPage;
        void* mapped = mmap(reinterpret_cast<void*>(place), length, PROT_READ | PROT_WRITE, sharing | MAP_FIXED_NOREPLACE, fd, static_cast<off_t>(offset));
        if (mapped == reinterpret_cast<void*>(place)) return static_cast<char*>(mapped);
        if (mapped != MAP_FAILED) munmap(mapped, length);
        if (mapped == MAP_FAILED && errno != EEXIST) fail("arena");
    }
    fail("arena");
}

// Maps the arena behind `fd`, and writes each segment's address into the layout, where the judge reads it. The layout's words,
// each 64 bits: magic, its own size in words, the number of segments, then (start, length, address) a segment.
inline Control* attach(int fd) {
    auto map_layout = [&](std::size_t bytes) {
        void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, kControlBytes);
        if (mapped == MAP_FAILED) fail("arena");
        return static_cast<std::uint64_t*>(mapped);
    };
    std::uint64_t* words = map_layout(kPage);
    if (words[0] != kMagic) fail("arena");
    const std::size_t bytes = words[1] * sizeof(std::uint64_t);
    munmap(words, kPage);
    words = map_layout(bytes);
    for (std::size_t segment = 0; segment < words[2]; ++segment) {
        std::uint64_t* entry = words + 3 + 3 * segment;
        char* place = map_anywhere(entry[1], fd, entry[0]);
        // The first write to a page costs a little more than later ones: it is done here, not in a call.
        for (std::size_t at = 0; at < entry[1]; at += kPage) *static_cast<volatile char*>(place + at) = 0;
        entry[2] = reinterpret_cast<std::uint64_t>(place);
    }
    munmap(words, bytes);
    return reinterpret_cast<Control*>(map_anywhere(kControlBytes, fd, 0));
}

inline void announce_ready(Control* control) {
    release(&control->ready, 1);
    futex_wake(&control->ready);
}

// Answers commands for ever: for each row, clear what is to be cleared, then call with the row and its number of arguments.
template <class Function>
[[noreturn]] void serve(Control* control, Function call) {
    std::uint32_t seen = acquire(&control->command);
    announce_ready(control);
    for (;;) {
        const std::uint32_t command = acquire(&control->command);
        if (command == seen) {
            futex_wait(&control->command, seen, nullptr);
            continue;
        }
        seen = command;
        const std::uint32_t count = control->count, arguments = control->arguments, zeros = control->zeros;
        const std::uint64_t* row = control->words;
        for (std::uint32_t index = 0; index < count; ++index, row += arguments + 2 * zeros) {
            for (std::uint32_t zero = 0; zero < zeros; ++zero) {
                const std::uint64_t* area = row + arguments + 2 * zero;
                std::memset(reinterpret_cast<void*>(area[0]), 0, area[1]);
            }
            call(row, arguments);
        }
        release(&control->done, command);
        futex_wake(&control->done);
    }
}

}  // namespace kf
