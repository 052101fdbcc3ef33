"""The static policy for device code: each fault with its place and message, and honest text that looks like one."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.spec.load import LoadedSpec, load_spec
from runner.targets.cuda.policy import check_sources

SPECS = Path(__file__).resolve().parents[3] / "adversarial" / "specs"
KERNEL = """\
extern "C" __global__ void rmsnorm(const void* x, const float* weight, void* y, long long rows, long long cols, float eps) {
}
"""
LAUNCH = """\
sources: [rmsnorm.cu]
launches:
  - kernel: rmsnorm
    grid: [rows, 1, 1]
    block: [128, 1, 1]
    args: [x, weight, y, {i64: rows}, {i64: cols}, {f32: eps}]
"""


@pytest.fixture(scope="module")
def spec() -> LoadedSpec:
    return load_spec(SPECS / "rmsnorm-small-cuda")


def said(spec: LoadedSpec, source: str = KERNEL, launch: str = LAUNCH, **files: str) -> str:
    every = {"rmsnorm.cu": source, "launch.yaml": launch, **{name.replace("__", "."): text for name, text in files.items()}}
    return "\n".join(check_sources({name: text.encode() for name, text in every.items()}, spec.spec))


def test_an_honest_kernel_passes(spec: LoadedSpec) -> None:
    assert said(spec) == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("auto t = clock64();", "1:10: `clock64` is not allowed: a kernel does not see how it is timed"),
        ("auto t = clock();", "`clock` is not allowed"),
        ("void* p = malloc(4);", "1:11: `malloc` is not allowed: memory is what launch.yaml gives as scratch"),
        ('void f() { printf("x"); }', "1:12: `printf` is not allowed: a kernel prints nothing"),
        ("__managed__ int g;", "1:1: `__managed__` is not allowed: memory is what launch.yaml gives as scratch"),
        ("const char* d = __DATE__;", "`__DATE__` is not allowed: a build does not depend on when it is made"),
        ('#include "/etc/passwd"', '1:1: `#include "/etc/passwd"` is not allowed; allowed: the candidate'),
        ("#include <vector>", "`#include <vector>` is not allowed"),
        ('#include "../x.cuh"', "is not allowed"),
        ("#include WHERE", "`#include WHERE` is not allowed"),
        ("#include_next <mma.h>", "the directive `#include_next` is not allowed"),
        ('#import "x"', "the directive `#import` is not allowed"),
        ('#embed "x"', "the directive `#embed` is not allowed"),
        ("#line 3", "the directive `#line` is not allowed; allowed: define, elif"),
        ('# 1 "x"', "the directive `#1` is not allowed"),
        ("%:include <mma.h>", "1:1: a directive is written with `#`"),
        ("??=include <mma.h>", "a trigraph"),
        ("#pragma GCC poison x", "the pragma `GCC` is not allowed; allowed: diag_suppress"),
        ('_Pragma("include_alias(x, y)")', "the pragma `include_alias` is not allowed"),
        ("_Pragma(TEXT)", "the pragma `_Pragma` is not allowed"),
        ('#if __has_include("x")', "1:5: `__has_include` is not allowed: it asks about files"),
        ('const char* s = R"(x)";', "1:17: a raw string is not allowed"),
        ('const char* s = u8R"y(x)y";', "a raw string is not allowed"),
        ('void f() { asm("mov.u32 %0, %%clock;"); }', "1:16: this text reads a clock"),
        ('void f() { asm(".file 1 \\"x\\""); }', "this text names a file"),
        ("// a \r #include <vector>", "U+000D"),
        ('#if 0\n"\n#endif', "2:1: a quote is not closed in its line"),
        ("#define A 1 \\ \n", "there is space behind the"),
    ],
)
def test_words_and_directives(spec: LoadedSpec, line: str, message: str) -> None:
    assert message in said(spec, f"{line}\n{KERNEL}").replace("rmsnorm.cu:", "")


HIDDEN = '#include "/etc/passwd"'


@pytest.mark.parametrize(
    "text",
    [
        f"/* one */ {HIDDEN}",
        f"  \t#  \f  {HIDDEN[1:]}",
        '#inc\\\nlude "/etc/passwd"',
        '#include \\\n"/etc/passwd"',
        f'/\\\n* " *\\\n/ {HIDDEN} //"',
        f'#define A "\\\n/* "\n{HIDDEN}\n// */',
        f"#define A '\\\n/* '\n{HIDDEN}\n// */",
        f"int a = 1'0 + \"' /*\"[0];\n{HIDDEN}\n// */",
        f"int a = 0x1'f + \"' /*\"[0];\n{HIDDEN}\n// */",
        f'#if 0\n" /*\n#endif\n{HIDDEN}\n/* */',
        f"#if 0\nit's /*\n#endif\n{HIDDEN}\n/* */",
        f'const char* s = "\\"/*";\n{HIDDEN}\n// */',
        f'const char* s = R"(" /*)";\n{HIDDEN}\n// */',
        f"// \\\n\n{HIDDEN}",
        f"char c = '\"'; /* ' */\n{HIDDEN}\n/* \" */",
    ],
)
def test_no_text_hides_an_include(spec: LoadedSpec, text: str) -> None:
    assert said(spec, f"{text}\n{KERNEL}") != ""


@pytest.mark.parametrize(
    "text",
    [
        '// printf("x"); clock64(); 100 %: R"(x)" don\'t ??',
        '/* #include <vector>\n#include "x" */',
        "#define ADD(a, b) \\\n  ((a) + \\\n   (b))",
        "#define ADD(a, b) \\\r\n  ((a) + (b))\r",
        "constexpr int MANY = 1'000'000, HEX = 0xff'ff;",
        "constexpr char QUOTE = '\"', OTHER = '\\'';",
        'constexpr char TEXT[] = "/* not a comment // \\" # ";',
        "#pragma unroll\n#pragma nounroll\n#pragma once",
        '#define UNROLL _Pragma("unroll 4")',
        "__host__ __device__ constexpr int half(int n) { return n / 2; }",
        "__device__ int clock, assert, malloc_count; static_assert(sizeof(int) == 4);",
        "struct Pool { int free; }; __device__ int f(Pool p) { return p.free; }",
        "#include <cuda_bf16.h>\n#include <cuda/std/utility>\n#include <cub/block/block_reduce.cuh>\n  #  include <cooperative_groups.h>",
        "#ifdef A\n#elif B\n#else\n#warning not tuned\n#endif\n#undef A",
    ],
)
def test_what_honest_code_may_have(spec: LoadedSpec, text: str) -> None:
    assert said(spec, f"{text}\n{KERNEL}") == ""


def test_own_headers_may_be_included_by_name(spec: LoadedSpec) -> None:
    assert said(spec, f'#include "ptx.cuh"\n{KERNEL}', ptx__cuh="#pragma once\n") == ""
    assert "ptx.cuh:2:1: the directive `#line`" in said(spec, f'#include "ptx.cuh"\n{KERNEL}', ptx__cuh="#pragma once\n#line 3\n")


def test_a_place_behind_continued_lines_is_that_of_the_file(spec: LoadedSpec) -> None:
    assert "rmsnorm.cu:4:3: `clock64`" in said(spec, f"#define A \\\n 1 \\\n 2\n  clock64();\n{KERNEL}")
    assert "rmsnorm.cu:2:2: `clock64`" in said(spec, f"#define A \\\n clock64()\n{KERNEL}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sources:", "build: {fast_math: true}\nsources:", "1:20: `fast_math` is not allowed by the spec's policy; allowed: false"),
        ("sources:", "build: {arch: sm_80}\nsources:", "the architecture is the spec's `hardware.target`"),
        ("[rmsnorm.cu]", "[rmsnorm.cuh]", "no .cu file is listed"),
        ("kernel: rmsnorm", "kernel: 'f(x)'", "is not a kernel's name"),
        ("[rows, 1, 1]", "[rows, 70000, 1]", "grid is [256, 70000, 1]; allowed: 0 to"),
        ("[128, 1, 1]", "[128, 16, 1]", "a block of 2048 threads; allowed: 1 to 1024"),
        ("[128, 1, 1]", "[0, 1, 1]", "a block of 0 threads"),
        ("    args", "    shared: 232449\n    args", "232449 bytes of dynamic shared memory; allowed: 0 to 232448"),
        ("    args", "    cluster: [3, 1, 1]\n    args", "is no multiple of the cluster [3, 1, 1]"),
        ("    args", "    attributes: {pdl: true}\n    args", "`pdl` on a call's first launch"),
        ("    args", "    attributes: {priority: 1}\n    args", "unknown key `priority`; allowed here: pdl, cooperative, carveout"),
        ("    args", "    after: [0]\n    args", "a launch waits for earlier ones only"),
        ("{i64: rows}", "{i64: nothing}", "`nothing` is not an axis, a scalar or a knob"),
        ("[x, weight", "[x, bias", "`bias` is not a tensor or scratch; allowed: x, weight, y"),
        ("[x, weight", "[{map: x_map}, weight", "`x_map` is not a tensor map"),
        ("launches:", "scratch: {s: {dtype: float32, shape: [100000000, 1000]}}\nlaunches:", "scratch s would take 400000000000 bytes"),
        ("launches:", "tensor_maps: {m: {of: x, box: [1, 8], offset: 99999999}}\nlaunches:", "the view leaves x"),
    ],
)
def test_faults_of_the_manifest(spec: LoadedSpec, old: str, new: str, message: str) -> None:
    assert old in LAUNCH
    text = said(spec, launch=LAUNCH.replace(old, new), rmsnorm__cuh="")
    assert message in text
    assert text.startswith("launch.yaml:")


def test_host_sources_are_refused(spec: LoadedSpec) -> None:
    assert "helper.cpp:1:1: a target with a GPU takes .cu and .cuh files only" in said(spec, helper__cpp="int x;")
    assert "a host `function` can't be called on a GPU" in said(
        spec, launch="sources: [rmsnorm.cu]\nlaunches: [{function: rmsnorm, args: [x, weight, y]}]\n"
    )


def test_many_faults_are_cut_short(spec: LoadedSpec) -> None:
    lines = said(spec, "auto t = clock64();\n" * 50 + KERNEL).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 30 more"
