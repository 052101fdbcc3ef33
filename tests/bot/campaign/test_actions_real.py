"""The evaluate port with nothing replaced: a bare repository, this project's own evaluate.yml, act, the installed kernel-runner."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from real import write_real_spec

from bot.campaign.actions import ActionsEvaluation
from bot.campaign.dispatched import Patience
from bot.campaign.journal import Journal
from bot.campaign.live import Terminal
from bot.campaign.state import Entry, Tuning
from bot.campaign.store import Store
from bot.evidence.notebook import Notebook
from bot.forge.runs import Finished, execute
from bot.github.git import Clone
from runner.candidate import candidate_from_files, read_candidate
from runner.errors import FactoryError
from runner.spec.load import load_spec
from runner.verdict import Verdict

WORKFLOW = Path(__file__).parents[3] / ".github" / "workflows" / "evaluate.yml"
BOT = "kernel-factory[bot]"


@dataclass(frozen=True)
class Branch:
    name: str


@dataclass(frozen=True)
class Run:
    id: int
    head_sha: str
    status: str = "in_progress"
    conclusion: str | None = None
    path: str = ".github/workflows/evaluate.yml"
    event: str = "workflow_dispatch"
    head_branch: str = "main"
    actor: str = BOT
    attempt: int = 1


class Repository:
    """A bare repository on this disk, whose dispatched runs are executed by act, each in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bare = folder / "origin.git"
        self.runs: dict[int, Run] = {}
        self.finished: dict[int, Finished] = {}
        self._git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))

    def _git(self, *words: str) -> str:
        environment = {"PATH": os.environ["PATH"], "GIT_DIR": str(self.bare), "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(["git", *words], capture_output=True, check=True, env=environment)
        return done.stdout.decode().strip()

    def default_branch(self) -> Branch:
        return Branch("main")

    def head(self, branch: str) -> str | None:
        return self._git("rev-parse", f"refs/heads/{branch}")

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str]) -> int:
        number = len(self.runs) + 1
        sha = self.head(ref) or ""
        self.runs[number] = Run(number, sha)

        def work() -> None:
            done = execute(
                self.bare,
                workflow,
                f"refs/heads/{ref}",
                sha,
                inputs,
                number,
                self.folder / "runs" / str(number),
                "http://127.0.0.1:1",
                actor=BOT,
                seconds=300,
            )
            self.finished[number] = done
            self.runs[number] = replace(self.runs[number], status="completed", conclusion=done.conclusion)

        threading.Thread(target=work).start()
        return number

    def run(self, run_id: int) -> Run:
        return self.runs[run_id]

    def cancel(self, run_id: int) -> None:
        raise AssertionError("nothing is to be cancelled here")

    def artifact(self, run_id: int, name: str, max_bytes: int) -> bytes:
        path = self.finished[run_id].artifacts.get(name)
        if path is None:
            raise FactoryError(f"no artifact {name}:\n{self.finished[run_id].log}")
        return path.read_bytes()


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    with Notebook(tmp_path / "state" / "notebook.sqlite") as made:
        yield made


@pytest.mark.measures
def test_a_round_is_judged_by_a_dispatched_run(tmp_path: Path, notebook: Notebook) -> None:
    specs = tmp_path / "kernel-specs"
    spec = load_spec(write_real_spec(specs / "gate-cpu"))
    repository = Repository(tmp_path)
    clone = Clone(tmp_path / "clone", str(repository.bare), lambda: "no token is needed here")
    files: dict[str, bytes | None] = {
        str(path.relative_to(tmp_path)): path.read_bytes() for path in specs.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    main = clone.commit(None, {**files, ".github/workflows/evaluate.yml": WORKFLOW.read_bytes()}, "The spec")
    clone.push(f"{main}:refs/heads/main")
    store = Store(tmp_path / "state")
    port = ActionsEvaluation(repository, clone, Journal(notebook, store, Terminal()), store, login=BOT, patience=Patience(0.05, 60, 240))

    seed = read_candidate(spec.folder / "seeds" / "fused", spec.spec.policy)
    champion = read_candidate(spec.folder / "kernel", spec.spec.policy)
    source = champion.files["gate.cpp"].replace(b"+ value;", b"- value;")
    wrong = candidate_from_files({**champion.files, "gate.cpp": source}, "wrong")
    entry = Entry(campaign="c-1", round=1, agent="tpe", first=0, tree=store.put_candidate(seed), kind="search", parent=None, hypothesis="h")
    search = Tuning(strategy="tpe", trials=2, seed=1, prior=store.put_prior(()))
    entries = [
        entry.model_copy(update={"tuning": search}),
        entry.model_copy(update={"agent": "person", "tree": store.put_candidate(wrong)}),
        entry.model_copy(update={"agent": "champion", "tree": store.put_candidate(champion)}),
    ]

    tuned, refused, slow = port.evaluate(spec, entries, 600)

    assert len(repository.runs) == 2, repository.finished[max(repository.finished)].log
    # Which of the two it is depends on the neighbours of this machine.
    timed = (Verdict.ACCEPTED, Verdict.SLOWER)
    assert (tuned.experiments, tuned.verdict in timed, tuned.speedup is not None) == (2, True, True)
    assert (refused.verdict, refused.speedup) == (Verdict.INCORRECT, None)
    # Its result was taken only because its figures follow from its own samples: nothing is left out of the port's checks here.
    assert slow.verdict in timed
    assert slow.result is not None
    assert store.result(slow.result).identity.kernel_tree == champion.tree
    assert store.candidate(tuned.tree, spec.spec.policy).manifest.table
    assert "1 of 3: c-1/1/tpe/0" in repository.finished[2].log
    assert "incorrect" in repository.finished[2].summary
