"""Building in the sandbox: what is refused and how it is told, what a compile can reach, and that equal contents give equal binaries."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scale_bench import HONEST, Bench

from runner.targets.cpu import build, features
from runner.verdict import Rejected, Verdict


def refusal(bench: Bench, source: str, point: dict[str, Any] | None = None, **launch: Any) -> Rejected:
    with pytest.raises(Rejected) as refused:
        bench.build(source, point, **launch)
    return refused.value


def test_a_build_has_a_hash_and_facts_and_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    built = bench.build(HONEST)
    assert built.path.is_file()
    assert len(built.sha256) == 64
    assert built.facts["binary_bytes"] == built.path.stat().st_size
    if shutil.which("objdump"):
        assert int(built.facts["xmm"]) + int(built.facts["ymm"]) + int(built.facts["zmm"]) > 0

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the same content must not be compiled again")

    monkeypatch.setattr(build, "_compile", never)
    assert bench.build(HONEST) == built


def test_the_same_content_gives_the_same_binary(bench: Bench, state: Path) -> None:
    first = bench.build(HONEST + "// again\n")
    for folder in (state / "binaries").iterdir():
        for one in folder.iterdir():
            if one == first.path.parent:
                shutil.rmtree(one)
    assert bench.build(HONEST + "// again\n").sha256 == first.sha256


def test_knobs_reach_the_compiler(bench: Bench) -> None:
    source = HONEST + "\nstatic_assert(WIDE == 8);\nstatic_assert(HALF == 4);\nstatic_assert(sizeof(TYPE) == 8);\n"
    launch = {"build": {"defines": {"WIDE": "wide", "HALF": "wide // 2", "TYPE": "kind"}}, "knobs": {"wide": [8], "kind": ["double"]}}
    assert bench.build(source, {"wide": 8, "kind": "double"}, **launch).knobs == {"wide": 8, "kind": "double"}
    assert "static assertion failed" in refusal(bench, source, {"wide": 6, "kind": "double"}, **launch).message


@pytest.mark.parametrize("value", ["a b", "x;y", "$(id)", "x" * 65, "ü", ""])
def test_a_define_is_a_number_or_a_plain_word(bench: Bench, value: str) -> None:
    refused = refusal(bench, HONEST, {"kind": value}, build={"defines": {"KIND": "kind"}}, knobs={"kind": [value]})
    assert refused.verdict is Verdict.BUILD_ERROR
    assert "build.defines.KIND" in refused.message


def test_a_compile_error_is_told_at_its_place(bench: Bench) -> None:
    refused = refusal(bench, "int f() {\n    return missing;\n}\n")
    assert refused.verdict is Verdict.BUILD_ERROR
    assert "scale.cpp:2:12: error: 'missing' was not declared in this scope" in refused.message
    assert "/" not in refused.message.replace("//", "")


def test_a_function_with_other_arguments_is_the_compilers_error(bench: Bench) -> None:
    wrong = HONEST.replace("float factor", "double factor")
    refused = refusal(bench, wrong)
    assert "scale.cpp:3:17: error: conflicting declaration of C function" in refused.message


def test_a_missing_function_is_the_linkers_error(bench: Bench) -> None:
    assert refusal(bench, "#include <cstdint>\n").message == "error: undefined reference to `scale'"


@pytest.mark.parametrize(
    "line",
    [
        '#include "/etc/passwd"',
        '#include "../../../../etc/passwd"',
        "#include </etc/passwd>",
        '#include "/proc/self/environ"',
        '#include "/factory/../etc/hostname"',
        'asm(".incbin \\"/etc/passwd\\"");',
        '#include "{home}/.profile"',
        '#include "{secret}"',
    ],
)
def test_a_compile_reveals_nothing_outside_its_folder(bench: Bench, tmp_path: Path, line: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a_secret_word\n")
    refused = refusal(bench, line.format(home=Path.home(), secret=secret) + "\n" + HONEST)
    assert refused.verdict is Verdict.BUILD_ERROR
    for word in ("root:", "a_secret_word", "nologin", "PATH="):
        assert word not in refused.message


def test_a_compile_that_takes_too_long_is_ended(bench: Bench) -> None:
    slow = """
template <int N, int M> struct Slow { static constexpr int value = Slow<N - 1, M>::value + Slow<N - 1, M + (1 << (N % 20))>::value; };
template <int M> struct Slow<0, M> { static constexpr int value = 1; };
static_assert(Slow<24, 0>::value > 0);
"""
    policy = bench.spec.spec.policy.model_copy(update={"build_seconds": 1})
    spec = bench.spec.spec.model_copy(update={"policy": policy})
    with pytest.raises(Rejected) as refused:
        build.build(spec, bench.candidate(slow + HONEST), {})
    assert refused.value.verdict is Verdict.BUILD_ERROR
    assert "within 1 s" in refused.value.message


def test_architectures_are_a_list(bench: Bench) -> None:
    refused = refusal(bench, HONEST, {"isa": "pentium"}, build={"arch": "isa"}, knobs={"isa": ["pentium"]})
    assert refused.verdict is Verdict.BUILD_ERROR
    assert "allowed on this kind of machine: " in refused.message
    assert refusal(bench, HONEST, build={"arch": "unknown_knob"}).verdict is Verdict.BUILD_ERROR


def test_a_feature_that_this_cpu_lacks_is_named_before_anything_is_compiled(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "cpu_flags", lambda: frozenset({"sse4_2"}))
    name = "x86-64-v4" if "x86-64-v4" in features.architectures() else "armv9-a"
    flag = "avx512f" if name == "x86-64-v4" else "sve2"
    refused = refusal(bench, "not even C++", {"isa": name}, build={"arch": "isa"}, knobs={"isa": [name]})
    assert refused.verdict is Verdict.LAUNCH_ERROR
    assert refused.message.startswith(f"{name} needs ")
    assert flag in refused.message
    assert "which this CPU lacks; allowed here: " in refused.message


def test_fast_math_needs_the_specs_permission(bench: Bench) -> None:
    refused = refusal(bench, HONEST, build={"fast_math": True})
    assert refused.verdict is Verdict.POLICY_VIOLATION
    assert "fast_math" in refused.message
    policy = bench.spec.spec.policy.model_copy(update={"fast_math": True})
    spec = bench.spec.spec.model_copy(update={"policy": policy})
    source = HONEST + "#ifndef __FAST_MATH__\n#error slow\n#endif\n"
    assert build.build(spec, bench.candidate(source, build={"fast_math": True}), {}).path.is_file()
    assert "#error slow" in refusal(bench, source).message


@pytest.mark.parametrize("name", ["../escaped.hpp", "/tmp/escaped.hpp", "a/b.hpp", ".."])
def test_a_file_name_that_leaves_the_folder_is_refused(bench: Bench, name: str) -> None:
    candidate = bench.candidate(HONEST)
    with pytest.raises(Rejected, match="leaves the candidate's folder"):
        bench.target.build(bench.spec, replace(candidate, files={**candidate.files, name: b""}), {})


def test_sources_that_are_not_there_are_named(bench: Bench) -> None:
    assert "other.cpp" in refusal(bench, HONEST, sources=["scale.cpp", "other.cpp"]).message
    assert "no .cpp file" in refusal(bench, HONEST, sources=["scale.hpp"]).message
