"""The evaluate port with nothing replaced: the client, the local forge, this project's own evaluate.yml, act, and `kernel-runner`."""

from __future__ import annotations

from collections.abc import Iterator
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
from bot.forge.server import Handle, running
from bot.github.auth import Access, App
from bot.github.client import Repository
from bot.github.git import Clone
from runner.candidate import candidate_from_files, read_candidate
from runner.errors import FactoryError
from runner.spec.load import LoadedSpec, load_spec
from runner.verdict import Verdict

# The client still asks PyGithub for a lazy repository by an argument that it is going to drop; only that warning is let through.
pytestmark = pytest.mark.filterwarnings("ignore:Argument lazy is deprecated:DeprecationWarning")
NAME = "team/kernels"
WORKFLOW = ".github/workflows/evaluate.yml"
REAL = (Path(__file__).parents[3] / WORKFLOW).read_bytes()
# As evaluate.yml, but that it judges nothing: quick, for what goes wrong around a run.
EMPTY = b"""\
on:
  workflow_dispatch:
    inputs: {request: {type: string}, commit: {type: string}, labels: {type: string}, minutes: {type: string}}
jobs:
  evaluate:
    runs-on: [self-hosted]
    steps:
      - run: mkdir evaluation && echo '{}' > evaluation/batch.json
      - uses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02
        with: {name: evaluation, path: evaluation}
"""


class Field:
    """A forge with a repository that a person committed the spec to, and the bot's port on it."""

    def __init__(self, folder: Path, forge: Handle, notebook: Notebook) -> None:
        self.folder = folder
        self.forge = forge
        self.url = forge.create_repository(NAME)
        self.person = forge.add_user("ada", write=True)
        self.spec: LoadedSpec = load_spec(write_real_spec(folder / "kernel-specs" / "gate-cpu"))
        access = Access(forge.api_url, App(forge.app.app_id, forge.app.private_key, forge.app.installation_id))
        self.store = Store(folder / "state")
        self.port = ActionsEvaluation(
            Repository(access, NAME),
            Clone(folder / "clone", self.url, access.token),
            Journal(notebook, self.store, Terminal()),
            self.store,
            login=forge.app.login,
            patience=Patience(0.2, 1.0, 120.0),
        )

    def commit(self, workflow: bytes) -> None:
        """Push the spec and the workflow to the default branch, as a person."""
        files: dict[str, bytes | None] = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.spec.folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
        clone = Clone(self.folder / "person", self.url, lambda: self.person)
        clone.push(f"{clone.commit(None, {**files, WORKFLOW: workflow}, 'The spec')}:refs/heads/main")


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    with running(tmp_path / "forge") as forge, Notebook(tmp_path / "state" / "notebook.sqlite") as notebook:
        yield Field(tmp_path, forge, notebook)


def test_a_round_is_judged_by_a_dispatched_run(field: Field) -> None:
    field.commit(REAL)
    spec, store = field.spec, field.store
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

    tuned, refused, slow = field.port.evaluate(spec, entries, 600)

    runs = list(field.forge.state(NAME).runs.values())
    assert [run.conclusion for run in runs] == ["success", "success"], runs[-1].log
    # Which of the two it is depends on the neighbours of this machine.
    timed = (Verdict.ACCEPTED, Verdict.SLOWER)
    assert (tuned.experiments, tuned.verdict in timed, tuned.speedup is not None) == (2, True, True)
    assert (refused.verdict, refused.speedup) == (Verdict.INCORRECT, None)
    # Its result was taken only because its figures follow from its own samples: nothing is left out of the port's checks here.
    assert slow.verdict in timed
    assert slow.result is not None
    assert store.result(slow.result).identity.kernel_tree == champion.tree
    assert store.candidate(tuned.tree, spec.spec.policy).manifest.table
    assert "1 of 3: c-1/1/tpe/0" in runs[-1].log
    assert "incorrect" in runs[-1].summary


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("run_queued", "no machine with the labels self-hosted"),
        ("run_fails", "ended as failure"),
        ("run_foreign", "its commit is"),
        ("artifact_missing", "no artifact"),
        ("artifact_expired", "expired"),
        ("artifact_large", "are allowed"),
        ("artifact_not_zip", "no zip file"),
        ("artifact_digest", "digest"),
        ("", "no kernel-batch-answer"),
    ],
)
def test_what_a_forge_does_to_a_run_is_told(field: Field, kind: str, reason: str) -> None:
    field.commit(EMPTY)
    if kind:
        field.forge.misbehave(kind)
    with pytest.raises(FactoryError, match=f"no machine judges gate-cpu: .*{reason}"):
        field.port.place(field.spec)
    assert field.forge.misbehaviours_left == []
    if kind == "run_queued":
        (run,) = field.forge.state(NAME).runs.values()
        assert run.cancelled.is_set()
