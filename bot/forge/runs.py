"""Executes a dispatched run: the repository's own workflow file, by act on this machine, with nothing of this process's environment.

act ignores `timeout-minutes`, takes a job that no platform matches for a success, and leaves children behind: so a run has a
deadline of its own here, succeeds only when act says so of every job, and all that it started ends with it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bot.forge.stand_ins import ARTIFACTS, GIT_DIR, write_stand_ins

Conclusion = Literal["success", "failure", "cancelled", "timed_out", "skipped"]
MARK = "FORGE_RUN_MARK"
DEFAULT_SECONDS = 3600.0
POLL_SECONDS = 0.05
LOG_BYTES = 1 << 20
_LABEL = re.compile(r"[\w.-]{1,100}")


@dataclass(frozen=True)
class Finished:
    """How a run ended: its conclusion, the zip file of each artifact by name, what its steps printed, and its step summary."""

    conclusion: Conclusion
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    log: str = ""
    summary: str = ""


def execute(
    repository: Path,
    workflow: str,
    ref: str,
    sha: str,
    inputs: Mapping[str, str],
    run_id: int,
    folder: Path,
    server_url: str,
    *,
    full_name: str = "local/factory",
    actor: str = "kernel-factory[bot]",
    labels: tuple[str, ...] = ("self-hosted",),
    cancelled: threading.Event | None = None,
    seconds: float = DEFAULT_SECONDS,
    machine: Mapping[str, str] | None = None,
) -> Finished:
    """Execute `.github/workflows/<workflow>` as it is at the commit `sha` of the bare `repository`, and wait for its end.

    `folder` is the run's own: it is made, and afterwards holds its artifacts and its log. `labels` are those of this machine as a
    runner; a job that asks for others never runs, which is a failure. Setting `cancelled` (from another thread) ends the run, as the
    deadline after `seconds` does. `machine` is what this machine as a runner sets for every job; unless told otherwise its judge keeps
    what is to survive a run in a folder beside `folder`. Never raises for what the workflow does.
    """
    run = _Run(folder, cancelled or threading.Event(), time.monotonic() + seconds)
    path = f".github/workflows/{workflow.removeprefix('.github/workflows/')}"
    text = _text_at(repository, sha, path)
    if text is None:
        return Finished("failure", log=f"{path} is not in {sha}")
    owner, _, name = full_name.partition("/")
    event = {
        "inputs": dict(inputs),
        "ref": ref,
        "workflow": path,
        "repository": {"full_name": full_name, "name": name, "owner": {"login": owner}, "default_branch": ref.removeprefix("refs/heads/")},
        "sender": {"login": actor},
    }
    environment = {
        "GITHUB_RUN_ID": str(run_id),
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_REPOSITORY": full_name,
        "GITHUB_SERVER_URL": server_url,
        "GITHUB_REF": ref,
        "GITHUB_SHA": sha,
        GIT_DIR: str(repository.resolve()),
        ARTIFACTS: str(run.artifacts),
        MARK: run.mark,
        "KERNEL_FACTORY_STATE": str(folder.resolve().parent / "machine"),
        **(machine or {}),
    }
    return run.of(repository.resolve(), path, text, event, environment, labels, actor)


class _Run:
    """One run's folder, its end, and the mark by which its processes are known."""

    def __init__(self, folder: Path, cancelled: threading.Event, end: float) -> None:
        self.folder = folder.resolve()
        self.cancelled = cancelled
        self.end = end
        self.mark = secrets.token_hex(16)
        self.home, self.work, self.artifacts = self.folder / "home", self.folder / "work", self.folder / "artifacts"

    def of(
        self,
        repository: Path,
        path: str,
        text: str,
        event: Mapping[str, object],
        environment: Mapping[str, str],
        labels: tuple[str, ...],
        actor: str,
    ) -> Finished:
        shutil.rmtree(self.folder, ignore_errors=True)
        for folder in (self.home, self.work, self.artifacts, self.folder / "tmp"):
            folder.mkdir(parents=True)
        self._check_out(repository, environment["GITHUB_REF"], environment["GITHUB_SHA"], path, text)
        (self.folder / "event.json").write_text(json.dumps(event), encoding="utf-8")
        words = [_tool("act"), "workflow_dispatch", "-W", path, "-e", str(self.folder / "event.json"), "--json", "-a", actor]
        words += ["--no-cache-server", "--action-offline-mode", "--no-skip-checkout"]
        for label in labels:
            if _LABEL.fullmatch(label) is None:
                return Finished("failure", log=f"{label!r} is no runner label")
            words += ["-P", f"{label}=-self-hosted"]
        for value in write_stand_ins(text, self.folder / "actions"):
            words += ["--local-repository", value]
        for name, value in environment.items():
            words += ["--env", f"{name}={value}"]
        conclusion = self._wait(words)
        log, succeeded, summary = _read(self.folder / "act.log")
        if conclusion == "success" and not succeeded:
            conclusion = "failure"
            log += "\nno job succeeded" if labels else "\nthis machine has no runner label"
        (self.folder / "log.txt").write_text(log, encoding="utf-8")
        for rest in (self.home, self.work, self.folder / "tmp", self.folder / "actions"):
            shutil.rmtree(rest, ignore_errors=True)
        found = {file.stem: file for file in sorted(self.artifacts.glob("*.zip")) if not file.name.startswith(".")}
        return Finished(conclusion, found, log, summary)

    def _check_out(self, repository: Path, ref: str, sha: str, path: str, text: str) -> None:
        """A repository that shares the objects of the bare one, at the run's commit: act reads `github.sha` and `github.ref` there.

        Only the workflow file is laid out.
        """
        subprocess.run(["git", "init", "--quiet", str(self.work)], check=True, capture_output=True, env=self._environment())
        (self.work / ".git" / "objects" / "info" / "alternates").write_text(f"{repository / 'objects'}\n", encoding="utf-8")
        for words in (["update-ref", ref, sha], ["symbolic-ref", "HEAD", ref]):
            subprocess.run(["git", "-C", str(self.work), *words], check=True, capture_output=True, env=self._environment())
        target = self.work / path
        target.parent.mkdir(parents=True)
        target.write_text(text, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        """All of the environment that a run begins with."""
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            MARK: self.mark,
        }

    def _wait(self, words: list[str]) -> Conclusion:
        """Run act to its end, or end it."""
        with (self.folder / "act.log").open("wb") as log:
            try:
                process = subprocess.Popen(
                    words,
                    cwd=self.work,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{words[0]} can't be started: {error.strerror}; install the extra `github`".encode())
                return "failure"
            try:
                while process.poll() is None:
                    if self.cancelled.is_set() or time.monotonic() > self.end:
                        break
                    self.cancelled.wait(POLL_SECONDS)
                status = process.poll()
            finally:
                self._end(process)
        if status is None:
            return "cancelled" if self.cancelled.is_set() else "timed_out"
        return "success" if status == 0 else "failure"

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill all that the run started, whatever session it is in: look again until nothing new is found."""
        roots, killed = {process.pid} if process.poll() is None else set(), set[int]()
        while found := (_below(roots) | _marked(self.mark)) - killed:
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed |= found
        process.wait()


def _below(roots: set[int]) -> set[int]:
    """`roots` and every living process below them."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The command's name stands in brackets and may hold anything: the fields after it are state and parent.
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents.setdefault(int(parent), []).append(int(entry.name))
    found, waiting = set(roots), list(roots)
    while waiting:
        new = [pid for pid in parents.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting += new
    return found


def _marked(mark: str) -> set[int]:
    """The living processes that inherited a run's mark."""
    words = f"{MARK}={mark}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if words in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
    return found


def _read(path: Path) -> tuple[str, bool, str]:
    """What a run printed, whether every job that it ended succeeded (and there was one), and its step summary."""
    shown: list[str] = []
    summary: list[str] = []
    results: list[str] = []
    left = LOG_BYTES
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"msg": line}
            if not isinstance(entry, dict):
                continue
            # How the jobs ended stands at the end, however much was printed before.
            if "jobResult" in entry:
                results.append(str(entry["jobResult"]))
            if entry.get("command") == "summary":
                summary.append(str(entry.get("content", ""))[:LOG_BYTES])
            elif left > 0:
                shown.append(str(entry.get("msg", "")).rstrip()[:left])
                left -= len(shown[-1]) + 1
    return "\n".join(shown), bool(results) and set(results) == {"success"}, "\n".join(summary)


def _text_at(repository: Path, sha: str, path: str) -> str | None:
    """A file of a commit of a bare repository; None where there is none."""
    if re.fullmatch(r"[0-9a-f]{40}", sha) is None:
        return None
    words = ["git", "--git-dir", str(repository), "cat-file", "blob", f"{sha}:{path}"]
    done = subprocess.run(words, capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _tool(name: str) -> str:
    """The path of a tool that is installed beside this Python, or else is on the path."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else name
