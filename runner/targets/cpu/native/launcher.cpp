// The trusted program in which a candidate runs: maps the arena, gives up everything, loads the candidate, and serves.
//
// Usage: launcher ARENA_FD JUDGE_FD MEMORY_BYTES LIBRARY SYMBOL. It is started inside the sandbox (no network, no files but the loader's
// libraries, no other process). The candidate's code first runs in `dlopen`, when all limits already hold. From then on
// this process is the candidate's: nothing that it says is believed.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ucontext.h>

#include <cerrno>

#include "seccomp.hpp"
#include "serve.hpp"
#include "stacks.hpp"

namespace {

struct CallName {
    int number;
    const char* name;
};
#define KF_CALL(name) {__NR_##name, #name}
// Those that people try. Any other is reported by its number.
constexpr CallName kCallNames[] = {
    {__NR_clone, "fork"}, KF_CALL(execve),     KF_CALL(execveat), KF_CALL(socket),          KF_CALL(socketpair),        KF_CALL(connect),
    KF_CALL(bind),      KF_CALL(ptrace),     KF_CALL(kill),     KF_CALL(tkill),           KF_CALL(tgkill),            KF_CALL(openat),
    KF_CALL(mmap),      KF_CALL(mprotect),   KF_CALL(mount),    KF_CALL(unshare),         KF_CALL(setns),             KF_CALL(memfd_create),
    KF_CALL(io_uring_setup), KF_CALL(bpf),   KF_CALL(perf_event_open), KF_CALL(process_vm_readv), KF_CALL(process_vm_writev),
    KF_CALL(pipe2),     KF_CALL(dup),        KF_CALL(dup3),     KF_CALL(eventfd2),        KF_CALL(timer_create),      KF_CALL(setitimer),
    KF_CALL(userfaultfd), KF_CALL(shmget),   KF_CALL(shmat),    KF_CALL(msgget),          KF_CALL(semget),            KF_CALL(unlinkat),
    KF_CALL(close_range), KF_CALL(setrlimit), KF_CALL(pidfd_open), KF_CALL(pidfd_getfd),  KF_CALL(pidfd_send_signal), KF_CALL(ftruncate),
    KF_CALL(mlock),     KF_CALL(mlockall),   KF_CALL(setuid),   KF_CALL(sched_setscheduler), KF_CALL(setpriority),    KF_CALL(wait4),
#ifdef __NR_fork
    KF_CALL(fork),      KF_CALL(vfork),      KF_CALL(open),     KF_CALL(creat),           KF_CALL(unlink),            KF_CALL(alarm),
#endif
};

long abort_signal_argument(const ucontext_t& context) {
#if defined(__x86_64__)
    return static_cast<long>(context.uc_mcontext.gregs[REG_RDX]);
#else
    return static_cast<long>(context.uc_mcontext.regs[2]);
#endif
}

// A trapped call has not happened. Say which it was, and end. Raising SIGABRT is how the C library ends a program: not an attack.
void on_forbidden_call(int, siginfo_t* info, void* context) {
    const bool aborting = info->si_syscall == __NR_tgkill && abort_signal_argument(*static_cast<ucontext_t*>(context)) == SIGABRT;
    kf::Control* control = kf::hidden_control();
    char* text = control->text;
    if (!aborting) {
        const char* name = nullptr;
        for (const CallName& call : kCallNames) {
            if (call.number == info->si_syscall) name = call.name;
        }
        if (name != nullptr) {
            std::strncpy(text, name, sizeof control->text - 1);
        } else {
            std::snprintf(text, sizeof control->text, "number %d", info->si_syscall);
        }
    }
    kf::release(&control->reason, aborting ? kf::kAborted : kf::kForbiddenCall);
    syscall(SYS_exit_group, aborting ? 128 + SIGABRT : 128 + SIGSYS);
    __builtin_trap();
}

// The sandbox ends this process when the judge dies, but for a judge that died while the sandbox was still being made. The judge
// holds the other end of this pipe.
bool judge_is_gone(int fd) {
    pollfd event{fd, 0, 0};
    return poll(&event, 1, 0) != 0;
}

void limit(__rlimit_resource resource, rlim_t value) {
    const rlimit limits{value, value};
    if (setrlimit(resource, &limits) != 0) kf::fail("setrlimit");
}

void give_up_everything(rlim_t memory) {
    dup2(2, 1);
    close(0);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_NOFILE, 8);
    limit(RLIMIT_MEMLOCK, 0);
    limit(RLIMIT_AS, memory);
    struct sigaction action {};
    action.sa_sigaction = on_forbidden_call;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (sigaction(SIGSYS, &action, nullptr) != 0) kf::fail("sigaction");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) kf::fail("prctl");
    if (!kf::restrict_system_calls(kf::Stage::kLoading)) kf::fail("seccomp");
}

struct Start {
    int arena;
    rlim_t memory;
    const char* library;
    const char* symbol;
};

// On the candidate's stack: words[0] and words[1] are the library's path and the symbol, words[2] becomes the function or null.
void load_library(std::uint64_t* words) {
    void* library = dlopen(reinterpret_cast<const char*>(words[0]), RTLD_NOW | RTLD_LOCAL);
    void* function = library ? dlsym(library, reinterpret_cast<const char*>(words[1])) : nullptr;
    if (function == nullptr) std::fprintf(stderr, "%s\n", dlerror());
    words[2] = reinterpret_cast<std::uint64_t>(function);
}

// On the launcher's own stack, for the rest of the process's life.
void run(void* argument) {
    const Start start = *static_cast<Start*>(argument);
    // What the first stack still holds of this beginning.
    std::memset(static_cast<char*>(argument) - (64 << 10), 0, (64 << 10) + sizeof start);

    kf::Control* control = kf::attach(start.arena);
    kf::set_hidden_control(control);
    char* const top = kf::map_anywhere(kf::kCandidateStack, -1, 0) + kf::kCandidateStack;
    give_up_everything(start.memory);

    auto* words = reinterpret_cast<std::uint64_t*>(top) - 4;
    words[0] = reinterpret_cast<std::uint64_t>(start.library);
    words[1] = reinterpret_cast<std::uint64_t>(start.symbol);
    kf_enter(load_library, words, words);
    const auto call = reinterpret_cast<void (*)(std::uint64_t*)>(words[2]);
    if (call == nullptr) {
        kf::release(&control->reason, kf::kCannotLoad);
        std::_Exit(70);
    }
    if (!kf::restrict_system_calls(kf::Stage::kServing)) kf::fail("seccomp");
    kf::serve(control, [top, call](const std::uint64_t* row, std::uint32_t arguments) {
        // The candidate gets a copy at the end of its stack: the row itself lies beside those of other calls.
        std::uint64_t* copy = reinterpret_cast<std::uint64_t*>(top) - (arguments + 1) / 2 * 2;
        std::memcpy(copy, row, arguments * sizeof *row);
        kf_enter(call, copy, copy);
    });
}

// Maps the launcher's stack, tells the hidden register where it is, and returns its upper end.
__attribute__((noinline)) void* launcher_stack() {
    char* stack = kf::map_anywhere(kf::kLauncherStack, -1, 0);
    kf::hide(reinterpret_cast<kf::Hidden*>(stack));
    return stack + kf::kLauncherStack;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) return 64;
    if (judge_is_gone(std::atoi(argv[2]))) return 0;
    Start start{std::atoi(argv[1]), std::strtoull(argv[3], nullptr, 10), argv[4], argv[5]};
    kf_leave(run, &start, launcher_stack());
}
