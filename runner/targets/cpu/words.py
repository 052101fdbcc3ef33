"""The words of C++ that the policy for CPU sources allows or refuses, each group with its reason."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HEADERS = _words(
    """
    algorithm array atomic barrier bit bitset cassert cfloat climits cmath complex concepts condition_variable cstddef cstdint cstdlib
    cstring deque exception functional initializer_list iterator latch limits list map memory mutex new numbers numeric optional queue
    ranges ratio semaphore set shared_mutex span stdexcept string string_view thread tuple type_traits unordered_map unordered_set
    utility valarray variant vector version experimental/simd
    assert.h float.h limits.h math.h stddef.h stdint.h stdlib.h string.h
    immintrin.h x86intrin.h xmmintrin.h emmintrin.h pmmintrin.h tmmintrin.h smmintrin.h nmmintrin.h arm_neon.h arm_sve.h omp.h
    """
)

DIRECTIVES = _words("include define undef if ifdef ifndef elif elifdef elifndef else endif pragma error warning")

# The first words of a pragma.
PRAGMAS = (
    ("once",),
    ("omp",),
    ("GCC", "unroll"),
    ("GCC", "ivdep"),
    ("GCC", "novector"),
    ("GCC", "diagnostic"),
    ("GCC", "push_options"),
    ("GCC", "pop_options"),
    ("GCC", "target"),
    ("pack",),
)
OPTIMIZE_PRAGMA = ("GCC", "optimize")  # only where the spec's policy allows fast math, which it can switch on
OPTIMIZE_ATTRIBUTE = "optimize"

ATTRIBUTES = _words("""
    vector_size aligned assume_aligned may_alias packed always_inline noinline gnu_inline artificial flatten hot cold pure const unused used
    target target_clones returns_nonnull nonnull malloc alloc_size alloc_align noreturn nothrow leaf simd
    nodiscard maybe_unused fallthrough likely unlikely deprecated no_unique_address assume warn_unused_result access nocf_check
    """)

_FILES = "files, terminals and streams"
_PROCESS = "processes, signals and the system"
_TIME = "clocks and waiting for a time"
_RANDOM = "random numbers"
_LOADING = "libraries and the layout of the process"
_MEMORY = "the mapping of memory"
_LATER = "work outside the call"

_GROUPS = {
    _FILES: """
        FILE fopen fopen64 freopen fdopen fclose fread fwrite fgets fputs fputc fgetc fseek ftell fflush fscanf scanf sscanf printf fprintf
        sprintf snprintf vprintf vfprintf dprintf puts putchar perror getline tmpfile tmpnam mkstemp stdin stdout stderr openat pread pwrite
        readv writev lseek ftruncate opendir readdir scandir readlink symlink unlinkat mkdir rmdir chdir chroot getcwd realpath fstat lstat
        fstream ifstream ofstream filebuf iostream cout cerr clog cin filesystem inotify_init sendfile memfd_create
    """,
    _PROCESS: """
        getenv secure_getenv setenv putenv unsetenv clearenv environ syscall system popen fork vfork clone3 execl execlp execle execv execvp
        execve execvpe fexecve posix_spawn posix_spawnp waitpid waitid ptrace prctl arch_prctl setrlimit getrlimit prlimit getrusage
        getpid getppid gettid getuid geteuid setuid setgid sigaction sigprocmask sigaltstack sigsetjmp siglongjmp setjmp longjmp
        pthread_kill pthread_create pthread_atfork pthread_sigmask sched_setaffinity sched_setscheduler process_vm_readv process_vm_writev
        shmget shmat shm_open mq_open semget eventfd signalfd timerfd_create epoll_create epoll_create1 epoll_wait userfaultfd
        perf_event_open socketpair getaddrinfo gethostbyname sendto recvfrom sendmsg recvmsg setsockopt _exit _Exit quick_exit
    """,
    _TIME: """
        chrono clock_gettime clock_getres clock_settime clock_nanosleep gettimeofday timespec_get nanosleep usleep localtime gmtime
        mktime strftime difftime setitimer sleep_for sleep_until wait_for wait_until try_lock_for try_lock_until
        try_acquire_for try_acquire_until omp_get_wtime omp_get_wtick
        __rdtsc _rdtsc __rdtscp _rdpmc __rdpmc _umwait _tpause __TIME__ __DATE__ __TIMESTAMP__
    """,
    _RANDOM: """
        random_device mt19937 srand srandom rand_r drand48 lrand48 mrand48 getrandom getentropy arc4random
        _rdrand16_step _rdrand32_step _rdrand64_step _rdseed16_step _rdseed32_step _rdseed64_step
    """,
    _LOADING: """
        dlopen dlmopen dlsym dlvsym dladdr dladdr1 dlinfo dlclose dl_iterate_phdr getauxval _r_debug _DYNAMIC _GLOBAL_OFFSET_TABLE_ _start
        _init _fini _edata _etext program_invocation_name program_invocation_short_name
        _readfsbase_u32 _readfsbase_u64 _readgsbase_u32 _readgsbase_u64 _writefsbase_u32 _writefsbase_u64 _writegsbase_u32 _writegsbase_u64
        backtrace backtrace_symbols constructor destructor ifunc weakref init_priority
    """,
    _MEMORY: "mmap mmap64 munmap mremap mprotect pkey_mprotect madvise mlock mlockall msync mincore remap_file_pages sbrk",
    _LATER: "atexit at_quick_exit on_exit",
}

# Names that no honest kernel needs, with what they reach.
REFUSED: dict[str, str] = {name: group for group, names in _GROUPS.items() for name in names.split()}

# Ordinary words that are also functions of the system: refused only where they are called as that, not as names of one's own.
ORDINARY: dict[str, str] = {
    **dict.fromkeys(
        _words("read write open close creat pipe dup dup2 select poll access link unlink rename stat sync truncate splice ioctl fcntl"),
        _FILES,
    ),
    **dict.fromkeys(_words("time times clock sleep alarm pause"), _TIME),
    **dict.fromkeys(_words("rand random"), _RANDOM),
    **dict.fromkeys(_words("signal raise kill exit wait clone brk unshare mount socket bind listen accept connect send recv"), _PROCESS),
}

# What a kernel's function can't be called: it would take the place of a function that everything else uses.
LIBRARY = _words("main malloc free calloc realloc aligned_alloc memcpy memmove memset memcmp strlen strcmp abort")

# What a knob's text may stand for in a define.
TYPES = _words("float double int long short unsigned signed char bool true false")

ASSEMBLY = frozenset({"asm", "__asm", "__asm__"})
MODULES = frozenset({"import", "export"})

_BUILTINS = re.compile(
    r"""__builtin_(
        expect(_with_probability)? | assume(_aligned)? | unreachable | prefetch | constant_p | is_constant_evaluated | bit_cast | trap
      | (clz|ctz|ffs|popcount|parity|clrsb)(l|ll|g)? | bswap(16|32|64|128) | rotate(left|right)\d+
      | shuffle | shufflevector | convertvector | memcpy | memmove | memset | memcmp | alloca(_with_align)? | object_size | offsetof
      | (inf|nan|nans|huge_val)(f|l|f16|f32|f64|f128)? | (isnan|isinf|isfinite|isnormal|signbit|fpclassify|isunordered)\w?
      | (fabs|sqrt|cbrt|fma|fmin|fmax|floor|ceil|trunc|round|rint|nearbyint|lrint|llrint|lround|llround|copysign|ldexp|frexp|scalbn|hypot
        |exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|sinh|cosh|asin|acos|atan|atan2|erf|erfc|tgamma|fmod)(f|l)?
      | (add|sub|mul)_overflow(_p)? | types_compatible_p | choose_expr | cpu_supports | cpu_init | cpu_is | speculation_safe_value
      | ia32_(?!rdtsc|rdpmc|rdrand|rdseed|(rd|wr)(fs|gs)base|(read|write)eflags|x?save|x?rstor|fxsave|fxrstor|xgetbv|xsetbv|tpause|umwait
             |clui|stui|senduipi|wrpkru|rdpkru|enqcmd)\w+
      | (aarch64|neon|sve|arm)_\w+ | complex | LINE | FUNCTION
    )""",
    re.VERBOSE,
)

# Names that begin like the compiler's own and are harmless.
_RESERVED = re.compile(
    r"""__(
        m(64|128|256|512)(i|d|h|bh)?(_u)? | mmask(8|16|32|64) | restrict(__)? | inline(__)? | attribute(__)? | alignof(__)? | extension__
      | const(__)? | typeof(__)? | signed__ | func__ | FUNCTION__ | PRETTY_FUNCTION__ | VA_ARGS__ | VA_OPT__ | cplusplus | cpp_\w+
      | int128(_t)? | uint128_t | float128 | bf16 | fp16 | has_(attribute|cpp_attribute|builtin|include|feature)
      | (atomic|sync)_\w+ | (lzcnt|tzcnt|popcnt|bswap|bs[fr]|ro[lr]|andn|bextr|bls[ir]|blsmsk|crc32)\w* | x86_64 | i386
      | (?!TIME__|DATE__|TIMESTAMP__|BASE_FILE__|FILE__|INCLUDE_LEVEL__)[A-Z][A-Z0-9_]*__
      | x86_64__ | i386__ | amd64__ | linux__ | aarch64__
      | v?mx_\w+ | float(16x\d|32x\d|64x\d)\w* | [if]\d+x\d+(x\d)?_t | (FLT|DBL|LDBL)_\w+__ | unix__ | clang__ | gnu_linux__
    )""",
    re.VERBOSE,
)
_UNDERSCORED = re.compile(r"_(MM|CMP|XABORT|Float\d|Alignas|Alignof|Static_assert|Bool|Pragma|MM_\w+)\w*")


def is_reserved(name: str) -> bool:
    """Whether a name belongs to the compiler and its libraries, by how it begins."""
    return name.startswith("__") or (name.startswith("_") and name[1:2].isupper())


def is_harmless_reserved(name: str) -> bool:
    """Whether a reserved name is one that honest kernels use."""
    if name.startswith("__builtin_"):
        return _BUILTINS.fullmatch(name) is not None
    return _RESERVED.fullmatch(name) is not None or _UNDERSCORED.fullmatch(name) is not None


KEYWORDS = _words(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const
    consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else
    enum explicit export extern false final float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq override private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq defined std gnu omp include pragma
    """
)
