"""Chooses what a candidate is compared with on each workload: the fastest of the spec's baselines that is installed and right.

A baseline that cannot be had, fails or is wrong is left out and named, so that it is never a win. The best times are kept in the state
folder for a device, spec, harness, PyTorch and workload: screening uses the choice that follows from them, a full evaluation measures
again and keeps the better of old and new (what disturbs a block only ever makes it longer), and `fresh` forgets the old ones.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from runner.contestant import prepare_baseline
from runner.errors import FactoryError
from runner.identity import harness_hash
from runner.spec.load import LoadedSpec
from runner.spec.models import Baseline
from runner.spec.workload import Workload
from runner.targets.protocol import Configs, Device, Placement, Target
from runner.timing import Side, Timer, WrongWhenTimed
from runner.verdict import Rejected

BLOCKS, ROTATION = 4, 2


@dataclass(frozen=True)
class Choice:
    """The chosen baseline of a workload, every baseline's best block in seconds a call, and why others were left out.

    `configs` is the fastest configuration of each baseline that has several, and `notes` how it was found."""

    name: str
    seconds: Mapping[str, float]
    left_out: Mapping[str, str]
    configs: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


class Chooser:
    """Chooses baselines for one spec on one device. `folder` is where choices are kept."""

    def __init__(
        self,
        target: Target,
        loaded: LoadedSpec,
        device: Device,
        timer: Timer,
        folder: Path,
        *,
        renew: bool,
        fresh: bool,
        retune: bool = False,
    ) -> None:
        self._target = target
        self._loaded = loaded
        self._timer = timer
        self._renew = renew
        self._far = device.far
        self._retune = retune
        key = "\0".join((device.id, loaded.spec_hash, torch.__version__, harness_hash()))
        self._path = folder / "baselines" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        self._known = {} if fresh else _read(self._path)

    def choose(self, workload: Workload, scales: Mapping[str, float]) -> Choice:
        """The baseline for a workload. Raises `FactoryError` when none of them can be used."""
        known = self._known.get(workload.name)
        if known is not None and not self._renew:
            return known
        before = known.seconds if known is not None else {}
        seconds: dict[str, float] = {}
        left_out: dict[str, str] = {}
        configs: dict[str, str] = {}
        notes: dict[str, str] = {}
        for baseline in self._loaded.spec.baselines:
            if known is not None and before.get(baseline.name, 0.0) > self._far * min(before.values()):
                seconds[baseline.name] = before[baseline.name]
                if baseline.name in known.configs:
                    configs[baseline.name], notes[baseline.name] = known.configs[baseline.name], known.notes.get(baseline.name, "")
                continue
            try:
                found = self._configs(baseline, workload, known)
                best, config = self._fastest(baseline, found.texts, workload, scales)
                seconds[baseline.name] = min(best, before.get(baseline.name, math.inf))
                if baseline.configs is not None:
                    configs[baseline.name], notes[baseline.name] = config, found.note
            except FactoryError as error:
                left_out[baseline.name] = str(error)
            except Rejected as error:
                left_out[baseline.name] = f"failed: {error.message}"
            except WrongWhenTimed as error:
                left_out[baseline.name] = f"wrong: {error}"
        if not seconds:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
            raise FactoryError(f"no baseline can be used on the workload {workload.name}: {reasons}")
        choice = Choice(min(seconds, key=seconds.__getitem__), seconds, left_out, configs, notes)
        self._known[workload.name] = choice
        _write(self._path, self._known)
        return choice

    def _configs(self, baseline: Baseline, workload: Workload, known: Choice | None) -> Configs:
        """The configurations to time: the one that is known to be the fastest, else all that are worth it."""
        if known is not None and baseline.name in known.configs:
            return Configs((known.configs[baseline.name],), known.notes.get(baseline.name, ""))
        if baseline.configs is None:
            return Configs()
        return self._target.baseline_configs(baseline, self._loaded, workload, again=self._retune)

    def _fastest(self, baseline: Baseline, configs: Sequence[str], workload: Workload, scales: Mapping[str, float]) -> tuple[float, str]:
        """The best block in seconds a call, and the configuration that gave it. Raises what the last raised where all of them fail."""
        times: list[tuple[float, str]] = []
        for index, config in enumerate(configs):
            try:
                times.append((min(self._timer.alone(workload, self.side(baseline, config), BLOCKS, ROTATION, scales)), config))
            except (FactoryError, Rejected, WrongWhenTimed):
                if index + 1 == len(configs) and not times:
                    raise
        return min(times)

    def side(self, baseline: Baseline, config: str = "") -> Side:
        """A baseline, with this configuration of it, as a side of the comparison."""
        contestant = prepare_baseline(self._target, self._loaded, baseline, config)
        return Side(baseline.name, lambda workload, slots: contestant.open(workload, slots, Placement.SPACED))

    def named(self, name: str) -> Baseline:
        """The spec's baseline of this name. Raises `FactoryError` where there is none."""
        return find_baseline(self._loaded, name)


def find_baseline(loaded: LoadedSpec, name: str) -> Baseline:
    """The spec's baseline of this name (or the only one that begins with it). Raises `FactoryError` naming what there is."""
    exact = [baseline for baseline in loaded.spec.baselines if baseline.name == name]
    found = exact or [baseline for baseline in loaded.spec.baselines if baseline.name.startswith(name)]
    if len(found) != 1:
        raise FactoryError(f"no baseline is called {name!r}; there are {', '.join(baseline.name for baseline in loaded.spec.baselines)}")
    return found[0]


def _read(path: Path) -> dict[str, Choice]:
    """Kept choices; none where nothing readable was kept, since they can be made again."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {name: Choice(**choice) for name, choice in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(path: Path, choices: Mapping[str, Choice]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({name: asdict(choice) for name, choice in choices.items()}, indent=1), encoding="utf-8")
    part.replace(path)
