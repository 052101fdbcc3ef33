// What judge and worker share: the control page, the layout of the arena, and the loop that answers the judge's commands.
//
// The arena is one memory file. It begins with the control page, then comes the layout (read once, before any foreign code
// runs, and never mapped afterwards), then the tensors of every slot. Whatever is not in a segment of the layout is mapped
// without any permission: those are the fences. Times, bounds and comparisons are the judge's; nothing here is trusted by it.
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
#include <vector>

namespace kf {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kControlBytes = 8 * kPage;
constexpr std::uint64_t kMagic = 0x6b666172656e6131;  // "kfarena1"

enum Reason : std::uint32_t { kNone = 0, kForbiddenCall = 1, kAborted = 2, kCannotLoad = 3 };

// Written by the judge: command, count, order. Written by the worker, and therefore never more than a hint: the rest.
struct Control {
    std::uint32_t command;  // the number of the judge's latest command
    std::uint8_t pad0[60];
    std::uint32_t done;  // the number of the latest command that was carried out
    std::uint8_t pad1[60];
    std::uint32_t ready;
    std::uint32_t reason;
    char text[56];
    std::uint32_t count;
    std::uint8_t pad2[60];
    std::uint32_t order[7000];
};
static_assert(offsetof(Control, done) == 64 && offsetof(Control, ready) == 128 && offsetof(Control, reason) == 132);
static_assert(offsetof(Control, text) == 136 && offsetof(Control, count) == 192 && offsetof(Control, order) == 256);
static_assert(sizeof(Control) <= kControlBytes);

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

struct Zero {
    std::uint64_t address;
    std::uint64_t bytes;
};

// One program's calls: `arguments` holds a row of `argument_count` words for each slot, `zeros` what is cleared before each call.
struct Calls {
    Control* control = nullptr;
    std::size_t slots = 0;
    std::size_t argument_count = 0;
    std::size_t zero_count = 0;
    std::vector<std::uint64_t> arguments;
    std::vector<Zero> zeros;
};

// Maps the arena behind `fd` at a random place and turns its offsets into addresses. The layout's words, each 64 bits:
// magic, bytes of the file, segments, slots, arguments, zeros, then (start, length) a segment, one flag an argument (1: an
// offset into the arena, 0: a value), then for each slot its arguments and (offset, bytes) of what is to be cleared.
inline Calls attach(int fd) {
    auto* first = static_cast<std::uint64_t*>(mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, kControlBytes));
    if (first == MAP_FAILED || first[0] != kMagic) fail("arena");
    const std::size_t total = first[1], segments = first[2], layout_words = first[6];
    Calls calls;
    calls.slots = first[3];
    calls.argument_count = first[4];
    calls.zero_count = first[5];
    munmap(first, kPage);
    const std::size_t layout_bytes = layout_words * sizeof(std::uint64_t);
    auto* words = static_cast<std::uint64_t*>(mmap(nullptr, layout_bytes, PROT_READ, MAP_SHARED, fd, kControlBytes));
    if (words == MAP_FAILED) fail("arena");

    std::uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) fail("getrandom");
    auto* hint = reinterpret_cast<void*>(0x100000000000 + (random & 0xffffffffff) / kPage * kPage);
    const std::size_t border = 2 << 20;  // nothing of anybody's lies next to the arena
    auto* reserved = static_cast<char*>(mmap(hint, total + 2 * border, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (reserved == MAP_FAILED) fail("arena");
    char* base = reserved + border;
    const auto map = [&](std::size_t start, std::size_t length) {
        const int flags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
        if (mmap(base + start, length, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(start)) == MAP_FAILED) fail("arena");
    };
    map(0, kControlBytes);
    calls.control = reinterpret_cast<Control*>(base);

    const std::uint64_t* word = words + 7;
    for (std::size_t segment = 0; segment < segments; ++segment, word += 2) map(word[0], word[1]);
    const std::uint64_t* is_offset = word;
    word += calls.argument_count;
    for (std::size_t slot = 0; slot < calls.slots; ++slot) {
        for (std::size_t argument = 0; argument < calls.argument_count; ++argument, ++word) {
            calls.arguments.push_back(is_offset[argument] ? *word + reinterpret_cast<std::uint64_t>(base) : *word);
        }
        for (std::size_t zero = 0; zero < calls.zero_count; ++zero, word += 2) {
            calls.zeros.push_back({word[0] + reinterpret_cast<std::uint64_t>(base), word[1]});
        }
    }
    munmap(words, layout_bytes);
    return calls;
}

inline void announce_ready(Control* control) {
    release(&control->ready, 1);
    futex_wake(&control->ready);
}

// Answers commands for ever: for each slot of the order, clear what is to be cleared, then call.
template <class Function>
[[noreturn]] void serve(const Calls& calls, Function call) {
    Control* control = calls.control;
    std::uint32_t seen = acquire(&control->command);
    announce_ready(control);
    for (;;) {
        const std::uint32_t command = acquire(&control->command);
        if (command == seen) {
            futex_wait(&control->command, seen, nullptr);
            continue;
        }
        seen = command;
        const std::uint32_t count = control->count;
        for (std::uint32_t index = 0; index < count; ++index) {
            const std::size_t slot = control->order[index];
            for (std::size_t zero = 0; zero < calls.zero_count; ++zero) {
                const Zero& area = calls.zeros[slot * calls.zero_count + zero];
                std::memset(reinterpret_cast<void*>(area.address), 0, area.bytes);
            }
            call(calls.arguments.data() + slot * calls.argument_count);
        }
        release(&control->done, command);
        futex_wake(&control->done);
    }
}

}  // namespace kf
