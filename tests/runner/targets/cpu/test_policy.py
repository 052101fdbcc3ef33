"""The policy refuses what a CPU kernel has no business with, however it is spelt, and lets honest kernels pass."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.candidate import read_candidate
from runner.spec.load import load_spec
from runner.spec.models import Policy, Spec
from runner.targets.cpu import words
from runner.targets.cpu.cpp_lexer import lex
from runner.targets.cpu.policy import check_sources

ROOT = Path(__file__).parents[4]
SPEC = load_spec(ROOT / "kernel-specs" / "rmsnorm-cpu").spec
LAUNCH = """sources: [k.cpp]
launches: [{function: rmsnorm, args: [x, weight, y, {i64: rows}, {i64: cols}, {f32: eps}]}]
"""
FUNCTION = 'extern "C" void rmsnorm(const float* x, const float* weight, float* y, long rows, long cols, float eps) {}\n'


def check(source: str, launch: str = LAUNCH, spec: Spec = SPEC, **others: str) -> tuple[str, ...]:
    files = {"launch.yaml": launch.encode(), "k.cpp": source.encode()}
    files |= {f"{name}.hpp": text.encode() for name, text in others.items()}
    return check_sources(files, spec)


# Sources that must be refused, each with a piece of the message it must give.
EVASIONS = {
    "assembly": ('void f() { asm("nop"); }', "inline assembly"),
    "assembly, reserved": ('void f() { __asm__ volatile("nop"); }', "inline assembly"),
    "assembly, short": ('void f() { __asm ("nop"); }', "inline assembly"),
    "assembly, spliced": ('void f() { a\\\ns\\\r\nm("nop"); }', "inline assembly"),
    "assembly, at file scope": ('asm(".incbin \\"/etc/passwd\\"");', "inline assembly"),
    "assembly, after a comment that a splice does not end": ('// a \\\n b\nint x; asm("");', "inline assembly"),
    "assembly, after quotes in a comment": ('/* " */ asm(""); /* " */', "inline assembly"),
    "assembly, after a comment in quotes": ('const char* s = "/*"; asm(""); const char* e = "*/";', "inline assembly"),
    "assembly, after an escaped quote": ("const char c = '\\''; asm(\"\"); const char d = '\\'';", "inline assembly"),
    "assembly, after an escaped backslash": ('const char* s = "\\\\"; asm(""); // "', "inline assembly"),
    "assembly, after a digit separator": ("int n = 1'000; asm(\"\"); int m = 1'000;", "inline assembly"),
    "assembly, name of a register": ('register long r asm("rsp");', "inline assembly"),
    "assembly, as a label": ('int f() asm("system");', "inline assembly"),
    "assembly, in a macro": ("#define GO asm\n", "inline assembly"),
    "assembly, in a macro over two lines": ("#define GO \\\n  asm\n", "inline assembly"),
    "assembly, as an argument": ('#define GO(x) x("")\nvoid f() { GO(asm); }', "inline assembly"),
    "assembly, in a part that is not compiled": ('#if 0\nasm("");\n#endif', "inline assembly"),
    "assembly, as a literal's suffix": ('auto x = "nop"asm;', "inline assembly"),
    "name by universal character": ('void f() { \\u0061sm(""); }', "a backslash outside quotes"),
    "name by long universal character": ('void f() { \\U00000061sm(""); }', "a backslash outside quotes"),
    "name by delimited universal character": ('void f() { \\u{61}sm(""); }', "a backslash outside quotes"),
    "name by named character": ('void f() { \\N{LATIN SMALL LETTER A}sm(""); }', "a backslash outside quotes"),
    "name in other letters": ("int \u0430sm;", "U+0430 is allowed in comments and quotes only"),
    "name with a dollar": ("int a$b;", "`$` is not allowed"),
    "name by pasting": ('#define P(a, b) a##b\nP(as, m)("");', "token pasting"),
    "name by pasting, digraph": ("%:define P(a, b) a%:%:b\n", "token pasting"),
    "name by pasting, spliced": ("#define P(a, b) a#\\\n#b\n", "token pasting"),
    "trigraph": ("??=include <fstream>", "a trigraph"),
    "trigraph splice": ('// ??/\nasm("");', "a trigraph"),
    "splice with spaces": ('// a \\ \nasm("");', "spaces between a backslash and the line's end"),
    "raw string": ('auto s = R"(")"; asm("");', "a raw string is not allowed"),
    "raw string, prefixed": ('auto s = u8R"x(")x";', "a raw string is not allowed"),
    "raw string, spliced prefix": ('auto s = R\\\n"(")";', "a raw string is not allowed"),
    "endless comment": ("/* ", "this comment has no end"),
    "endless text": ('const char* s = "a\n;', "has no end on its line"),
    "header that is not listed": ("#include <fstream>", "the header `<fstream>` is not allowed; allowed: algorithm, "),
    "header of the system": ("#include <sys/mman.h>", "the header `<sys/mman.h>` is not allowed"),
    "header, digraph": ("%:include <unistd.h>", "the header `<unistd.h>` is not allowed"),
    "header, spliced": ("#inc\\\nlude <uni\\\nstd.h>", "the header `<unistd.h>` is not allowed"),
    "header, after a comment": ("/* x */ # /* y\n */ include /* z */ <unistd.h>", "the header `<unistd.h>` is not allowed"),
    "header with a comment for a name": ("#include <//unistd.h>", "the header `<//unistd.h>` is not allowed"),
    "header by a path": ('#include "/etc/passwd"', "is not a file of this kernel"),
    "header by a relative path": ('#include "../../spec.yaml"', "is not a file of this kernel"),
    "header by a path to an own file": ('#include "./k.cpp"', "is not a file of this kernel"),
    "header: the manifest": ('#include "launch.yaml"', "is not a file of this kernel"),
    "header by a path in angles": ("#include <../../../etc/passwd>", "is not allowed"),
    "header by a macro": ("#define H <fstream>\n#include H", "takes a header's name as it is"),
    "header and more": ("#include <vector> x", "nothing may follow a header's name"),
    "no header": ("#include", "takes a header's name as it is"),
    "include_next": ("#include_next <vector>", "`#include_next` is not allowed"),
    "import": ("#import <vector>", "`#import` is not allowed"),
    "embed": ('#embed "/etc/passwd"', "`#embed` is not allowed"),
    "line": ('#line 1 "other.cpp"', "`#line` is not allowed"),
    "line marker": ('# 1 "other.cpp" 3', "`#1` is not allowed"),
    "ident": ('#ident "x"', "`#ident` is not allowed"),
    "module": ("import <vector>;", "`import` is not allowed"),
    "module export": ("export module m;", "`export` is not allowed"),
    "asking for a file": ('#if __has_include("/etc/passwd")\n#endif', "is not a file of this kernel"),
    "asking for a header": ("#if __has_include(<sys/ptrace.h>)\n#endif", "the header `<sys/ptrace.h>` is not allowed"),
    "asking by a macro": ("#if __has_include(H)\n#endif", "`__has_include` is not allowed in this form"),
    "asking without brackets": ("#if __has_include <unistd.h>\n#endif", "`__has_include` is not allowed in this form"),
    "asking to embed": ('#if __has_embed("/etc/passwd")\n#endif', "is not allowed"),
    "pragma that renames": ("#pragma redefine_extname f system", "this pragma is not allowed; allowed: once, omp"),
    "pragma that is weak": ("#pragma weak f", "this pragma is not allowed"),
    "pragma that saves macros": ('#pragma push_macro("x")', "this pragma is not allowed"),
    "pragma that looks at files": ('#pragma GCC dependency "/etc/passwd"', "this pragma is not allowed"),
    "pragma that poisons": ("#pragma GCC poison x", "this pragma is not allowed"),
    "pragma, empty": ("#pragma", "this pragma is not allowed"),
    "pragma that is a macro": ("#pragma P", "this pragma is not allowed"),
    "pragma operator": ('_Pragma("weak f")', "this pragma is not allowed"),
    "pragma operator, escaped": ('_Pragma("GCC dependency \\"/etc/passwd\\"")', "this pragma is not allowed"),
    "pragma operator, spliced": ('_Pra\\\ngma("weak f")', "this pragma is not allowed"),
    "pragma operator on a macro": ("_Pragma(X)", "`_Pragma` takes one string as it is"),
    "pragma operator on joined strings": ('_Pragma("omp" "x")', "`_Pragma` takes one string as it is"),
    "pragma operator in a macro": ("#define P(x) _Pragma(#x)\nP(weak f)", "`_Pragma` takes one string as it is"),
    "pragma operator, raw": ('_Pragma(R"(weak f)")', "a raw string is not allowed"),
    "pragma target with odd text": ('#pragma GCC target("avx2\\"x")', "only letters, digits"),
    "fast math by a pragma": ('#pragma GCC optimize("fast-math")', "the spec's policy does not allow fast math"),
    "fast math by a pragma operator": ('_Pragma("GCC optimize (\\"Ofast\\")")', "the spec's policy does not allow fast math"),
    "fast math by an attribute": ('__attribute__((optimize("fast-math"))) void f();', "the attribute `optimize` is not allowed"),
    "fast math by a standard attribute": ('[[gnu::optimize("Ofast")]] void f();', "the attribute `optimize` is not allowed"),
    "runs before main": ("__attribute__((constructor)) void f() {}", "the attribute `constructor` is not allowed"),
    "runs before main, underscores": ("__attribute__((__constructor__)) void f() {}", "the attribute `__constructor__` is not allowed"),
    "runs before main, standard attribute": ("[[gnu::constructor]] void f() {}", "the attribute `constructor` is not allowed"),
    "runs before main, digraphs": ("<:<:gnu::constructor:>:> void f() {}", "the attribute `constructor` is not allowed"),
    "runs before main, using": ("[[using gnu: hot, constructor]] void f() {}", "the attribute `constructor` is not allowed"),
    "runs before main, priority": ("__attribute__((hot, constructor(101))) void f() {}", "the attribute `constructor` is not allowed"),
    "runs before main, by a macro": ("#define A constructor\n__attribute__((A)) void f() {}", "the attribute `A` is not allowed"),
    "runs before main, by a harmless name": ("#define cold constructor\n", "`cold` is a word of the language"),
    "runs before main, by a parameter": ("#define A(hot) __attribute__((hot))\n", "a macro's parameter must not be called `hot`"),
    "runs before main, by half a bracket": ("#define A [\nA [gnu::constructor]] void f() {}", "`[` has no partner in this macro"),
    "runs before main, by an argument": ("#define A(x) [x]\nA([gnu::constructor]) void f() {}", "`gnu` is allowed within"),
    "runs before main, bracket of an argument": ("#define A 4), constructor, aligned(4\n", "has no partner in this macro"),
    "runs before main, brackets out of order": ("#define A )(\n", "`)` has no partner in this macro"),
    "runs before main, section": ('__attribute__((section(".init_array"))) void (*f)();', "the attribute `section` is not allowed"),
    "runs after main": ("__attribute__((destructor)) void f() {}", "the attribute `destructor` is not allowed"),
    "attribute without its brackets": (
        "#define A __attribute__\nA((constructor)) void f();",
        "write attributes as `__attribute__((name))`",
    ),
    "attributes without a comma": ("__attribute__((hot constructor)) void f();", "attributes are separated by commas"),
    "alias": ('void f() __attribute__((alias("system")));', "the attribute `alias` is not allowed"),
    "chosen at load time": ('void f() __attribute__((ifunc("r")));', "the attribute `ifunc` is not allowed"),
    "weak": ("void f() __attribute__((weak));", "the attribute `weak` is not allowed"),
    "seen from outside": ('__attribute__((visibility("default"))) int x;', "the attribute `visibility` is not allowed"),
    "without a frame": ("__attribute__((naked)) void f() {}", "the attribute `naked` is not allowed"),
    "declared by hand": ('extern "C" int shutdown(int, int);', 'only the functions of launch.yaml (rmsnorm) have `extern "C"`'),
    "declared by hand, in a block": ('extern "C" { int shutdown(int, int); }', "only the functions of launch.yaml"),
    "declared by hand, second": ('extern "C" void rmsnorm(), shutdown(int, int);', "only the functions of launch.yaml"),
    "declared by hand, in brackets": ('extern "C" int (shutdown)(int, int);', "only the functions of launch.yaml"),
    "declared by hand, in a namespace": ('extern "C" { namespace a { int shutdown(int, int); } }', "holds functions, no `namespace`"),
    "declared by hand, by a macro": ('#define F(x) int x(int, int)\nextern "C" F(shutdown);', "only the functions of launch.yaml"),
    "declared by hand, in a macro": ('#define F extern "C" int shutdown(int, int);\n', "only the functions of launch.yaml"),
    "declared by hand, in an inner block": ('extern "C" { extern "C" { int shutdown(int, int); } }', "holds functions, no `extern`"),
    "declared by hand, a variable": ('extern "C" char** names;', "comes before the functions of launch.yaml"),
    "declared by hand, without a linkage": ("extern char** names;", "`extern` is not allowed here"),
    "declared by hand, C++ linkage": ('extern "C++" int f();', "`extern` is not allowed here"),
    "declared by hand, prefixed text": ('extern u8"C" int f();', "`extern` is not allowed here"),
    "the function by another name": ("#define rmsnorm shutdown\n" + FUNCTION, "`rmsnorm` is a function that launch.yaml calls"),
    "keyword by another name": ("#define inline extern\n", "`inline` is a word of the language"),
    "undefined keyword": ("#undef assert\n#undef alignas\n", "`alignas` is a word of the language"),
    "compiler's macro": ("#undef __AVX2__\n", "`__AVX2__` is the compiler's name"),
    "memory of everybody": ("void* operator new(unsigned long n) { return nullptr; }", "can't be replaced"),
    "memory of everybody, freed": ("void operator delete(void*) noexcept {}", "can't be replaced"),
    "system call": ("long f() { return syscall(1); }", "`syscall` is not allowed"),
    "environment": ('char* f() { return std::getenv("HOME"); }', "`getenv` is not allowed"),
    "environment, in a header": ('#include "a.hpp"\n', "`getenv` is not allowed"),
    "library": ('void* f() { return dlopen("x", 1); }', "`dlopen` is not allowed"),
    "process": ("int f() { return fork(); }", "`fork` is not allowed"),
    "file": ('void f() { std::fopen("/etc/passwd", "r"); }', "`fopen` is not allowed"),
    "terminal": ('void f() { printf("accepted"); }', "`printf` is not allowed"),
    "stream": ('void f() { std::cout << "accepted"; }', "`cout` is not allowed"),
    "clock": ("auto f() { return std::chrono::steady_clock::now(); }", "`chrono` is not allowed"),
    "clock of the system": ("void f() { clock_gettime(1, nullptr); }", "`clock_gettime` is not allowed"),
    "clock of the processor": ("auto f() { return __rdtsc(); }", "`__rdtsc` is not allowed"),
    "clock of the processor, builtin": ("auto f() { return __builtin_ia32_rdtscp(nullptr); }", "`__builtin_ia32_rdtscp` is not allowed"),
    "clock of OpenMP": ("auto f() { return omp_get_wtime(); }", "`omp_get_wtime` is not allowed"),
    "clock in the text": ("const char* t = __TIME__;", "`__TIME__` is not allowed"),
    "waiting": ("void f() { std::this_thread::sleep_for(x); }", "`sleep_for` is not allowed"),
    "ordinary word of the system": ("void f() { write(1, 0, 0); }", "`write` of the system is not allowed"),
    "ordinary word, global": ("void f() { auto g = ::read; }", "`read` of the system is not allowed"),
    "ordinary word, of std": ("auto f() { return std::time(nullptr); }", "`time` of the system is not allowed"),
    "ordinary word, spliced": ("void f() { wri\\\nte /* x */ (1, 0, 0); }", "`write` of the system is not allowed"),
    "ordinary word, local declaration": ("void f() { int read(int, void*, unsigned long); read(0, 0, 1); }", "`read` of the system"),
    "random": ("std::random_device d;", "`random_device` is not allowed"),
    "random of the processor": ("void f(unsigned* x) { _rdrand32_step(x); }", "`_rdrand32_step` is not allowed"),
    "signal": ("void f() { std::raise(9); }", "`raise` of the system is not allowed"),
    "jump": ("void f() { longjmp(b, 1); }", "`longjmp` is not allowed"),
    "later": ("void f() { std::atexit(g); }", "`atexit` is not allowed"),
    "memory map": ("void f() { mmap(0, 1, 7, 34, -1, 0); }", "`mmap` is not allowed"),
    "return address": ("void* f() { return __builtin_return_address(0); }", "`__builtin_return_address` is not allowed"),
    "frame": ("void* f() { return __builtin_frame_address(1); }", "`__builtin_frame_address` is not allowed"),
    "arguments": ("void* f() { return __builtin_apply_args(); }", "`__builtin_apply_args` is not allowed"),
    "builtin terminal": ('void f() { __builtin_printf("x"); }', "`__builtin_printf` is not allowed"),
    "builtin process": ("int f() { return __builtin_fork(); }", "`__builtin_fork` is not allowed"),
    "registers of the thread": ("auto f() { return _readfsbase_u64(); }", "`_readfsbase_u64` is not allowed"),
    "registers of the thread, builtin": ("auto f() { return __builtin_ia32_rdfsbase64(); }", "`__builtin_ia32_rdfsbase64` is not allowed"),
    "thread by hand": ("void f() { pthread_create(a, b, c, d); }", "`pthread_create` is not allowed"),
    "library's own": ("void f() { __libc_start_main(); }", "`__libc_start_main` is not allowed"),
    "library's own, upper case": ("void f() { _IO_puts(0); }", "`_IO_puts` is not allowed"),
    "own environment": ("char** f() { return environ; }", "`environ` is not allowed"),
}


@pytest.mark.parametrize("name", list(EVASIONS))
def test_evasions_are_refused(name: str) -> None:
    source, message = EVASIONS[name]
    found = check(source + "\n", a='auto f() { return getenv("X"); }\n')
    assert any(message in line for line in found), found
    assert all(line.split(":")[0] in ("k.cpp", "a.hpp") for line in found)


@pytest.mark.parametrize("name", list(EVASIONS))
def test_evasions_in_a_header_are_refused_too(name: str) -> None:
    source, message = EVASIONS[name]
    found = check('#include "b.hpp"\n' + FUNCTION, a='auto f() { return getenv("X"); }\n', b=source + "\n")
    assert any(message in line for line in found)


HONEST = {
    "threads": """
#include <thread>
#include <vector>
static void part(const float* x, float* y, long first, long last) { for (long i = first; i < last; ++i) y[i] = x[i]; }
extern "C" void rmsnorm(const float* x, const float*, float* y, long rows, long cols, float) {
    std::vector<std::thread> team;
    for (long t = 0; t < 2; ++t) team.emplace_back(part, x, y, t * rows * cols / 2, (t + 1) * rows * cols / 2);
    for (auto& member : team) member.join();
}
""",
    "pool": """
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
struct Pool {
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<int> left{0};
    void wait() { std::unique_lock lock(mutex); wake.wait(lock, [this] { return left.load() == 0; }); }
};
static Pool pool;
static void work() {}
static const bool started = [] { std::thread(work).detach(); return true; }();
extern "C" void rmsnorm(const float*, const float*, float*, long, long, float) { pool.wait(); left_over: ; }
""",
    "intrinsics": """
#include <immintrin.h>
#include <cstdint>
extern "C" void rmsnorm(const float* __restrict__ x, const float* w, float* y, long rows, long cols, float eps) {
    __m256 total = _mm256_setzero_ps();
    __mmask16 rest = _cvtu32_mask16((1u << (cols & 15)) - 1);
    __m512i index = _mm512_setzero_si512();
    for (long i = 0; i + 8 <= cols; i += 8) total = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(x + i), total);
    _mm_prefetch(reinterpret_cast<const char*>(x), _MM_HINT_NTA);
    const __m256 close = _mm256_cmp_ps(total, total, _CMP_EQ_OQ);
    if (__builtin_expect(__builtin_popcount(_mm256_movemask_ps(close)) > 3, 1)) __builtin_prefetch(w, 0, 3);
    _mm256_stream_ps(y, total);
    _mm_sfence();
}
""",
    "openmp": """
#include <omp.h>
#define SIMD _Pragma("omp simd")
#define UNROLLED _Pragma("GCC unroll 4")
extern "C" void rmsnorm(const float* x, const float* w, float* y, long rows, long cols, float eps) {
    const int team = omp_get_max_threads();
#pragma omp parallel for schedule(static) num_threads(team) if (rows > 1)
    for (long row = 0; row < rows; ++row) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < cols; ++i) sum += double(x[row * cols + i]) * x[row * cols + i];
        UNROLLED for (long i = 0; i < cols; ++i) y[i] = w[i];
        SIMD for (long i = 0; i < cols; ++i) y[i] = w[i];
#pragma omp atomic read
        sum = *y;
    }
}
""",
    "scratch": """
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>
extern "C" void rmsnorm(const float* x, const float* w, float* y, long rows, long cols, float eps) {
    static thread_local std::vector<float> scratch;
    scratch.resize(cols);
    std::unique_ptr<float[]> own(new float[cols]);
    float* aligned = static_cast<float*>(std::aligned_alloc(64, 64 * ((cols * 4 + 63) / 64)));
    auto* wide = new (std::align_val_t(64)) float[16];
    operator_count: std::free(aligned);
    delete[] wide;
}
""",
    "words of its own": """
struct Tile { float time; float read(int i) const { return data[i]; } float* data; };
inline float read(const float* at) { return *at; }
static void write(float* at, float value) noexcept { *at = value; }
template <typename T> auto open(T* where) -> T { return *where; }
namespace mine { int close(int x) { return x; } }
extern "C" void rmsnorm(const float* x, const float* w, float* y, long rows, long cols, float eps) {
    float select = 1, link = 2, section = 3, index = 4, remove = 5, random = 6, signal = select + link;
    auto stat = [&](float v) { return v + section + index; };
    Tile tile{1, y};
    write(y, read(x) + tile.read(0) + stat(remove) + random + signal + open(x) + mine::close(1) + tile.time);
}
""",
    "attributes": """
typedef float Vector __attribute__((vector_size(32), aligned(4), __may_alias__));
#define ALWAYS inline __attribute__((always_inline))
#define ALIGNED(n) __attribute__((aligned(n)))
ALWAYS float half(float x) { return x / 2; }
[[gnu::noinline, gnu::hot]] static void work(float* y) { y[0] = 1; }
[[using gnu: cold, noinline]] static void rest() {}
[[nodiscard]] [[maybe_unused]] static int unused(int values[2]) { return values[values[0]]; }
__attribute__((target("avx2,fma"))) static void wide(float*) {}
struct ALIGNED(64) Line { float values[16]; };
extern "C" __attribute__((flatten)) void rmsnorm(const float* x, const float* w, float* y, long, long, float) {
    switch (int(x[0])) { case 0: work(y); [[fallthrough]]; default: rest(); }
    if (x[0] > 1) [[likely]] wide(y);
}
""",
    "macros": """
#pragma once
#ifndef UNROLL
#define UNROLL 4
#endif
#if defined(__AVX512F__) && __GNUC__ >= 12 && __has_include(<immintrin.h>) && UNROLL > 1
#define STEP(i) do { sum += x[(i)]; } while (0)
#elif defined __SSE2__
#define STEP(i) sum += x[(i)]
#else
#error "this kernel needs SSE2"
#endif
#undef UNROLL
#define CHECK(x) static_assert(x, #x)
#define LOG(...) (void)sizeof(0, __VA_ARGS__)
CHECK(sizeof(float) == 4);
""",
    "odd but harmless text": """
// asm("nop"); #include <fstream> \\
   still a comment: system("x")
/* #pragma weak f
   ??x R"( */
const char* text = "asm(\\"nop\\"); // not a comment /* nor this";
const char quote = '"', other = '\\'', back = '\\\\';
const char* joined = "a" /* " */ "b";
constexpr int big = 1'000'000, hex = 0xFF'FFu, octal = 0'17;
constexpr double tiny = 1e-6, power = 0x1.8p-3;
template <typename T> struct Box {};
Box<::Box<int>>* box;
int array<:2:> = <%1, 2%>;
const auto* wide = L"\\u0061sm";
const auto* utf = u8"\\x61";
""",
    "extern block": """
#include <cstdint>
extern "C" {
void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps);
void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (long i = 0; i < rows * cols; ++i) { y[i] = x[i]; }
}
}
template <typename T> struct Box {};
extern template struct Box<int>;
""",
}


@pytest.mark.parametrize("name", list(HONEST))
def test_honest_sources_pass(name: str) -> None:
    assert check(HONEST[name]) == ()


@pytest.mark.skipif(shutil.which("g++") is None or platform.machine() != "x86_64", reason="needs g++ for x86-64")
@pytest.mark.parametrize("name", list(HONEST))
def test_honest_sources_are_real(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(HONEST[name])
    command = ["g++", "-std=c++20", "-march=x86-64-v4", "-mavx512f", "-fopenmp", "-fsyntax-only", "k.cpp"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("folder", ["kernel", "seeds/streaming"])
def test_the_kernels_of_this_repository_pass(folder: str) -> None:
    candidate = read_candidate(ROOT / "kernel-specs" / "rmsnorm-cpu" / folder, SPEC.policy)
    assert check_sources(candidate.files, SPEC) == ()


def test_own_files_may_be_included_by_name() -> None:
    assert check('#include "tile.hpp"\n' + FUNCTION, tile="#pragma once\n") == ()
    assert '"k.cpp", "tile.hpp", or a standard header' in check('#include "tiles.hpp"\n', tile="#pragma once\n")[0]


def test_a_message_stands_at_its_place() -> None:
    assert check('int x;\n  /* é */ a\\\nsm("");\n') == ("k.cpp:2:11: inline assembly is not allowed; use intrinsics (immintrin.h)",)


def test_messages_are_in_order_and_not_too_many() -> None:
    found = check("asm; fork; getenv;\n" * 20)
    assert found[0].startswith("k.cpp:1:1: ")
    assert found[1].startswith("k.cpp:1:6: ")
    assert len(found) == 21
    assert found[-1] == "and 40 more"


def test_a_long_list_of_what_is_allowed_stands_once() -> None:
    first, second = check("#include <fstream>\n#include <unistd.h>\n")
    assert first.startswith("k.cpp:1:10: the header `<fstream>` is not allowed; allowed: algorithm, ")
    assert second == "k.cpp:2:10: the header `<unistd.h>` is not allowed; allowed: as listed above"


def allow_fast_math() -> Spec:
    return SPEC.model_copy(update={"policy": Policy(fast_math=True)})


def test_fast_math_is_the_spec_s_to_allow() -> None:
    launch = "build: {fast_math: true}\n" + LAUNCH
    assert check(FUNCTION, launch) == ("launch.yaml:1:20: `fast_math` is not allowed by the spec's policy; allowed: false",)
    assert check(FUNCTION, launch, allow_fast_math()) == ()
    source = '#pragma GCC optimize("fast-math")\n__attribute__((optimize("Ofast"))) static void f() {}\n' + FUNCTION
    assert len(check(source)) == 2
    assert check(source, spec=allow_fast_math()) == ()


DEFINES = [
    ("{extern: 1}", "1:19", "`extern` is a word of the language"),
    ("{cold: 1}", "1:19", "`cold` is a word of the language"),
    ("{__AVX2__: 1}", "1:19", "`__AVX2__` is the compiler's name"),
    ("{rmsnorm: 1}", "1:19", "`rmsnorm` is a function that launch.yaml calls"),
    ("{X: \"'asm'\"}", "1:22", "`X` can become `asm`"),
    ("{X: \"'a b'\"}", "1:22", "`X` can become `a b`"),
    ("{X: \"'system(0)'\"}", "1:22", "`X` can become `system(0)`"),
    ("{X: \"'extern'\"}", "1:22", "`X` can become `extern`"),
    ("{X: \"'read'\"}", "1:22", "`X` can become `read`"),
    ("{X: \"'constructor'\"}", "1:22", "`X` can become `constructor`"),
    ("{X: \"'1' if 1 > 2 else 'asm'\"}", "1:22", "`X` can become `asm`"),
    ("{X: \"'<fstream>'\"}", "1:22", "`X` can become `<fstream>`"),
    ("{X: \"''\"}", "1:22", "`X` can become ``"),
]


@pytest.mark.parametrize(("defines", "place", "message"), DEFINES)
def test_defines_are_part_of_the_source(defines: str, place: str, message: str) -> None:
    found = check(FUNCTION, f"build: {{defines: {defines}}}\n" + LAUNCH)
    assert [line.split(": ")[0] for line in found] == [f"launch.yaml:{place}"]
    assert message in found[0]


def test_knobs_that_become_names_are_part_of_the_source_before_a_row_chooses_them() -> None:
    launch = "knobs: {t: [float, asm]}\nbuild: {defines: {T: t}}\n" + LAUNCH
    assert check(FUNCTION, launch)[0].startswith("launch.yaml:2:22: `T` can become `asm`; allowed: whole numbers, names of one's own")
    assert check(FUNCTION, launch.replace("asm", "double")) == ()


@pytest.mark.parametrize("name", ["malloc", "memcpy", "main", "read", "system", "_start", "__libc_init"])
def test_a_function_takes_no_name_of_the_system(name: str) -> None:
    found = check("", LAUNCH.replace("rmsnorm", name))
    assert any(line.startswith("launch.yaml:2:23: ") and "is a name of the system's libraries" in line for line in found)


def test_the_manifest_is_checked_against_the_spec() -> None:
    assert check(FUNCTION, LAUNCH.replace("weight", "weights")) == (
        "launch.yaml:2:42: `weights` is not a tensor or scratch (did you mean `weight`?); allowed: x, weight, y",
    )


def test_other_languages_are_refused() -> None:
    found = check_sources({"launch.yaml": LAUNCH.encode().replace(b"k.cpp", b"k.cu"), "k.cu": b""}, SPEC)
    assert found == (
        "k.cu:1:1: target cpu takes .cpp and .hpp files only",
        "launch.yaml:1:10: no .cpp file is listed; at least one is compiled",
    )


def test_files_that_are_no_candidate_are_told_the_same_way() -> None:
    assert check_sources({"k.cpp": b""}, SPEC)[0].endswith("`launch.yaml` is missing; a kernel is its sources and that file")
    assert check_sources({"launch.yaml": LAUNCH.encode(), "k.cpp": b"\0"}, SPEC)[0].startswith("k.cpp:1:1: ")


@pytest.mark.parametrize(
    "piece",
    [
        "x = x + y * 2; // comment\n",
        "[[",
        "__attribute__((",
        "__attribute__((aligned(",
        'extern "C" ',
        'extern "C" {',
        "read(",
        "{[(",
        "#define A(x) (\n",
        "\\\n",
    ],
)
def test_hostile_sources_are_read_to_their_end(piece: str) -> None:
    """As large as the policy allows: a check that compares everything with everything would not come back."""
    check(piece * (260_000 // len(piece)))


def test_the_lists_do_not_contradict_each_other() -> None:
    assert not set(words.REFUSED) & set(words.ORDINARY)
    assert not set(words.ATTRIBUTES) & set(words.REFUSED)
    assert not set(words.TYPES) - set(words.KEYWORDS)
    assert all(lex(name).tokens[0].text == name for name in (*words.REFUSED, *words.ORDINARY, *words.KEYWORDS, *words.ATTRIBUTES))
