"""What is read from compiled code: parameters, memory that outlives a call, and everything that is refused however it was spelled."""

from __future__ import annotations

import pytest

from runner.targets.cuda.ptx import read_ptx

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 k_param_0", before: str = "") -> str:
    return (
        f"{HEAD}{before}\n.visible .entry k(\n\t{parameters}\n)\n{{\n\t.reg .pred %p<9>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<9>;\n"
        f"\tld.param.u64 \t%rd1, [k_param_0];\n{body}\n\tret;\n}}\n"
    )


def faults(body: str, **parts: str) -> str:
    return "\n".join(read_ptx(kernel(body, **parts)).faults)


@pytest.mark.parametrize(
    ("parameters", "sizes"),
    [
        (".param .u64 k_param_0,\n\t.param .u32 k_param_1,\n\t.param .f32 k_param_2", (8, 4, 4)),
        (".param .u64 .ptr .align 1 k_param_0,\n\t.param .u64 .ptr .global .align 16 k_param_1", (8, 8)),
        (".param .u64 k_param_0,\n\t.param .align 64 .b8 k_param_1[128]", (8, 128)),
        (".param .b64 k_param_0, .param .b16 k_param_1, .param .u8 k_param_2, .param .b8 k_param_3[3]", (8, 2, 1, 3)),
    ],
)
def test_sizes_of_parameters(parameters: str, sizes: tuple[int, ...]) -> None:
    read = read_ptx(kernel("", parameters=parameters))
    assert (read.kernels, read.faults) == ({"k": sizes}, ())


def test_every_kernel_is_found() -> None:
    two = kernel("") + ".visible .entry other()\n{\n\tret;\n}\n"
    assert read_ptx(two).kernels == {"k": (8,), "other": ()}


@pytest.mark.parametrize(
    ("declared", "use", "size"),
    [
        (".visible .global .align 4 .u32 g;", "st.global.u32 [g], 1;", 4),
        (".global .align 4 .u32 g;", "atom.global.add.u32 %r1, [g], 1;", 4),
        (".weak .global .align 16 .v4 .f32 g;", "mov.u64 %rd2, g;\nst.global.u32 [%rd2+4], 1;", 16),
        (".global .align 4 .b8 g[48] = {1, 2};", "mov.u64 %rd2, g;\nadd.s64 %rd3, %rd2, %rd1;\nred.global.add.u32 [%rd3], 1;", 48),
        (".global .align 8 .u64 g[3][5];", "mov.u64 %rd2, g;\nst.global.u64 [%rd1], %rd2;", 120),
        (".const .align 4 .u32 g;", "mov.u64 %rd2, g;\ncvta.const.u64 %rd3, %rd2;\nst.global.u32 [%rd3], 1;", 4),
        (".global .align 4 .u32 g;", "{ .reg .b64 at; mov.u64 at, g; st.global.u32 [at], 3; }", 4),
        (".global .align 4 .u32 g;\n.func f()\n{ ret;\n}", "mov.u64 %rd2, g;\ncall.uni (retval0), f, (%rd2);", 4),
        (".global .align 4 .u32 g;\n.global .align 8 .u64 h = generic(g);", "ld.global.u64 %rd2, [h];\nst.global.u32 [%rd2], 1;", 4),
        (".global .align 4 .u32 g;", "@%p1 bra L1;\nL1: @!%p2 st.global.u32 [g], 1;", 4),
    ],
)
def test_memory_that_may_be_written_is_restored(declared: str, use: str, size: int) -> None:
    read = read_ptx(kernel(use, before=declared))
    assert read.variables == {"g": size}
    assert read.faults == ()


@pytest.mark.parametrize("declared", [".global .align 4 .b8 g[256];", ".const .align 4 .b8 g[256] = {1, 2, 3};"])
@pytest.mark.parametrize(
    "use",
    ["ld.global.u32 %r1, [g+4];", "mov.u64 %rd2, g;\nmad.wide.u32 %rd3, %r1, 4, %rd2;\nld.global.nc.u32 %r2, [%rd3+8];", ""],
)
def test_tables_that_are_only_read_cost_nothing(declared: str, use: str) -> None:
    assert read_ptx(kernel(use, before=declared)).variables == {}


def test_a_name_that_looks_like_the_librarys_is_restored_all_the_same() -> None:
    name = "_ZN4cuda7g_stateE"
    assert read_ptx(kernel(f"st.global.u32 [{name}], 1;", before=f".global .align 4 .u32 {name};")).variables == {name: 4}


@pytest.mark.parametrize(
    "body",
    [
        "{ .global .u32 hidden; st.global.u32 [hidden], 3; }",
        "{ .const .u32 hidden; }",
        ".global .align 4 .u32 one, two;",
    ],
)
def test_state_declared_in_assembly_is_refused(body: str) -> None:
    assert "state is declared in C++" in faults(body)


@pytest.mark.parametrize(
    "before",
    [".extern .global .align 4 .u32 theirs;", ".global .attribute(.managed) .align 4 .u32 g;", ".const[2] .align 4 .u32 g;"],
)
def test_declarations_that_cant_be_restored_are_refused(before: str) -> None:
    assert "has the declaration" in faults("", before=before)


@pytest.mark.parametrize(
    "name", ["%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%pm0", "%pm7_64"]
)
def test_clocks_and_counters_are_refused(name: str) -> None:
    assert f"`{name}`): a kernel does not see how it is timed" in faults(f"mov.u64 %rd2, {name};")


@pytest.mark.parametrize("name", ["%gridid", "%envreg3", "%current_graph_exec", "%somethingnew"])
def test_registers_that_tell_calls_apart_are_refused(name: str) -> None:
    assert f"reads `{name}`: a kernel sees where it runs" in faults(f"mov.u64 %rd2, {name};")


def test_a_register_that_is_not_declared_is_none_of_the_kernels() -> None:
    assert "`%clone1`" in faults("mov.u64 %rd2, %clone1;")


@pytest.mark.parametrize(
    "name",
    ["%tid.x", "%ntid.y", "%ctaid.z", "%nctaid.x", "%laneid", "%smid", "%cluster_ctarank", "%clusterid.x", "%envreg1"],
)
def test_where_a_kernel_runs_it_may_read(name: str) -> None:
    assert faults(f"mov.u32 %r1, {name};") == ""


@pytest.mark.parametrize(
    "body",
    [
        '.pragma "/*"; mov.u64 %rd2, %clock64; .pragma "*/";',
        '.pragma "\\"; mov.u64 %rd2, %clock64; .pragma "x\\";',
        '.pragma "//"; mov.u64 %rd2, %clock64;\n.pragma "nounroll";',
        "// \r mov.u64 %rd2, %clock64;",
        "/* mov.u64 %rd2, %clock64;",
    ],
)
def test_text_that_could_hide_code_is_refused(body: str) -> None:
    assert faults(body) != ""


@pytest.mark.parametrize(
    "body", ['.pragma "nounroll";', '.pragma "enable_smem_spilling";', "// a comment with \"quotes\" and '/*'", "/* nothing // here */"]
)
def test_comments_and_the_compilers_own_pragma_pass(body: str) -> None:
    assert faults(body) == ""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('.file 1 "/etc/passwd"', ".file"),
        ("{ .include x }", ".include"),
        (".loc 1 2 3", ".loc"),
        (".section .debug {}", ".section"),
        ("brkpt;", "brkpt"),
        ("pmevent 1;", "pmevent"),
        ("@@DWARF x", "@@DWARF"),
    ],
)
def test_directives_and_instructions_of_tools_are_refused(body: str, found: str) -> None:
    assert f"has `{found}`" in faults(body)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("malloc", "scratch"),
        ("vprintf", "prints nothing"),
        ("__assertfail", "__trap"),
        ("cudaLaunchDeviceV2", "launches nothing"),
        ("cudaGetParameterBufferV2", "launches nothing"),
        ("anything", "nothing outside a kernel"),
    ],
)
def test_functions_from_outside_are_refused(name: str, why: str) -> None:
    text = faults("", before=f".extern .func (.param .b32 func_retval0) {name}\n(\n\t.param .b64 {name}_param_0\n)\n;")
    assert f"calls `{name}`" in text
    assert why in text


MAP = ".param .u64 k_param_0,\n\t.param .align 64 .b8 k_param_1[128]"


@pytest.mark.parametrize(
    "use",
    [
        "mov.b64 %rd2, k_param_1;\ncvta.param.u64 %rd3, %rd2;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {%r2, %r3}], [%r4];",
        "mov.b64 %rd2, k_param_1;\n@%p1 prefetch.tensormap [%rd2];",
        "mov.b64 %rd2, k_param_1;\nselp.b64 %rd3, %rd2, %rd1, %p1;\n"
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd3, {%r1}], [%r2];",
        "ld.param.u8 %r1, [k_param_1+127];",
        "ld.param.v2.u64 {%rd2, %rd3}, [k_param_1+112];",
    ],
)
def test_tensor_maps_are_used_by_their_address(use: str) -> None:
    assert faults(use, parameters=MAP) == ""


@pytest.mark.parametrize(
    "use",
    [
        "mov.b64 %rd2, k_param_0;\nld.volatile.u64 %rd3, [%rd2+4096];",
        "mov.b64 %rd2, k_param_1;\ncvta.param.u64 %rd3, %rd2;\nadd.s64 %rd4, %rd3, 4096;\nprefetch.tensormap [%rd4];",
        "mov.b64 %rd2, k_param_1;\nld.param.u64 %rd3, [%rd2+128];",
        "mov.b64 %rd2, k_param_1;\nst.global.u64 [%rd1], %rd2;",
        "mov.b64 %rd2, k_param_1;\ntensormap.replace.tile.global_address.global.b1024.b64 [%rd2], %rd1;",
        "ld.param.u64 %rd3, [k_param_1+128];",
        "ld\n.param .u64 %rd3, [k_param_1+128];",
        "mov .b64 %rd2, k_param_0;\nld .u64 %rd3, [%rd2+64];",
        "ld.param.v4.u32 {%r1, %r2, %r3, %r4}, [k_param_1+120];",
        "ld.param.u64 %rd3, [k_param_0+-8];",
        "{ .reg .b64 at; mov.b64 at, k_param_1; add.u64 at, at, 64; ld.u64 %rd2, [at]; }",
    ],
)
def test_what_lies_beside_the_parameters_is_out_of_reach(use: str) -> None:
    assert "by the address of its parameter" in faults(use, parameters=MAP)


@pytest.mark.parametrize(
    ("use", "before"),
    [
        ("mov.u64 %rd2, helper;\nst.global.u32 [%rd2], 0;", ""),
        ("mov.u64 %rd2, k;\nld.global.u64 %rd3, [%rd2];", ""),
        ("mov.u64 %rd2, helper;\ncall.uni %rd2, (), prototype;", ""),
        ("", ".global .align 8 .u64 table[2] = {helper, 0};"),
    ],
)
def test_where_code_lies_is_not_told(use: str, before: str) -> None:
    function = ".func helper()\n{\n\tret;\n}\n"
    assert "takes the address of the function" in faults(use, before=f"{before}\n{function}")
    assert faults("call.uni helper, ();", before=function) == ""


def test_large_memory_is_scratch() -> None:
    assert "variables take 67108865 bytes; allowed: up to 67108864" in faults("", before=".global .align 1 .b8 g[67108865];")
    assert faults("", before=".global .align 1 .b8 g[67108864];") == ""


HINTED = "ld.global.L2::cache_hint.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1], "


@pytest.mark.parametrize(
    "use",
    [
        f"createpolicy.fractional.L2::evict_last.b64 %rd2, 1.0;\n{HINTED}%rd2;",
        f"createpolicy.fractional.L2::evict_first.L2::evict_last.b64 %rd2, 0.5;\n{HINTED}%rd2;",
        f"createpolicy.range.global.L2::evict_last.b64 %rd2, [%rd1], 4096, 8192;\n{HINTED}%rd2;",
        f"createpolicy.cvt.L2.b64 %rd2, %rd1;\n{HINTED}%rd2;",
        f"{HINTED}0x14F0000000000000;",
        f"mov.u64 %rd2, 1508846095364358144;\n{HINTED}%rd2;",
        f"ld.global.u64 %rd2, [%rd1];\n{HINTED}%rd2;",
        f"{HINTED}%rd1;",
        f"createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;\nadd.s64 %rd3, %rd2, 1;\n{HINTED}%rd3;",
        f"createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;\n@%p1 xor.b64 %rd2, %rd2, %rd1;\n{HINTED}%rd2;",
        f"createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;\nselp.b64 %rd3, %rd2, %rd1, %p1;\n{HINTED}%rd3;",
        "prefetch.global.L2::evict_last [%rd1];",
        "{prefetch\n.global\t.L2::evict_last [%rd1];}",
        f"createpolicy .fractional .L2::evict_last .b64 %rd2, 1.0;\n{HINTED}%rd2;",
        "ld.global.L2::evict_last.v8.b32 {%r1, %r2}, [%rd1];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%rd1], %r2, [%r3], %rd1;",
    ],
)
def test_the_cache_is_not_asked_to_keep_lines(use: str) -> None:
    assert "asks the cache to keep lines for later calls" in faults(use)


@pytest.mark.parametrize(
    "use",
    [
        f"createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;\n{HINTED}%rd2;",
        f"createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd2, 0.25;\nmov.b64 %rd3, %rd2;\n{HINTED}%rd3;",
        f"createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0;\ncreatepolicy.fractional.L2::evict_normal.b64 %rd3, 1.0;\n"
        f"selp.b64 %rd4, %rd2, %rd3, %p1;\n{HINTED}%rd4;",
        f"mov.u64 %rd2, 1152921504606846976;\n{HINTED}%rd2;",
        f"{HINTED}0x12F0000000000000;",
        "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; st.global.L2::cache_hint.u32 [%rd1], %r1, policy; }",
        "ld.global.L1::evict_last.L2::128B.u32 %r1, [%rd1];",
        "prefetch.global.L2::evict_normal [%rd1];",
    ],
)
def test_other_hints_pass(use: str) -> None:
    assert faults(use) == ""


@pytest.mark.parametrize("declared", [".func helper;", ".extern .func other(.param .b32 x);", ".visible .entry other();"])
def test_a_function_within_a_function_hides_nothing(declared: str) -> None:
    body = f"mov.b64 %rd2, k_param_0;\n{{ {declared} }}\nld.u64 %rd3, [%rd2+64];"
    assert "within another" in faults(body, before=".func helper()\n{\n\tret;\n}\n")


@pytest.mark.parametrize("call", ["call.uni (r), malloc, (p);", "call malloc, (p);", "call (r), %rd1, (p), prototype;", "call.uni other;"])
def test_only_what_is_defined_is_called(call: str) -> None:
    prototypes = ".func (.param .b64 r) malloc(.param .b64 s);\n.func other;\n"
    assert "calls `" in faults(call, before=prototypes)


def test_a_function_may_be_announced_before_it_is_defined() -> None:
    before = ".func (.param .b32 r) helper(.param .b32 x)\n;\n.func (.param .b32 r) helper(.param .b32 x)\n{\n\tret;\n}\n"
    assert faults("call.uni (retval0), \nhelper, \n(param0);", before=before) == ""
