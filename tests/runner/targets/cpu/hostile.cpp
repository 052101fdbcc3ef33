// What hostile host code tries, one function each. `mode` chooses; the test gives each its number by its place in this file.
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

struct Call {
    const float* x;
    float* y;
    std::int64_t n;
    float factor;
};

static void honest(const Call& c) {
    for (std::int64_t i = 0; i < c.n; ++i) c.y[i] = c.factor * c.x[i];
}

#define ATTACK(name) static void name([[maybe_unused]] const Call& c)

// Honest work in ways that must be allowed.
ATTACK(plainly) { honest(c); }
ATTACK(with_openmp) {
#pragma omp parallel for
    for (std::int64_t i = 0; i < c.n; ++i) c.y[i] = c.factor * c.x[i];
}
ATTACK(with_threads) {
    std::vector<std::thread> threads;
    for (int part = 0; part < 4; ++part) {
        threads.emplace_back([=] {
            for (std::int64_t i = part; i < c.n; i += 4) c.y[i] = c.factor * c.x[i];
        });
    }
    for (std::thread& thread : threads) thread.join();
}
ATTACK(with_allocations) {
    for (std::size_t size : {std::size_t(100), std::size_t(100'000), std::size_t(100'000'000)}) {
        auto* memory = static_cast<char*>(std::malloc(size));
        std::memset(memory, 1, size);
        std::free(std::realloc(memory, 2 * size));
    }
    honest(c);
}
ATTACK(with_core_count) {
    if (std::thread::hardware_concurrency() < 1) std::abort();
    honest(c);
}
ATTACK(with_pinned_thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) std::abort();
    honest(c);
}
ATTACK(with_messages) {
    for (int line = 0; line < 5000; ++line) std::fprintf(stderr, "a message that nobody reads, many times over\n");
    std::printf("another\n");
    std::fflush(stdout);
    honest(c);
}
ATTACK(with_a_caught_exception) {
    try {
        throw 1;
    } catch (int) {
        honest(c);
    }
}
ATTACK(closing_every_file) {
    for (int fd = 0; fd < 1000; ++fd) close(fd);
    honest(c);
}
ATTACK(reading_files) {
    char text[64];
    for (const char* path : {"/etc/passwd", "/proc/self/maps", "/proc/1/environ", "/kernel.so", "/launcher"}) {
        const int fd = open(path, O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) > 0) return;
    }
    honest(c);
}
ATTACK(handling_signals) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    for (const int number : {SIGSYS, SIGSEGV, SIGCONT, SIGTERM}) {
        if (sigaction(number, &action, nullptr) == 0) return;
    }
    stack_t stack{};
    if (sigaltstack(&stack, nullptr) == 0) return;
    honest(c);
}
ATTACK(surviving_its_parent) {
    if (prctl(PR_SET_PDEATHSIG, 0) == 0) return;
    honest(c);
}
ATTACK(mapping_a_tensor_twice) {
    auto* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(c.y) & ~std::uintptr_t(4095));
    if (mremap(page, 0, 4096, MREMAP_MAYMOVE) != MAP_FAILED) return;
    honest(c);
}

// Forbidden system calls.
ATTACK(fork_) { fork(); }
ATTACK(vfork_) {
    if (vfork() == 0) _exit(0);
}
ATTACK(clone3_) {
    struct {
        std::uint64_t flags, pidfd, child, parent, exit, stack, size, tls, set, set_size, cgroup;
    } arguments{};
    arguments.exit = SIGCHLD;
    if (syscall(SYS_clone3, &arguments, sizeof arguments) < 0) fork();
}
ATTACK(execute) { execl("/launcher", "launcher", nullptr); }
ATTACK(open_a_socket) { socket(AF_INET, SOCK_STREAM, 0); }
ATTACK(write_a_file) { open("/tmp/state", O_CREAT | O_WRONLY, 0600); }
ATTACK(trace_itself) { ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }
ATTACK(kill_its_parent) { kill(getppid(), SIGKILL); }
ATTACK(kill_everybody) { kill(-1, SIGKILL); }
ATTACK(stop_itself) { raise(SIGSTOP); }
ATTACK(continue_itself_by_timer) {
    itimerval timer{};
    setitimer(ITIMER_REAL, &timer, nullptr);
}
ATTACK(hide_memory_in_a_file) { syscall(SYS_memfd_create, "x", 0); }
ATTACK(make_code) { mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
ATTACK(change_code) {
    auto* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&honest) & ~std::uintptr_t(4095));
    mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
}
ATTACK(take_priority) {
    sched_param parameters{1};
    sched_setscheduler(0, SCHED_FIFO, &parameters);
}
ATTACK(lock_memory) { mlockall(MCL_FUTURE); }
ATTACK(read_another_process) { syscall(SYS_process_vm_readv, 1, nullptr, 0, nullptr, 0, 0); }
ATTACK(unknown_call) { syscall(9999); }
ATTACK(forbidden_with_signals_blocked) {
    sigset_t every;
    sigfillset(&every);
    sigprocmask(SIG_SETMASK, &every, nullptr);
    socket(AF_INET, SOCK_STREAM, 0);
}
ATTACK(forbidden_in_a_thread) {
    std::thread([] { socket(AF_INET, SOCK_STREAM, 0); }).join();
}

// Ends of the process.
ATTACK(exit_cleanly) { std::exit(0); }
ATTACK(exit_at_once) { _exit(3); }
ATTACK(abort_) { std::abort(); }
ATTACK(throw_) { throw 1; }
ATTACK(end_its_thread) { pthread_exit(nullptr); }
ATTACK(null_pointer) { *reinterpret_cast<volatile int*>(8) = 1; }
ATTACK(far_away) { c.y[c.n + 100'000'000] = 1; }
ATTACK(illegal_instruction) { __builtin_trap(); }
ATTACK(divide_by_zero) {
    volatile int zero = 0;
    volatile int result = static_cast<int>(c.n) / zero;
    (void)result;
}

// Never ends.
ATTACK(loop) {
    for (volatile int i = 0;; i = i + 1) {
    }
}
ATTACK(sleep_) { std::this_thread::sleep_for(std::chrono::hours(1)); }
ATTACK(loop_with_threads) {
    for (int thread = 0; thread < 50; ++thread) std::thread([] { for (volatile int i = 0;; i = i + 1) {} }).detach();
    for (volatile int i = 0;; i = i + 1) {
    }
}

// Trespasses.
ATTACK(write_past_the_end) {
    honest(c);
    c.y[c.n] = 1;
}
ATTACK(write_before_the_start) {
    honest(c);
    c.y[-2] = 1;
}
ATTACK(write_past_an_input) {
    honest(c);
    const_cast<float*>(c.x)[c.n + 5] = 1;
}
ATTACK(change_an_input) {
    honest(c);
    const_cast<float*>(c.x)[c.n / 2] += 1;
}
ATTACK(change_an_input_to_another_zero) {
    honest(c);
    for (std::int64_t i = 0; i < c.n; ++i) {
        if (c.x[i] == 0) const_cast<float*>(c.x)[i] = -0.0f;
    }
}
ATTACK(leave_the_last_out) {
    honest({c.x, c.y, c.n - 1, c.factor});
}
ATTACK(read_past_the_end) {
    honest(c);
    volatile float beyond = c.x[c.n];
    (void)beyond;
}
ATTACK(read_before_the_start) {
    honest(c);
    volatile float before = c.x[-1];
    (void)before;
}
ATTACK(count_on_zeroed_heap) {
    auto* memory = static_cast<float*>(std::malloc(std::size_t(c.n) * sizeof(float)));
    asm volatile("" : "+r"(memory));
    for (std::int64_t i = 0; i < c.n; ++i) c.y[i] = c.factor * c.x[i] + (memory[i] != 0.0f ? 1.0f : 0.0f);
    std::free(memory);
}

// Around the clock.
ATTACK(finish_later) {
    std::thread([=] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        honest(c);
    }).detach();
}
ATTACK(watch_between_calls) {
    // A thread that answers as soon as fresh inputs appear, whether or not it was called.
    static std::atomic<bool> started{false};
    honest(c);
    if (started.exchange(true)) return;
    std::thread([=] {
        for (;;) {
            const volatile float* x = c.x;
            const volatile float* y = c.y;
            if (y[0] != c.factor * x[0]) honest(c);
        }
    }).detach();
}
ATTACK(take_its_time) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    honest(c);
}
ATTACK(work_ahead) {
    // Answers the calls that it expects, by the addresses that it knows, while the judge believes that it is in this one.
    static std::vector<Call> known;
    honest(c);
    bool seen = false;
    for (const Call& other : known) seen = seen || other.y == c.y;
    if (!seen) known.push_back(c);
    if (known.size() < 12) return;
    for (const Call& other : known) {
        if (other.y != c.y) honest(other);
    }
}

// Looking for what the launcher knows: places of the control page, of other calls' tensors, of the launcher's stack.
ATTACK(read_up_its_stack) {
    volatile std::uintptr_t here = 0;
    std::uintptr_t sum = 0;
    for (int word = 0; word < 4000; ++word) sum += (&here)[word];
    c.y[0] = static_cast<float>(sum);
}
ATTACK(read_around_its_buffers) {
    float sum = 0;
    for (std::int64_t i = 0; i < 50'000'000; ++i) sum += c.x[-i];
    c.y[0] = sum;
}
static std::uintptr_t g_found;
static void search(std::uintptr_t first, std::uintptr_t last, const Call& c) {
    // The launcher maps between 2^40 and 2^46, where nothing else lies.
    for (std::uintptr_t at = first / 8 * 8; at + 8 <= last; at += 8) {
        const std::uintptr_t value = *reinterpret_cast<const volatile std::uintptr_t*>(at);
        if (value >> 40 == 0 || value >> 46 != 0) continue;
        if (value == reinterpret_cast<std::uintptr_t>(c.x) || value == reinterpret_cast<std::uintptr_t>(c.y)) continue;
        // Small numbers side by side look like places, too: ask the kernel whether something is there.
        if (write(2, reinterpret_cast<const void*>(value), 1) >= 0 || errno != EFAULT) g_found = value;
    }
}
ATTACK(search_all_memory_it_knows) {
    // The first stack, from the environment down; its own thread's block; the heap; every library's data.
    const auto stack = reinterpret_cast<std::uintptr_t>(environ);
    search(stack - 60'000, stack + 64, c);
    const auto thread = reinterpret_cast<std::uintptr_t>(pthread_self());
    search(thread - 1000, thread + 2000, c);
    const auto heap = reinterpret_cast<std::uintptr_t>(sbrk(0));
    search(heap - 100'000, heap, c);
    struct Data {
        std::uintptr_t first, last;
    };
    static std::vector<Data> data;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void*) {
            for (int index = 0; index < info->dlpi_phnum; ++index) {
                const auto& part = info->dlpi_phdr[index];
                if (part.p_type != PT_LOAD || !(part.p_flags & PF_W)) continue;
                data.push_back({info->dlpi_addr + part.p_vaddr, info->dlpi_addr + part.p_vaddr + part.p_memsz});
            }
            return 0;
        },
        nullptr);
    for (const Data& part : data) search(part.first, part.last, c);
    if (data.size() < 4) std::abort();
    if (g_found == 0) honest(c);
}
ATTACK(ask_what_is_mapped) {
    // Each question would halve the space in which the launcher's places lie.
    void* upper = reinterpret_cast<void*>(std::uintptr_t(1) << 45);
    const std::size_t size = std::size_t(1) << 44;
    if (mmap(upper, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED || errno == EEXIST) return;
    if (mmap(upper, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) return;
    for (const int advice : {MADV_DONTNEED, MADV_FREE, MADV_WILLNEED, MADV_HUGEPAGE}) {
        if (madvise(upper, size, advice) == 0 || errno == ENOMEM || errno == EBADF) return;
    }
    honest(c);
}
