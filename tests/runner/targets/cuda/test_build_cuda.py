"""Builds through NVRTC in the sandbox, with no GPU: faults and their messages, facts, instances, what is shared and what is not read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from runner.candidate import Candidate
from runner.cli import app
from runner.errors import FactoryError
from runner.identity import git_tree
from runner.lint import lint_paths
from runner.manifest import KnobValue, Manifest, row_knobs
from runner.spec.load import LoadedSpec, load_spec
from runner.targets.registry import target_named
from runner.verdict import Rejected, Verdict

pytest.importorskip("cuda.bindings")

from runner.targets.cuda import build

SPECS = Path(__file__).resolve().parents[3] / "adversarial" / "specs"
ARCHITECTURES = ("sm_90a", "sm_100a")
PARAMETERS = "const void* x, const float* weight, void* y, long long rows, long long cols, float eps"
EMPTY = f'extern "C" __global__ void rmsnorm({PARAMETERS}) {{}}\n'
LAUNCH: dict[str, Any] = {
    "sources": ["rmsnorm.cu"],
    "launches": [
        {
            "kernel": "rmsnorm",
            "grid": ["rows", 1, 1],
            "block": [128, 1, 1],
            "args": ["x", "weight", "y", {"i64": "rows"}, {"i64": "cols"}, {"f32": "eps"}],
        }
    ],
}


@pytest.fixture(scope="module")
def spec() -> LoadedSpec:
    return load_spec(SPECS / "rmsnorm-small-cuda")


@pytest.fixture(autouse=True, scope="module")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_FACTORY_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def candidate(source: str, launch: Mapping[str, Any] | None = None, **files: str) -> Candidate:
    manifest = {**LAUNCH, **(launch or {})}
    every = {
        "rmsnorm.cu": source,
        "launch.yaml": yaml.safe_dump(manifest),
        **{name.replace("__", "."): text for name, text in files.items()},
    }
    data = {name: text.encode() for name, text in every.items()}
    return Candidate(data, Manifest.model_validate(manifest), git_tree(data))


def two_rows(folder: Path) -> Path:
    """A kernel folder whose table has two rows."""
    manifest = {
        **LAUNCH,
        "build": {"defines": {"WIDE": "wide"}},
        "knobs": {"wide": [1, 2]},
        "table": [{"when": "cols > 600", "wide": 2}, {"when": "true", "wide": 1}],
    }
    folder.mkdir()
    (folder / "rmsnorm.cu").write_text(EMPTY)
    (folder / "launch.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return folder


def fault(spec: LoadedSpec, one: Candidate, knobs: Mapping[str, KnobValue] | None = None) -> tuple[Verdict, str]:
    with pytest.raises(Rejected) as caught:
        target_named("sm_90a").build(spec, one, knobs or {})
    return caught.value.verdict, caught.value.message


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_kernel_builds_with_its_facts(spec: LoadedSpec, arch: str) -> None:
    source = f"""
    __device__ unsigned g_calls;
    extern "C" __global__ void __launch_bounds__(128) rmsnorm({PARAMETERS}) {{
      __shared__ float s_x[500];
      s_x[threadIdx.x] = weight[threadIdx.x];
      __syncthreads();
      static_cast<float*>(y)[threadIdx.x] = s_x[127 - threadIdx.x] + atomicAdd(&g_calls, 1u);
    }}
    """
    binary = target_named(arch).build(spec, candidate(source), {})
    assert binary.path.read_bytes().startswith(b"\x7fELF")
    assert binary.facts["static_shared"] == 2000
    assert 4 <= binary.facts["registers"] <= 64
    assert (binary.facts["spill_loads"], binary.facts["instances"]) == (0, 1)
    assert "rmsnorm: static_shared 2000" in binary.log
    assert build.symbols(binary) == {"rmsnorm": "rmsnorm"}
    assert build.variables(binary) == {"g_calls": 4}
    assert build.parameters(binary) == {"rmsnorm": (8, 8, 8, 8, 8, 4)}
    if build.disassembler() is not None:
        assert binary.facts["barriers"] >= 1


def test_every_row_has_its_own_instance(spec: LoadedSpec) -> None:
    source = f"template <int N, class T> __global__ void rmsnorm({PARAMETERS}) {{ if (N == WIDE) static_cast<T*>(y)[0] = T(); }}\n"
    launch = {
        "build": {"defines": {"WIDE": "wide * 2"}},
        "knobs": {"wide": [1, 2]},
        "table": [{"when": "cols > 600", "wide": 2}, {"when": "true", "wide": 1}],
        "launches": [{**LAUNCH["launches"][0], "kernel": "rmsnorm<{wide}, {ctype(weight)}>"}],
    }
    one = candidate(source, launch)
    built = [target_named("sm_90a").build(spec, one, row_knobs(one.manifest, row)) for row in (0, 1)]
    assert [list(build.symbols(binary)) for binary in built] == [["rmsnorm<2, float>"], ["rmsnorm<1, float>"]]
    assert built[0].sha256 != built[1].sha256


def test_the_same_content_is_built_once(spec: LoadedSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_named("sm_90a")
    first = target.build(spec, candidate(EMPTY), {})
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("built again"))
    assert target.build(spec, candidate(EMPTY), {}).path == first.path
    with pytest.raises(pytest.fail.Exception):
        target.build(spec, candidate(EMPTY + "\n"), {})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (EMPTY.replace("{}", "{ z = 1; }"), 'rmsnorm.cu:1: error: identifier "z" is undefined'),
        (EMPTY.replace("rmsnorm(", "other("), 'launch.yaml: error: identifier "rmsnorm" is undefined'),
        (EMPTY.replace(", float eps", ""), "launch.yaml: launch 0 passes 6 arguments; `rmsnorm` has 5 parameters"),
        (EMPTY.replace("long long cols", "int cols"), "launch 0, argument 5: 8 bytes are passed; the parameter of `rmsnorm` has 4"),
        (
            EMPTY.replace("{}", "{ __shared__ float s[60000]; s[rows] = eps; __syncthreads(); *(float*)y = s[cols]; }"),
            "too much shared data",
        ),
        ("#error not here\n", "rmsnorm.cu:1: catastrophic error: #error directive: not here"),
        ('#include "rmsnorm.cu"\n', "includes itself"),
        (EMPTY.replace("{}", '{ asm("no such;"); }'), "ptxas"),
        ('extern "C" __device__ void theirs();\n' + EMPTY.replace("{}", "{ theirs(); }"), "Unresolved extern function 'theirs'"),
    ],
)
def test_build_faults(spec: LoadedSpec, source: str, message: str) -> None:
    verdict, text = fault(spec, candidate(source))
    assert verdict is Verdict.BUILD_ERROR
    assert message in text
    assert "/src" not in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{ unsigned t; asm volatile("mov.u32 %0, %%clo" "ck;" : "=r"(t)); *(unsigned*)y = t; }', "reads a clock or a counter (`%clock`)"),
        ("{ *(void**)y = new float[cols]; }", "calls `malloc`"),
        ('{ asm volatile("{ .global .u32 g; st.global.u32 [g], 1; }"); }', "state is declared in C++"),
        ("{ *(long long*)y = *(&cols + threadIdx.x); }", "by the address of its parameter"),
    ],
)
def test_policy_faults_that_only_compiled_code_shows(spec: LoadedSpec, body: str, message: str) -> None:
    verdict, text = fault(spec, candidate(EMPTY.replace("long long cols", "const __grid_constant__ long long cols").replace("{}", body)))
    assert verdict is Verdict.POLICY_VIOLATION
    assert message in text


def test_a_build_that_takes_too_long_is_ended(spec: LoadedSpec) -> None:
    hasty = spec.spec.model_copy(update={"policy": spec.spec.policy.model_copy(update={"build_seconds": 2})})
    source = """
    template <int N, long long M> struct Tree { static constexpr long long sum = Tree<N - 1, 2 * M>::sum + Tree<N - 1, 2 * M + 1>::sum; };
    template <long long M> struct Tree<0, M> { static constexpr long long sum = M; };
    constexpr long long MUCH = Tree<26, 1>::sum;
    """
    verdict, text = fault(LoadedSpec(**{**vars(spec), "spec": hasty}), candidate(source + EMPTY))
    assert (verdict, text) == (Verdict.BUILD_ERROR, "the compiler did not finish within 2 s (the spec's policy.build_seconds)")


@pytest.mark.parametrize("place", ["/etc/passwd", "/proc/self/environ", "/factory/request.json", "/src/../etc/hostname"])
def test_the_compiler_itself_sees_no_file_of_the_machine(spec: LoadedSpec, place: str) -> None:
    """Behind the policy: what could be read is not quoted, and what is secret is not there."""
    _, text = fault(spec, candidate(f'#include "{place}"\n{EMPTY}'))
    secret = Path(place).read_text(errors="replace").splitlines()[0] if Path(place).is_file() and "environ" not in place else "units"
    assert secret not in text


def test_the_librarys_clock_stands_still(spec: LoadedSpec) -> None:
    source = "#include <cuda/std/chrono>\n"
    body = "{ *(long long*)y = cuda::std::chrono::system_clock::now().time_since_epoch().count(); }"
    patient = spec.spec.model_copy(update={"policy": spec.spec.policy.model_copy(update={"build_seconds": 120})})
    target_named("sm_90a").build(LoadedSpec(**{**vars(spec), "spec": patient}), candidate(source + EMPTY.replace("{}", body)), {})


def test_nothing_of_a_matrix_kernel_for_hopper_is_refused(spec: LoadedSpec) -> None:
    source = (Path(__file__).parent / "hopper.cu").read_text()
    launch = {
        "tensor_maps": {"x_map": {"of": "x", "box": [8, 64]}, "y_map": {"of": "y", "box": [8, 64]}},
        "launches": [
            {
                **LAUNCH["launches"][0],
                "grid": ["2 * rows", 1, 1],
                "block": [384, 1, 1],
                "cluster": [2, 1, 1],
                "shared": 16384,
                "args": [*LAUNCH["launches"][0]["args"], {"map": "x_map"}, {"map": "y_map"}],
            }
        ],
    }
    one = candidate(source, launch)
    target = target_named("sm_90a")
    assert target.check(spec, one) == ()
    binary = target.build(spec, one, {})
    assert build.parameters(binary)["rmsnorm"][-2:] == (128, 128)
    if build.disassembler() is not None:
        assert binary.facts["wgmma"] >= 1


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_command_builds_for_either_architecture(arch: str, tmp_path: Path) -> None:
    kernel = two_rows(tmp_path / "kernel")
    out = tmp_path / "built.json"
    line = ["build", str(SPECS / "rmsnorm-small-cuda"), "--candidate", str(kernel), "--arch", arch, "--json", str(out)]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert (found["spec"], found["target"], found["verdict"]) == ("rmsnorm-small-cuda", arch, "built")
    assert [row["knobs"] for row in found["rows"]] == [{"wide": 2}, {"wide": 1}]
    assert all(row["facts"]["registers"] > 0 and row["sha256"] for row in found["rows"])


def test_the_command_tells_a_fault_by_its_verdict(tmp_path: Path) -> None:
    kernel = SPECS.parent / "cuda" / "08-an-argument-fewer" / "kernel"
    out = tmp_path / "built.json"
    done = CliRunner().invoke(app, ["build", str(SPECS / "rmsnorm-small-cuda"), "--candidate", str(kernel), "--json", str(out)])
    assert done.exit_code == 1
    assert done.output.startswith("build_error: launch.yaml: launch 0 passes 5 arguments")
    assert json.loads(out.read_text())["verdict"] == "build_error"


def test_an_architecture_is_for_specs_of_a_gpu() -> None:
    with pytest.raises(FactoryError, match="copy-cpu is for a CPU; --arch is for specs whose target is a GPU"):
        CliRunner().invoke(app, ["build", str(SPECS / "copy-cpu"), "--arch", "sm_90a"], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec with a champion, as a person would commit it."""
    folder = tmp_path / "rmsnorm-small-cuda"
    shutil.copytree(SPECS / "rmsnorm-small-cuda", folder)
    two_rows(folder / "kernel")
    return folder


def test_lint_builds_every_row(folder: Path) -> None:
    assert lint_paths([folder]) == []
    source = folder / "kernel" / "rmsnorm.cu"
    source.write_text("#if WIDE == 1\n#error two is too few\n#endif\n" + source.read_text())
    (only,) = lint_paths([folder])
    assert (Path(only.file), only.line) == (source, 2)
    assert "two is too few" in only.message


def test_lint_tells_arguments_that_do_not_fit(folder: Path) -> None:
    manifest = folder / "kernel" / "launch.yaml"
    assert "i64: cols" in manifest.read_text()
    manifest.write_text(manifest.read_text().replace("i64: cols", "i32: cols"))
    (only,) = lint_paths([folder])
    assert Path(only.file) == manifest
    assert "row 1 can't be built: launch.yaml: launch 0, argument 5: 4 bytes are passed" in only.message
