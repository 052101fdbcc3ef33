"""Does a second campaign on the same notebook get there sooner? Runs both campaigns' searches for several seeds and keeps the data.

    python tests/e2e/warm_start.py [--spec DIR] [--out FILE] [--seeds 5] [--trials 8] [--rounds 2]

Each seed has a notebook of its own and two campaigns on it, one after the other: the spec's search lineages, in rounds, with the real
agents, tuner and judge (screening tier) on the spec's target. The second campaign may evaluate as much as the first, and ends where
it reaches the bar. Nothing else may run on the machine meanwhile. Seeds that the file has already are not run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.agents.protocol import Brief, Proposal
from bot.agents.registry import make_agent
from bot.evidence.experiment import Experiment
from bot.evidence.lessons import learn
from bot.evidence.notebook import Notebook
from bot.settings import Settings
from runner.candidate import Candidate, read_candidate
from runner.identity import harness_hash, source_hash
from runner.spec.load import LoadedSpec, load_spec
from runner.targets.protocol import Target
from runner.tuning import Trial, tune

SHARE = 0.98  # of the first campaign's best, which both campaigns' evaluations are counted up to


@dataclass(frozen=True)
class Course:
    """How one campaign's searches went: after how many evaluations it reached the bar, or None; out of how many; and its best."""

    needed: int | None
    evaluations: int
    best: float


class _Reached(Exception):
    """The bar was reached: ends a search between two trials."""


def run_campaign(
    spec: LoadedSpec, target: Target, notebook: Notebook, campaign: str, *, seed: int, rounds: int, trials: int, until: float = math.inf
) -> None:
    """The searches of one campaign, written into the notebook: each round, each search lineage of the spec tries up to `trials` points.

    The campaign ends with the first evaluation whose speed-up is at least `until`.
    """
    try:
        _run(spec, target, notebook, campaign, seed, rounds, trials, until)
    except _Reached:
        return


def _run(spec: LoadedSpec, target: Target, notebook: Notebook, campaign: str, seed: int, rounds: int, trials: int, until: float) -> None:
    device = target.device().name
    champion = read_candidate(spec.folder / "kernel", spec.spec.policy)
    for number in range(1, rounds + 1):
        for agent in spec.spec.agents:
            experiments = notebook.experiments(spec.spec.id, first=campaign)
            brief = Brief(
                spec=spec,
                campaign=campaign,
                round=number,
                agent=agent.name,
                champion=champion,
                start=read_candidate(spec.folder / agent.start, spec.spec.policy),
                best=None,
                experiments=experiments,
                lessons=learn(experiments),
                trials=trials,
                seed=int.from_bytes(hashlib.sha256(f"{seed}/{campaign}/{number}/{agent.name}".encode()).digest()[:4], "big"),
                device=device,
            )
            for proposal in make_agent(agent, Settings(), lambda candidate: None).propose(brief):
                _search(spec, target, notebook, brief, proposal, until)


def _search(spec: LoadedSpec, target: Target, notebook: Notebook, brief: Brief, proposal: Proposal, until: float) -> None:
    tuning = proposal.tuning
    if tuning is None:
        return
    record = _recorder(spec, notebook, brief, proposal.candidate, until)
    tune(
        spec,
        proposal.candidate,
        target,
        strategy=tuning.strategy,
        trials=tuning.trials,
        seed=tuning.seed,
        prior=tuning.prior,
        on_trial=record,
    )


def _recorder(spec: LoadedSpec, notebook: Notebook, brief: Brief, candidate: Candidate, until: float) -> Callable[[int, Trial], None]:
    source, harness = source_hash(candidate), harness_hash()

    def record(index: int, trial: Trial) -> None:
        experiment = Experiment(
            id=f"{brief.campaign}/{brief.round}/{brief.agent}/{index}",
            campaign=brief.campaign,
            spec=spec.spec.id,
            spec_hash=spec.spec_hash,
            harness=harness,
            device=brief.device,
            round=brief.round,
            agent=brief.agent,
            index=index,
            tier="screening",
            kernel_tree=trial.kernel_tree,
            source=source,
            knobs=dict(trial.knobs),
            kind="search",
            parent=None,
            hypothesis="",
            verdict=trial.verdict,
            message=trial.message[:500],
            speedup=trial.speedup,
            interval=trial.interval,
            workloads=dict(trial.workloads),
            seconds=trial.seconds,
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
        notebook.record(experiment)
        if (trial.speedup or 0.0) >= until:
            raise _Reached

    return record


def courses(experiments: Sequence[Experiment]) -> tuple[Course, Course]:
    """How the campaigns `first` and `second` of one seed went, both up to `SHARE` of the first one's best."""
    first, second = (_course(_in_order(experiments, campaign), bar(experiments)) for campaign in ("first", "second"))
    return first, second


def bar(experiments: Sequence[Experiment]) -> float:
    """The speed-up that both campaigns are counted up to."""
    return SHARE * max((one.speedup or 0.0 for one in experiments if one.campaign == "first"), default=math.inf)


def _in_order(experiments: Sequence[Experiment], campaign: str) -> list[Experiment]:
    return sorted((one for one in experiments if one.campaign == campaign), key=lambda one: (one.created, one.id))


def _course(made: Sequence[Experiment], aim: float) -> Course:
    needed = next((number for number, one in enumerate(made, start=1) if (one.speedup or 0.0) >= aim), None)
    return Course(needed, len(made), max((one.speedup or 0.0 for one in made), default=0.0))


def medians(seeds: Sequence[Sequence[Experiment]]) -> tuple[float, float]:
    """The median evaluations that the first and the second campaigns needed. A campaign that never got there counts as infinite."""
    pairs = [courses(experiments) for experiments in seeds]
    first, second = ([math.inf if pair[which].needed is None else float(pair[which].needed or 0) for pair in pairs] for which in (0, 1))
    return statistics.median(first), statistics.median(second)


def load(path: Path) -> list[list[Experiment]]:
    """The experiments of a kept file, a list a seed."""
    return _experiments(json.loads(path.read_text(encoding="utf-8")))


def _experiments(data: dict[str, Any]) -> list[list[Experiment]]:
    return [[Experiment.model_validate(one) for one in seed["experiments"]] for seed in data["seeds"]]


def save(path: Path, facts: dict[str, Any], seeds: dict[int, Sequence[Experiment]]) -> None:
    """Keep everything: facts of the machine, and every experiment of every seed, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blocks = []
    for seed, experiments in seeds.items():
        lines = ",\n".join(experiment.model_dump_json() for experiment in experiments)
        blocks.append(f'{{"seed": {seed}, "experiments": [\n{lines}\n]}}')
    head = json.dumps(facts, ensure_ascii=False)[1:-1]
    path.write_text(f'{{{head}, "seeds": [\n' + ",\n".join(blocks) + "\n]}\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Run the experiment and keep its data; exit status 1 when the second campaigns did not get there sooner."""
    from runner.targets.registry import target_for

    root = Path(__file__).parents[2]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--spec", type=Path, default=root / "kernel-specs" / "rmsnorm-cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--trials", type=int, default=4, help="of a lineage in a round")
    options = parser.parse_args(arguments)
    spec = load_spec(options.spec)
    target = target_for(spec.spec)
    device = target.device().name
    slug = "-".join("".join(sign if sign.isalnum() else " " for sign in device.lower()).split())
    out = options.out or root / "tests" / "data" / "warm-start" / f"{datetime.now(UTC):%Y-%m-%d}-{slug}.json"
    begun = time.monotonic()
    facts = {
        "spec": spec.spec.id,
        "device": device,
        "rounds": options.rounds,
        "trials": options.trials,
        "started": datetime.now(UTC).isoformat(),
    }
    # How busy the machine was as each seed began: about 0 when nothing else ran, about a running judge's own later on.
    load: list[float] = []
    seeds: dict[int, Sequence[Experiment]] = {}
    if out.exists():
        kept = json.loads(out.read_text(encoding="utf-8"))
        if any(kept[name] != facts[name] for name in ("spec", "device", "rounds", "trials")):
            parser.error(f"{out} was made with another spec, device, rounds or trials")
        facts["started"], load, begun = kept["started"], kept["load"][: len(kept["seeds"])], begun - kept["seconds"]
        seeds = dict(enumerate(_experiments(kept)))
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(len(seeds), options.seeds):
            load.append(round(os.getloadavg()[0], 2))
            with Notebook(Path(folder) / f"{seed}.sqlite3") as notebook:
                budget = {"seed": seed, "rounds": options.rounds, "trials": options.trials}
                run_campaign(spec, target, notebook, "first", **budget)
                run_campaign(spec, target, notebook, "second", **budget, until=bar(notebook.experiments(spec.spec.id)))
                seeds[seed] = notebook.experiments(spec.spec.id)
            first, second = courses(seeds[seed])
            print(f"seed {seed}: first {first}; second {second}; {time.monotonic() - begun:.0f} s", flush=True)
            save(out, {**facts, "load": load, "seconds": round(time.monotonic() - begun, 1)}, seeds)
    needed_first, needed_second = medians(list(seeds.values()))
    print(f"medians over {len(seeds)} seeds: first {needed_first:g}, second {needed_second:g} evaluations; kept in {out}")
    return 0 if needed_second < needed_first else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
