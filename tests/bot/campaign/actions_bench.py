"""A repository whose dispatched runs are executed here, by the real batch over the formula, and the evaluate port over it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from formula import DEVICE, FormulaBench, write_spec

from bot.campaign.actions import ActionsEvaluation
from bot.campaign.dispatched import Patience
from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.state import Entry, Outcome, Tuning
from bot.campaign.store import Store
from bot.evidence.notebook import Notebook
from bot.hosting import Missing
from runner.batch import run_batch
from runner.candidate import read_candidate
from runner.identity import harness_hash
from runner.spec.load import LoadedSpec, load_spec

PLENTY = 1e6
BOT = "kernel-factory[bot]"
HEAD = "a" * 40
Mischief = Callable[["Forge", "Ran"], None]


@dataclass(frozen=True)
class Branch:
    name: str
    sha: str


@dataclass
class Ran:
    """A run, with GitHub's names; `answer` is what its artifact holds."""

    id: int
    answer: dict[str, Any]
    path: str = ".github/workflows/evaluate.yml"
    event: str = "workflow_dispatch"
    head_branch: str = "main"
    head_sha: str = HEAD
    actor: str = BOT
    attempt: int = 1
    status: str = "completed"
    conclusion: str | None = "success"
    artifact: bytes | None = None
    deleted: bool = False


@dataclass
class Forge:
    """A repository whose runs are executed as they are dispatched. `mischief` are done to the runs, in the order of their dispatch."""

    folder: Path
    bench: FormulaBench = field(default_factory=lambda: FormulaBench(harness_hash()))
    device: str = DEVICE
    mischief: list[Mischief | None] = field(default_factory=list)
    commits: dict[str, Mapping[str, bytes | None]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    runs: list[Ran] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    inputs: list[Mapping[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def default_branch(self) -> Branch:
        return Branch("main", HEAD)

    def head(self, branch: str) -> str | None:
        return HEAD

    def commit(self, parent: str | None, changes: Mapping[str, bytes | None], message: str) -> str:
        assert parent is None
        name = f"{len(self.commits):040x}"
        self.commits[name] = changes
        return name

    def push(self, refspec: str) -> None:
        commit, _, ref = refspec.removeprefix("+").partition(":")
        self.refs[ref] = commit

    def started(self, workflow: str, ref: str, name: str, since: datetime) -> int | None:
        assert (workflow, ref) == ("evaluate.yml", "main")
        assert since < datetime.now(UTC)
        return 100 + self.names.index(name) if name in self.names else None

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str], name: str, since: datetime) -> int:
        assert (workflow, ref) == ("evaluate.yml", "main")
        assert name == f"evaluate {inputs['request']}"
        assert name not in self.names, "a run is started twice"
        assert self.refs[inputs["request"]] == inputs["commit"]
        number = 100 + len(self.runs)
        place = self.folder / str(number)
        for path, data in self.commits[inputs["commit"]].items():
            target = place / "in" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data or b"")
        request, specs = place / "in" / "request.json", self.folder / "specs"
        run_batch(request, specs, place / "out", run=f"{number}/1", bench=self.bench, device=lambda _: self.device)
        run = Ran(number, json.loads((place / "out" / "batch.json").read_bytes()))
        self.inputs.append(inputs)
        self.names.append(name)
        self.runs.append(run)
        wrong = self.mischief.pop(0) if self.mischief else None
        if wrong is not None:
            wrong(self, run)
        return number

    def run(self, run_id: int) -> Ran:
        run = self.runs[run_id - 100]
        if run.deleted:
            raise Missing(f"there is no run {run_id}")
        return run

    def cancel(self, run_id: int) -> None:
        self.cancelled.append(run_id)

    def artifact(self, run_id: int, name: str, max_bytes: int) -> bytes:
        run = self.run(run_id)
        if name != "evaluation" or run.artifact == b"":
            raise Missing(f"there is no artifact `{name}`")
        data = run.artifact if run.artifact is not None else zipped({"batch.json": json.dumps(run.answer).encode()})
        if len(data) > max_bytes:
            raise Missing("the artifact is too large")
        return data


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


class Bench:
    """A state folder with the port over a forge."""

    def __init__(self, folder: Path, forge: Forge | None = None) -> None:
        self.spec: LoadedSpec = load_spec(write_spec(folder / "specs" / "double-formula"))
        self.store = Store(folder / "state")
        self.notebook = Notebook(folder / "state" / "notebook.sqlite")
        self.watch = Terminal()
        self.forge = forge or Forge(folder)
        self.port = self.new_port()

    def new_port(self, **patience: float) -> ActionsEvaluation:
        """The port, as a process that starts anew has it."""
        journal = Journal(self.notebook, self.store, self.watch)
        waits = replace(Patience(poll=0.01, queue=0.05, overrun=0.05), **patience)
        return ActionsEvaluation(
            self.forge, self.forge, journal, self.store, login=BOT, gate=FormulaBench(), patience=waits, doubts=lambda *_: ()
        )

    def entry(self, folder: str, trials: int = 0, agent: str = "tpe", **other: Any) -> Entry:
        candidate = read_candidate(self.spec.folder / folder, self.spec.spec.policy)
        tuning = Tuning(strategy="random", trials=trials, seed=3, prior=self.store.put_prior(())) if trials else None
        fields: dict[str, Any] = {"round": 1, "first": 0, "tier": "screening" if trials else "full", **other}
        return Entry(
            campaign="c-1",
            agent=agent,
            tree=self.store.put_candidate(candidate),
            kind="search",
            parent=None,
            hypothesis="h",
            tuning=tuning,
            **fields,
        )

    def evaluate(self, *entries: Entry, seconds: float = PLENTY) -> list[Outcome]:
        return list(self.port.evaluate(self.spec, entries, seconds))

    def ids(self) -> list[str]:
        return [experiment.id for experiment in self.notebook.experiments("double-formula")]

    def batches(self) -> int:
        """How many runs were started for entries."""
        return sum("/places/" not in inputs["request"] for inputs in self.forge.inputs)


def other_run(**changes: Any) -> Mischief:
    """Changes what the forge says of a run."""
    return lambda forge, run: run.__dict__.update(changes)
