"""The committed specs for GPUs, as far as a machine without one can tell: tolerances pass an fp32 computation and nothing coarser, kernels
build for their target, and the siblings for Blackwell are the same but for what they say of the hardware."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from runner.candidate import read_candidate, with_knobs
from runner.correctness import Verifier, Wrong
from runner.inputs import DTYPES, derive, draw_inputs
from runner.manifest import row_knobs
from runner.oracle import Oracle, load_entry
from runner.plan import with_axes
from runner.spec import workloads
from runner.spec.load import LoadedSpec, load_spec
from runner.spec.workload import Workload
from runner.state import VARIABLE
from runner.targets.protocol import Inspection
from runner.targets.registry import target_for

SPECS = Path(__file__).parents[3] / "kernel-specs"
FORWARD, BACKWARD = "rmsnorm-h100", "rmsnorm-bwd-h100"
PLAIN = {FORWARD: "baselines.py:in_float", BACKWARD: "baselines.py:rms_norm_backward"}
LARGEST = 1 << 18


def small(loaded: LoadedSpec) -> list[Workload]:
    """Every edge workload and a draw of each hidden one, but for those that take long on a CPU."""
    every = (*workloads.edge(loaded.spec), *workloads.hidden(loaded.spec, 7))
    return [one for one in every if max(layout.numel for layout in (*one.inputs.values(), *one.outputs.values())) <= LARGEST]


def judged(loaded: LoadedSpec, workload: Workload, compute: Callable[..., Any]) -> None:
    """Compare what a function of inputs and outputs by name computes. Raises `Wrong`."""
    oracle = Oracle(loaded)
    inputs = draw_inputs(workload, derive(3, workload.name))
    outputs = {name: torch.empty(layout.shape, dtype=DTYPES[layout.dtype]) for name, layout in workload.outputs.items()}
    absent = dict.fromkeys(name for name in (*loaded.spec.inputs, *loaded.spec.outputs) if name not in inputs and name not in outputs)
    compute(**inputs, **outputs, **absent, **workload.scalars)
    Verifier(loaded, oracle, workload, {}).full(Inspection(outputs, ()), inputs)


@pytest.mark.parametrize("name", [FORWARD, BACKWARD])
def test_a_plain_computation_in_fp32_passes_everywhere(name: str) -> None:
    loaded = load_spec(SPECS / name)
    compute = load_entry(loaded.folder, PLAIN[name])
    checked = small(loaded)
    assert len(checked) >= 20
    for workload in checked:
        judged(loaded, workload, compute)


def without_mean(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor
) -> None:
    factor = rstd.unsqueeze(-1)
    dx.copy_(factor * dy.float() * weight)
    dweight.copy_((dy.float() * x.float() * factor).sum(dim=0))


def in_16_bits(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor
) -> None:
    factor = rstd.unsqueeze(-1)
    normalised = (x.float() * factor).to(torch.float16).float()
    scaled = dy.float() * weight
    dx.copy_(factor * (scaled - normalised * (scaled * normalised).mean(dim=-1, keepdim=True)))
    dweight.copy_((dy.float() * x.float() * factor).sum(dim=0))


def rounded_products(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor
) -> None:
    load_entry(SPECS / BACKWARD, PLAIN[BACKWARD])(x=x, dy=dy, weight=weight, rstd=rstd, dx=dx, dweight=dweight)
    dweight.copy_((dy.float() * x.float() * rstd.unsqueeze(-1)).to(torch.float16).float().sum(dim=0))


@pytest.mark.parametrize("compute", [without_mean, in_16_bits, rounded_products])
@pytest.mark.parametrize("axes", [{"rows": 32, "cols": 16384}, {"rows": 2048, "cols": 256}])
def test_a_coarser_gradient_is_wrong(compute: Callable[..., None], axes: dict[str, int]) -> None:
    loaded = load_spec(SPECS / BACKWARD)
    workload = with_axes(loaded, workloads.public(loaded.spec)[0], axes)
    judged(loaded, workload, load_entry(loaded.folder, PLAIN[BACKWARD]))
    with pytest.raises(Wrong):
        judged(loaded, workload, compute)


@pytest.mark.parametrize("of", [FORWARD, BACKWARD])
def test_the_siblings_for_blackwell_differ_in_their_hardware_only(of: str) -> None:
    folder, sibling = SPECS / of, SPECS / of.replace("h100", "b200")
    kept = ("reference.py", "baselines.py", "kernel/*", "seeds/*/*")
    names, copied = (sorted(str(one.relative_to(place)) for glob in kept for one in place.glob(glob)) for place in (folder, sibling))
    assert names == copied
    for name in names:
        assert (sibling / name).read_bytes() == (folder / name).read_bytes(), f"{sibling / name} is no copy of {folder / name}"
    own = {"id", "title", "description", "hardware"}
    first, second = load_spec(folder).spec, load_spec(sibling).spec
    assert first.model_dump(exclude=own) == second.model_dump(exclude=own)
    assert second.hardware.target == "sm_100a"
    assert "NOT RUN YET" in second.description


@pytest.mark.parametrize("name", ["rmsnorm-b200", "rmsnorm-bwd-b200"])
def test_the_champion_builds_for_blackwell_without_spills(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    loaded = load_spec(SPECS / name)
    champion = read_candidate(loaded.folder / "kernel", loaded.spec.policy)
    target = target_for(loaded.spec)
    assert not target.check(loaded, champion)
    facts = target.build(loaded, champion, row_knobs(champion.manifest, len(champion.manifest.table) - 1)).facts
    assert facts["spill_stores"] == facts["spill_loads"] == 0


@pytest.mark.parametrize("name", [pytest.param("rmsnorm-b200", marks=pytest.mark.suite), "rmsnorm-bwd-h100"])
def test_a_point_of_the_seed_builds_without_spills(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    loaded = load_spec(SPECS / name)
    seed = read_candidate(loaded.folder / "seeds" / "rows", loaded.spec.policy)
    point = with_knobs(seed, {knob: 16 if knob == "elements" else values[0] for knob, values in seed.manifest.knobs.items()})
    target = target_for(loaded.spec)
    assert not target.check(loaded, point)
    facts = target.build(loaded, point, row_knobs(point.manifest, 0)).facts
    assert facts["spill_stores"] == facts["spill_loads"] == 0
