// What the kernel does for a candidate's process, as a seccomp filter in plain BPF: a list of what is allowed.
//
// Three answers: allowed; refused with an error number (things an honest library tries and can do without); trapped, which
// ends the process and names the call. `Stage::kLoading` still lets the loader map the candidate's file; `Stage::kServing`, added on top before the
// first call, also takes away files and new executable memory. The filter holds for every thread and can't be removed.
#pragma once

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kf {

enum class Stage { kLoading, kServing };

class Filter {
   public:
    static constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
    static constexpr std::uint32_t kTrap = SECCOMP_RET_TRAP;
    static constexpr std::uint32_t refuse(int error) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error); }

    Filter() {
#if defined(__x86_64__)
        constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
        constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the seccomp filter knows x86-64 and aarch64 only"
#endif
        load(offsetof(seccomp_data, arch));
        jump(BPF_JEQ, kArchitecture, 1, 0);
        give(SECCOMP_RET_KILL_PROCESS);
        load_number();
    }

    void always(int number, std::uint32_t action) {
        jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 1);
        give(action);
    }

    // `then` where the argument's low 32 bits under `mask` are `value`.
    void when(int number, int argument, std::uint32_t mask, std::uint32_t value, std::uint32_t then, std::uint32_t otherwise) {
        jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 5);
        load(low(argument));
        program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
        jump(BPF_JEQ, value, 0, 1);
        give(then);
        give(otherwise);
    }

    // `then` where the argument's low 32 bits are one of `values`.
    void among(int number, int argument, const std::vector<std::uint32_t>& values, std::uint32_t then, std::uint32_t otherwise) {
        jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, static_cast<std::uint8_t>(2 + 2 * values.size()));
        load(low(argument));
        for (const std::uint32_t value : values) {
            jump(BPF_JEQ, value, 0, 1);
            give(then);
        }
        give(otherwise);
    }

    // `then` where the whole argument is null.
    void null(int number, int argument, std::uint32_t then, std::uint32_t otherwise) {
        jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 6);
        load(low(argument));
        jump(BPF_JEQ, 0, 0, 3);
        load(low(argument) + 4);
        jump(BPF_JEQ, 0, 0, 1);
        give(then);
        give(otherwise);
    }

    // The rule for `mmap`: trapped where the protection has a bit of `trapped`, refused with a place that is only a hint or a question.
    void map(int number, std::uint32_t trapped, std::uint32_t fixed, std::uint32_t question) {
        jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 14);
        load(low(2));
        jump(BPF_JSET, trapped, 0, 1);
        give(kTrap);
        load(low(3));
        jump(BPF_JSET, question, 0, 1);
        give(refuse(ENOMEM));
        jump(BPF_JSET, fixed, 0, 1);
        give(kAllow);
        load(low(0));
        jump(BPF_JEQ, 0, 0, 3);
        load(low(0) + 4);
        jump(BPF_JEQ, 0, 0, 1);
        give(kAllow);
        give(refuse(ENOMEM));
    }

    // Installs the filter for every thread of this process; whatever no rule names is trapped.
    bool install() {
        give(kTrap);
        const sock_fprog program{static_cast<unsigned short>(program_.size()), program_.data()};
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
    }

   private:
    // Little-endian: the low half of a 64-bit argument comes first.
    static constexpr std::uint32_t low(int argument) {
        return static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8 * static_cast<std::uint32_t>(argument);
    }
    void load(std::size_t offset) { program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset))); }
    void load_number() { load(offsetof(seccomp_data, nr)); }
    void jump(std::uint16_t test, std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
        program_.push_back(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), value, yes, no));
    }
    void give(std::uint32_t action) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }

    std::vector<sock_filter> program_;
};

inline bool restrict_system_calls(Stage stage) {
    const bool loading = stage == Stage::kLoading;
    Filter filter;
    const std::uint32_t allow = Filter::kAllow, trap = Filter::kTrap;

    for (const int number : {__NR_futex, __NR_sched_yield, __NR_munmap, __NR_brk, __NR_exit, __NR_exit_group, __NR_gettid, __NR_getpid,
                             __NR_sched_getaffinity, __NR_sched_setaffinity, __NR_getcpu, __NR_clock_gettime, __NR_clock_getres,
                             __NR_gettimeofday, __NR_nanosleep, __NR_clock_nanosleep, __NR_restart_syscall, __NR_rt_sigprocmask,
                             __NR_rt_sigreturn, __NR_set_robust_list, __NR_rseq, __NR_getrandom, __NR_sysinfo, __NR_close,
                             __NR_getppid, __NR_getuid, __NR_geteuid, __NR_getgid, __NR_getegid}) {
        filter.always(number, allow);
    }
    // The launcher's own second filter: a filter can only take away.
    if (loading) filter.always(__NR_seccomp, allow);

    // Memory. `mremap` could map a tensor a second time; without it the allocator copies. Executable memory is the loader's.
    // Questions about what is mapped where are not answered: a place may be asked for only where the loader puts a library's parts
    // over its own, and advice, whose answers differ by what lies in a range, is not taken (the allocator can do without).
    filter.always(__NR_mremap, Filter::refuse(ENOMEM));
    filter.always(__NR_madvise, Filter::refuse(EINVAL));
    filter.map(__NR_mmap, loading ? 0 : PROT_EXEC, MAP_FIXED, MAP_FIXED_NOREPLACE);
    filter.when(__NR_mprotect, 2, PROT_EXEC, 0, allow, loading ? allow : trap);

    // Threads of this process, never another process. `clone3` hides its flags behind a pointer: the library falls back to `clone`.
    constexpr std::uint32_t kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    constexpr std::uint32_t kProcess = CLONE_VFORK | CLONE_PARENT | CLONE_PTRACE | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                       CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    filter.when(__NR_clone, 0, kThread | kProcess, kThread, allow, trap);
    filter.always(__NR_clone3, Filter::refuse(ENOSYS));
    filter.always(__NR_membarrier, Filter::refuse(ENOSYS));

    // The judge's signals and the report of a forbidden call must not be caught.
    filter.always(__NR_rt_sigaction, Filter::refuse(EPERM));
    filter.always(__NR_sigaltstack, Filter::refuse(EPERM));
    filter.always(__NR_prctl, Filter::refuse(EPERM));
    filter.null(__NR_prlimit64, 2, allow, Filter::refuse(EPERM));

    // Files: reading is harmless (the root holds the loader's libraries only) and over once serving; writing is named.
    constexpr std::uint32_t kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
    filter.when(__NR_openat, 2, kWriting, 0, loading ? allow : Filter::refuse(EACCES), trap);
#ifdef __NR_open
    filter.when(__NR_open, 1, kWriting, 0, loading ? allow : Filter::refuse(EACCES), trap);
#endif
    for (const int number : {__NR_read, __NR_pread64, __NR_lseek, __NR_fstat, __NR_newfstatat}) filter.always(number, loading ? allow : Filter::refuse(EACCES));
    for (const int number : {__NR_readlinkat, __NR_faccessat, __NR_statx, __NR_getcwd}) filter.always(number, Filter::refuse(EACCES));
#ifdef __NR_readlink
    for (const int number : {__NR_readlink, __NR_access, __NR_stat}) filter.always(number, Filter::refuse(EACCES));
#endif
    filter.always(__NR_ioctl, Filter::refuse(ENOTTY));
    filter.always(__NR_fcntl, Filter::refuse(EACCES));
    for (const int number : {__NR_write, __NR_writev}) filter.among(number, 0, {1, 2}, allow, Filter::refuse(EBADF));

    // Everything else is trapped: processes, sockets, signals to others, tracing, other ways to read and write memory.
    return filter.install();
}

}  // namespace kf
