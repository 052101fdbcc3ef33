"""Dispatched runs, executed by act from the workflow file of a real repository."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bot.forge.runs import Finished, execute

CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683"
UPLOAD = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02"
HEAD = """\
name: evaluate
on:
  workflow_dispatch:
    inputs: {commit: {type: string, required: true}}
jobs:
  evaluate:
    runs-on: [self-hosted]
    steps:
"""
KEEP = f"      - uses: {UPLOAD}\n        if: always()\n        with: {{name: evaluation, path: out}}\n"


class Origin:
    """A bare repository whose default branch holds a workflow of the given steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bare = folder / "origin.git"
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))

    def git(self, *words: str, given: str = "") -> str:
        done = subprocess.run(["git", *words], input=given, capture_output=True, text=True, check=True, env=GIT)
        return done.stdout.strip()

    def commit(self, files: dict[str, str]) -> str:
        """A commit of these files, on no branch."""
        index = {"GIT_INDEX_FILE": str(self.folder / "index"), "GIT_DIR": str(self.bare), **GIT}
        (self.folder / "index").unlink(missing_ok=True)
        for path, text in files.items():
            blob = self.git("--git-dir", str(self.bare), "hash-object", "-w", "--stdin", given=text)
            subprocess.run(["git", "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}"], check=True, env=index)
        tree = subprocess.run(["git", "write-tree"], check=True, env=index, capture_output=True, text=True).stdout.strip()
        return self.git("--git-dir", str(self.bare), "commit-tree", "-m", "m", tree)

    def run(self, workflow: str, data: dict[str, str] | None = None, **other: Any) -> Finished:
        sha = self.commit({".github/workflows/evaluate.yml": workflow, "kernel-specs/a/spec.yaml": "of the branch"})
        inputs = {"commit": self.commit(data or {"request.json": "{}"})}
        return execute(
            self.bare,
            "evaluate.yml",
            "refs/heads/main",
            sha,
            inputs,
            17,
            self.folder / "run",
            "http://127.0.0.1:1",
            full_name="o/r",
            **other,
        )


GIT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


def steps(*lines: str, env: str = "") -> str:
    return "      - run: |\n" + "".join(f"          {line}\n" for line in lines) + (f"        env: {{{env}}}\n" if env else "")


def checkout(ref: str, path: str) -> str:
    return f"      - uses: {CHECKOUT}\n        with: {{ref: '{ref}', path: {path}, persist-credentials: false}}\n"


def content(finished: Finished, name: str) -> dict[str, str]:
    with zipfile.ZipFile(finished.artifacts[name]) as file:
        return {entry: file.read(entry).decode() for entry in file.namelist()}


def test_a_run_sees_the_commits_and_its_own_identity_and_keeps_an_artifact(origin: Origin) -> None:
    workflow = HEAD + checkout("${{ github.sha }}", "repository") + checkout("${{ inputs.commit }}", "attempts")
    workflow += steps(
        "mkdir out",
        "cat repository/kernel-specs/a/spec.yaml > out/spec",
        "cp attempts/request.json out",
        'echo "$RUN" > out/run',
        "echo told to people",
        "command -v kernel-runner",
        'echo "| a summary |" >> "$GITHUB_STEP_SUMMARY"',
        'echo "$KERNEL_FACTORY_STATE" > out/state',
        env="RUN: '${{ github.run_id }} ${{ github.run_attempt }} ${{ github.repository }} ${{ github.actor }}'",
    )
    finished = origin.run(workflow + KEEP, {"request.json": '{"a": 1}'}, actor="the-bot[bot]")
    assert finished.conclusion == "success", finished.log
    found = content(finished, "evaluation")
    assert found.pop("state") == f"{origin.folder / 'machine'}\n"
    assert "| a summary |" in finished.summary
    assert found == {"spec": "of the branch", "request.json": '{"a": 1}', "run": "17 1 o/r the-bot[bot]\n"}
    assert "told to people" in finished.log


def test_nothing_of_this_process_environment_reaches_a_run(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "s3cr3t")
    finished = origin.run(HEAD + steps("mkdir out", "env > out/env") + KEEP)
    assert finished.conclusion == "success", finished.log
    names = {line.partition("=")[0] for line in content(finished, "evaluation")["env"].splitlines()}
    assert "A_SECRET" not in names
    assert "s3cr3t" not in finished.log
    assert "HOME" in names


def test_a_failing_step_is_a_failure_and_what_it_left_is_kept(origin: Origin) -> None:
    finished = origin.run(HEAD + steps("mkdir out", "echo half > out/half", "exit 3") + KEEP)
    assert finished.conclusion == "failure"
    assert content(finished, "evaluation") == {"half": "half\n"}


def test_a_run_that_prints_much_is_judged_by_its_end(origin: Origin) -> None:
    printing = steps("mkdir out", "echo done > out/done", "for i in $(seq 150); do head -c 10000 /dev/zero | tr '\\0' x; echo; done")
    finished = origin.run(HEAD + printing + KEEP)
    assert finished.conclusion == "success", finished.log[-2000:]
    assert 1_000_000 < len(finished.log) < 1_100_000


def test_a_machine_without_act_says_what_to_install(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.forge.runs._tool", lambda name: f"/nonexistent/{name}")
    finished = origin.run(HEAD + steps("mkdir out", "echo a > out/a") + KEEP)
    assert finished.conclusion == "failure"
    assert "install the extra" in finished.log


def test_a_job_that_asks_for_a_label_of_no_machine_is_no_success(origin: Origin) -> None:
    finished = origin.run((HEAD + steps("mkdir out", "echo a > out/a") + KEEP).replace("[self-hosted]", "[another-machine]"))
    assert finished.conclusion == "failure"
    assert finished.artifacts == {}
    assert "no job succeeded" in finished.log


def test_a_workflow_that_is_not_there_is_a_failure(origin: Origin, tmp_path: Path) -> None:
    sha = origin.commit({"a": "b"})
    finished = execute(origin.bare, "evaluate.yml", "refs/heads/main", sha, {}, 1, tmp_path / "run", "http://127.0.0.1:1")
    assert (finished.conclusion, dict(finished.artifacts)) == ("failure", {})


@pytest.mark.parametrize("by", ["cancelled", "timed_out"])
def test_a_run_that_is_ended_leaves_no_process(origin: Origin, tmp_path: Path, by: str) -> None:
    pids, event = tmp_path / "pids", threading.Event()
    # One child in a session of its own without a mark, and one that ignores signals.
    hanging = steps(f"setsid env -i /bin/bash -c 'echo $$ >> \"{pids}\"; sleep 1000' &", f"trap '' TERM; echo $$ >> '{pids}'", "sleep 1000")
    if by == "cancelled":

        def end() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and (not pids.exists() or len(pids.read_text().split()) < 2):
                time.sleep(0.02)
            event.set()

        threading.Thread(target=end).start()
    finished = origin.run(HEAD + hanging, cancelled=event, seconds=60 if by == "cancelled" else 4)
    assert finished.conclusion == by
    left = [pid for pid in pids.read_text().split() if alive(int(pid))]
    assert left == []


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
