"""The choice of the baseline: kept for screening, improved by each full evaluation, forgotten when asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from specs import BRIEF, state_in, write_spec

from runner.baseline import Chooser, find_baseline
from runner.errors import FactoryError
from runner.inputs import Pool
from runner.oracle import Oracle
from runner.spec import workloads
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload
from runner.targets.protocol import Configs, Target, Worker
from runner.targets.registry import target_for
from runner.timing import Timer

TWO = BRIEF.replace("  - {name: torch, ", "  - {name: torch in steps, entry: baselines.py:steps}\n  - {name: torch, ")
BASELINES = """\
import torch


def scale(x, shift, y, factor):
    torch.add(shift, x, alpha=factor, out=y)


def steps(x, shift, y, factor):
    for _ in range(40):
        torch.add(shift, x, alpha=factor, out=y)
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedSpec]:
    """The spec of all tests, which share the process with PyTorch in it. Each keeps its choices in a folder of its own."""
    with state_in(tmp_path_factory.mktemp("state")):
        yield write_spec(tmp_path_factory.mktemp("two"), TWO, baselines=BASELINES)


def chooser(loaded: LoadedSpec, folder: Path, *, renew: bool = False, fresh: bool = False) -> Chooser:
    target = target_for(loaded.spec)
    timer = Timer(loaded, Oracle(loaded), Pool(1), target.device(), 1)
    return Chooser(target, loaded, target.device(), timer, folder, renew=renew, fresh=fresh)


def kept(folder: Path) -> Path:
    (path,) = (folder / "baselines").glob("*.json")
    return path


def test_the_fastest_configuration_is_kept_and_one_that_fails_is_passed_over(
    loaded: LoadedSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline = loaded.spec.baselines[0].model_copy(update={"configs": "baselines.py:configs"})
    other = loaded.spec.model_copy(update={"baselines": (baseline,)})
    loaded = replace(loaded, spec=other)
    small, target, asked = workloads.public(loaded.spec)[0], target_for(loaded.spec), []
    opened = type(target).open_baseline

    def open_baseline(self: Target, baseline: Baseline, spec: LoadedSpec, workload: Workload, slots: int, config: str = "") -> Worker:
        if config == "bad":
            raise FactoryError("no such configuration")
        plain = baseline.model_copy(update={"entry": f"baselines.py:{config}"})
        return opened(self, plain, spec, workload, slots)

    def baseline_configs(self: Target, baseline: Baseline, spec: LoadedSpec, workload: Workload, *, again: bool) -> Configs:
        asked.append(again)
        return Configs(("bad", "steps", "scale"), "found by hand")

    monkeypatch.setattr(type(target), "open_baseline", open_baseline)
    monkeypatch.setattr(type(target), "baseline_configs", baseline_configs)
    choice = chooser(loaded, tmp_path).choose(small, {"y": 0.2})
    assert choice.configs == {baseline.name: "scale"}
    assert choice.notes == {baseline.name: "found by hand"}
    chooser(loaded, tmp_path, renew=True).choose(small, {"y": 0.2})
    assert asked == [False]


def test_the_fastest_is_chosen_and_kept(loaded: LoadedSpec, tmp_path: Path) -> None:
    small = workloads.public(loaded.spec)[0]
    choice = chooser(loaded, tmp_path).choose(small, {"y": 0.2})
    assert choice.name == "torch"
    assert set(choice.seconds) == {"torch", "torch in steps"}
    # A kept choice is used as it is, whatever it says.
    data = json.loads(kept(tmp_path).read_text())
    data["small"]["name"] = "torch in steps"
    kept(tmp_path).write_text(json.dumps(data))
    assert chooser(loaded, tmp_path).choose(small, {"y": 0.2}).name == "torch in steps"


def test_a_choice_made_on_a_busy_machine_is_mended_by_the_next_full_evaluation(loaded: LoadedSpec, tmp_path: Path) -> None:
    small = workloads.public(loaded.spec)[0]
    first = chooser(loaded, tmp_path).choose(small, {"y": 0.2})
    data = json.loads(kept(tmp_path).read_text())
    data["small"] |= {"name": "torch in steps", "seconds": {"torch": 1000.0, "torch in steps": first.seconds["torch in steps"]}}
    kept(tmp_path).write_text(json.dumps(data))
    again = chooser(loaded, tmp_path, renew=True).choose(small, {"y": 0.2})
    assert again.name == "torch"
    assert again.seconds["torch"] < 1000
    assert again.seconds["torch in steps"] <= first.seconds["torch in steps"]
    assert chooser(loaded, tmp_path).choose(small, {"y": 0.2}).name == "torch"


def test_fresh_forgets_what_was_kept(loaded: LoadedSpec, tmp_path: Path) -> None:
    small = workloads.public(loaded.spec)[0]
    chooser(loaded, tmp_path).choose(small, {"y": 0.2})
    data = json.loads(kept(tmp_path).read_text())
    data["small"]["seconds"]["torch in steps"] = 1e-12
    kept(tmp_path).write_text(json.dumps(data))
    assert chooser(loaded, tmp_path, renew=True, fresh=True).choose(small, {"y": 0.2}).seconds["torch in steps"] > 1e-9


def test_what_was_kept_and_can_t_be_read_is_made_again(loaded: LoadedSpec, tmp_path: Path) -> None:
    small = workloads.public(loaded.spec)[0]
    chooser(loaded, tmp_path).choose(small, {"y": 0.2})
    kept(tmp_path).write_text('{"small": 3')
    assert chooser(loaded, tmp_path).choose(small, {"y": 0.2}).name == "torch"


def test_a_baseline_is_found_by_its_name_or_an_unmistakable_beginning(loaded: LoadedSpec) -> None:
    assert find_baseline(loaded, "torch").name == "torch"
    assert find_baseline(loaded, "torch in").name == "torch in steps"
    with pytest.raises(FactoryError, match="no baseline is called 'numpy'; there are torch in steps, torch"):
        find_baseline(loaded, "numpy")
