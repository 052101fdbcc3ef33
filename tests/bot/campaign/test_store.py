"""The store: by hash, whole or absent, and never anything else than what its name says."""

from __future__ import annotations

from pathlib import Path

import pytest
from formula import FormulaBench, write_spec

from bot.campaign.store import Store, write_atomically
from runner.candidate import Candidate, read_candidate
from runner.errors import FactoryError
from runner.result import Result
from runner.spec.load import LoadedSpec, load_spec
from runner.tuning import Trial
from runner.verdict import Verdict


@pytest.fixture
def spec(tmp_path: Path) -> LoadedSpec:
    return load_spec(write_spec(tmp_path / "double-formula"))


@pytest.fixture
def champion(spec: LoadedSpec) -> Candidate:
    return read_candidate(spec.folder / "kernel", spec.spec.policy)


def judged(spec: LoadedSpec, candidate: Candidate) -> Result:
    return FormulaBench().judge(spec, candidate, tier="full", against="baseline", fresh=False, progress=lambda _: None)


def test_a_candidate_comes_back_as_it_was(tmp_path: Path, spec: LoadedSpec, champion: Candidate) -> None:
    store = Store(tmp_path / "state")
    assert store.put_candidate(champion) == store.put_candidate(champion) == champion.tree
    assert store.candidate(champion.tree, spec.spec.policy) == champion


def test_a_changed_candidate_is_refused(tmp_path: Path, spec: LoadedSpec, champion: Candidate) -> None:
    store = Store(tmp_path / "state")
    source = store.candidate_folder(store.put_candidate(champion)) / "twice.cpp"
    source.write_text(source.read_text() + "// changed\n")
    with pytest.raises(FactoryError, match="was changed"):
        store.candidate(champion.tree, spec.spec.policy)


def test_a_candidate_that_is_changed_after_it_was_read_is_refused_and_taken_again_when_mended(
    tmp_path: Path, spec: LoadedSpec, champion: Candidate
) -> None:
    store, policy = Store(tmp_path / "state"), spec.spec.policy
    source = store.candidate_folder(store.put_candidate(champion)) / "twice.cpp"
    first, text = store.candidate(champion.tree, policy), source.read_text()
    assert store.candidate(champion.tree, policy) is first
    source.write_text(text + "// changed\n")
    with pytest.raises(FactoryError, match="was changed"):
        store.candidate(champion.tree, policy)
    source.write_text(text)
    assert store.candidate(champion.tree, policy) == champion
    with pytest.raises(FactoryError, match="more than 1 bytes"):
        store.candidate(champion.tree, policy.model_copy(update={"max_bytes": 1}))


def test_a_result_is_found_by_hash_and_by_experiment(tmp_path: Path, spec: LoadedSpec, champion: Candidate) -> None:
    store, result = Store(tmp_path / "state"), judged(spec, champion)
    sha = store.put_result("c/0/champion/0", result)
    assert store.result(sha) == result
    assert store.result_of("c/0/champion/0") == sha
    assert store.result_of("c/0/champion/1") is None


def test_a_changed_or_missing_result_is_refused(tmp_path: Path, spec: LoadedSpec, champion: Candidate) -> None:
    store = Store(tmp_path / "state")
    sha = store.put_result("c/0/champion/0", judged(spec, champion))
    path = store.folder / "results" / f"{sha}.json"
    path.write_bytes(path.read_bytes().replace(b"0.8", b"1.8"))
    with pytest.raises(FactoryError, match="no longer has the hash"):
        store.result(sha)
    path.unlink()
    with pytest.raises(FactoryError, match="can't be read"):
        store.result(sha)


def test_a_warm_start_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    trials = (
        Trial({"isa": "v3", "unroll": 4}, Verdict.ACCEPTED, "", 1.25, (1.2, 1.3), {"small": 1.25}, 0.5, "a" * 40),
        Trial({"isa": "v4", "unroll": 1}, Verdict.LAUNCH_ERROR, "not on this CPU", None, None, {}, 0.1, "b" * 40),
    )
    assert store.prior(store.put_prior(trials)) == trials


def test_a_file_that_cannot_be_written_is_an_expected_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FactoryError, match="can't be written"):
        write_atomically(tmp_path / "file" / "below", b"")


def test_writing_leaves_no_part_behind(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "a", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"two"
