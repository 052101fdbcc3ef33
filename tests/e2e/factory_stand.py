"""The whole factory for a test: the real forge in this process, the real bot in a process of its own, and a person's hands.

    def test_it(stand):                                   # the fixture of conftest.py
        stand.commit_spec(approval="required")            # a person commits the formula's spec, by git over HTTP
        stand.start()                                     # the bot serves until one campaign has ended
        pull = stand.waiting()                            # the winner's pull request, when it waits for people
        stand.approve(pull.number)                        # through the page's own form
        (told,) = stand.ended()                           # campaigns as the bot tells them; told["summary"] is the demo's JSON

Judging is by formula (`formula.py`): in the bot, or with `runs=True` in really dispatched runs, which the forge executes by the real
`run_batch` in place of act. Everything else is real: the GitHub client as an App, git over HTTP, signed webhooks, the durable engine.
"""

from __future__ import annotations

import functools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from formula import DEVICE, FormulaBench, write_spec
from github import Auth, Github
from github.Repository import Repository as GithubRepository

from bot.forge.bare import Bare
from bot.forge.model import Check, Comment, Issue, Pull, Repository, Write
from bot.forge.runs import Finished
from bot.forge.server import Handle, running
from bot.github.git import Clone
from runner.batch import run_batch, summary
from runner.identity import harness_hash

T = TypeVar("T")
NAME, MAIN = "demo/kernels", "main"
SPEC_ID = "double-formula"
SPEC = f"kernel-specs/{SPEC_ID}"
KERNEL = f"{SPEC}/kernel"
WORKFLOW = ".github/workflows/evaluate.yml"
ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 120.0
# Runs of the forge's one machine come one after another, as on a real one.
MACHINE = threading.Lock()
Content = bytes | str | None


@functools.cache
def driver() -> subprocess.Popen[str]:
    """The server of this test process that forks the bots; it ends when its standard input does."""
    paths = os.pathsep.join(map(str, (Path(__file__).parent, ROOT / "tests" / "bot" / "campaign")))
    script = str(Path(__file__).with_name("factory_driver.py"))
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment)


class Stand:
    """A factory with one repository. People: `ada` (whom the pages act for) and `bob` may write to it, `eve` may not."""

    bot = "kernel-factory[bot]"

    def __init__(self, folder: Path, forge: Handle) -> None:
        self.folder = folder
        self.forge = forge
        self.tokens = {"ada": forge.add_user("ada", write=True), "bob": forge.add_user("bob", write=True), "eve": forge.add_user("eve")}
        self.url = forge.create_repository(NAME)
        self.bare = Bare(forge.bare(NAME))
        self.clones = {who: Clone(folder / who, self.url, lambda who=who: self.tokens[who]) for who in ("ada", "bob")}
        self.secret = secrets.token_hex(16)
        # Bound and never listening: it keeps the port for the bots, which share it.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.reserved.bind(("127.0.0.1", 0))
        self.port = int(self.reserved.getsockname()[1])
        forge.webhook(f"http://127.0.0.1:{self.port}/webhook", self.secret)
        forge.forge.execute = executed
        self.started = False
        self.commit({"README.md": "Kernels\n", WORKFLOW: (ROOT / WORKFLOW).read_bytes()}, "Begin")

    # The bot.

    def start(self, until: int = 1, **asked: Any) -> None:
        """Let the bot serve, in the background, until so many campaigns have ended since the beginning of its state.

        `runs` judges in dispatched runs; `kill` is an event at which the bot dies as by `kill -9` (`factory_driver.py`), `log` a file for
        its events; `reconcile`, `look`, `pause`, `queue` are seconds: between the timer's looks, between a waiting campaign's looks, the
        client's longest wait, for a machine to take a run; `probe`: for a run to tell its device; `patient` and `again`: the longest limit
        that is waited for within a step, and until a campaign that could not go on is tried again. Without `plots` the dashboard's
        picture is not drawn.
        """
        app = self.forge.app
        words: dict[str, Any] = {
            "api_url": self.forge.api_url,
            "git_url": self.forge.url,
            "repository": NAME,
            "app_id": app.app_id,
            "app_key": app.private_key,
            "installation": app.installation_id,
            "secret": self.secret,
            "port": self.port,
            "state": str(self.state),
            "output": str(self.folder / "output"),
            "pid": str(self.pid),
            "until": until,
            "runs": False,
            "reconcile": 2.0,
            "look": 0.5,
            "pause": 0.05,
            "queue": 10.0,
            "probe": 60.0,
            "patient": 120.0,
            "again": 5.0,
            "plots": False,
        }
        process = driver()
        assert process.stdin is not None
        self.pid.unlink(missing_ok=True)
        process.stdin.write(json.dumps(words | asked) + "\n")
        self.started = True

    def status(self) -> int:
        """Wait for the bot's process; its exit status, negative for a signal."""
        process = driver()
        assert process.stdout is not None
        self.started = False
        return int(process.stdout.readline())

    def kill(self) -> None:
        """Kill the bot now, as by `kill -9`."""
        os.kill(int(self.wait(lambda: self.pid.is_file() and self.pid.read_text())), signal.SIGKILL)
        self.status()

    def ended(self) -> list[dict[str, Any]]:
        """Wait for the bot to have ended well; the campaigns as it tells them, oldest first."""
        assert self.status() == 0, self.said()
        told: list[dict[str, Any]] = json.loads(self.said().splitlines()[-1])
        return told

    def run(self, until: int = 1, **asked: Any) -> list[dict[str, Any]]:
        """`start` and `ended`."""
        self.start(until, **asked)
        return self.ended()

    @property
    def state(self) -> Path:
        """The bot's state folder."""
        return self.folder / "state"

    @property
    def pid(self) -> Path:
        """Holds the id of the bot's process."""
        return self.folder / "pid"

    def said(self) -> str:
        """What the last bot printed."""
        return (self.folder / "output").read_text()

    def campaigns(self) -> list[dict[str, Any]]:
        """The campaigns as the running bot tells them now; none while it can't be reached."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/campaigns", timeout=10) as answer:
                told: list[dict[str, Any]] = json.load(answer)
                return told
        except OSError:
            return []

    def waiting(self, than: str = "") -> Pull:
        """The pull request of a winner, once it waits for people at another head than `than`."""

        def found() -> Pull | None:
            pulls = [told["pull"] for told in self.campaigns() if told["pull"] is not None and told["pull"]["head"] != than]
            return self.pull(pulls[0]["number"]) if pulls else None

        return self.wait(found)

    def wait(self, look: Callable[[], T | None]) -> T:
        """Wait until `look` finds something."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(0.05)
        if self.started and self.pid.is_file():
            # The bot shows where each of its threads stands.
            os.kill(int(self.pid.read_text()), signal.SIGUSR1)
            time.sleep(0.5)
        raise AssertionError(f"it did not happen within {WAIT_SECONDS:g} seconds:\n{self.said()}")

    # What people do.

    def commit(self, files: Mapping[str, Content], message: str = "Change", branch: str = MAIN, by: str = "ada") -> str:
        """A person commits to a branch and pushes it; a new one begins at the default branch. None removes a file. Returns the commit."""
        clone, there = self.clones[by], self.head(branch)
        clone.fetch()
        changes = {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
        commit = clone.commit(there or self.head(MAIN), changes, message)
        clone.push(f"{commit}:refs/heads/{branch}")
        return commit

    def commit_spec(self, approval: str = "required", **spec: Any) -> str:
        """A person commits the formula's spec with this approval, and `min_speedup`, `rounds`, `candidates` or `minutes`."""
        return self.commit(self.spec(approval, **spec), "Add a spec")

    def spec(self, approval: str = "required", **spec: Any) -> dict[str, Content]:
        """The files of the formula's spec as the repository names them."""
        folder = write_spec(self.folder / "spec", **{"rounds": 2, "candidates": 20, **spec})
        files: dict[str, Content] = {f"{SPEC}/{one.relative_to(folder)}": one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        files[f"{SPEC}/spec.yaml"] = (folder / "spec.yaml").read_text().replace("approval: none", f"approval: {approval}")
        return files

    def force(self, branch: str, commit: str, by: str = "ada") -> None:
        """A person moves a branch to a commit by force; to none (`""`) deletes it."""
        self.clones[by].fetch()
        self.clones[by].push(f"+{commit}:refs/heads/{branch}")

    def open_pull(self, branch: str, title: str, body: str = "", by: str = "ada") -> int:
        """A person opens a pull request; returns its number."""
        return self.api(by).create_pull(MAIN, branch, title=title, body=body).number

    def approve(self, number: int, body: str = "Good.") -> None:
        """Ada approves, through the page's own form."""
        self._form(number, "APPROVE", body)

    def request_changes(self, number: int, body: str) -> None:
        """Ada requests changes, through the page's own form."""
        self._form(number, "REQUEST_CHANGES", body)

    def review(self, number: int, event: str, by: str, commit: str = "", body: str = "") -> None:
        """Somebody reviews through the API: `event` is APPROVE, REQUEST_CHANGES or COMMENT; of the head, or an earlier commit."""
        pull = self.api(by).get_pull(number)
        pull.create_review(self.api(by).get_commit(commit or pull.head.sha), body, event)

    def close(self, number: int, by: str = "ada") -> None:
        """A person closes a pull request or an issue."""
        self.api(by).get_issue(number).edit(state="closed")

    def comment(self, number: int, body: str, by: str = "ada") -> None:
        """Somebody comments."""
        self.api(by).get_issue(number).create_comment(body)

    def api(self, by: str = "ada") -> GithubRepository:
        """The repository through the API as a person, for whatever else there is to do."""
        github = Github(auth=Auth.Token(self.tokens[by]), base_url=self.forge.api_url, seconds_between_requests=0, seconds_between_writes=0)
        return github.get_repo(NAME)

    def _form(self, number: int, event: str, body: str) -> None:
        form = urllib.parse.urlencode({"event": event, "body": body, "head": self.pull(number).head}).encode()
        with urllib.request.urlopen(f"{self.forge.url}/{NAME}/pull/{number}/review", form, timeout=10):
            pass

    # What the forge holds.

    @property
    def repository(self) -> Repository:
        """The forge's record of the repository."""
        found: Repository = self.forge.state(NAME)
        return found

    def pulls(self, state: str = "all") -> list[Pull]:
        """The pull requests that are `open`, `closed` or `all`, oldest first."""
        return [one for one in self.repository.pulls() if state in ("all", one.state)]

    def pull(self, number: int) -> Pull:
        """One pull request."""
        return self.repository.pull(number)

    def comments(self, number: int) -> list[Comment]:
        """The comments on a pull request or an issue."""
        return list(self.repository.issue(number).comments)

    def checks(self, sha: str) -> list[Check]:
        """The check runs on a commit."""
        return [one for one in self.repository.checks if one.sha == sha]

    def issues(self) -> list[Issue]:
        """The issues that are no pull requests: the dashboards."""
        return [one for one in self.repository.issues.values() if not isinstance(one, Pull)]

    def writes(self, method: str = "", ending: str = "") -> list[Write]:
        """The requests that asked for a change and were granted, of one method and with such an end of their path."""
        done = [one for one in self.forge.writes if one.status < 300]
        return [one for one in done if method in ("", one.method) and one.path.endswith(ending)]

    def head(self, branch: str = MAIN) -> str | None:
        """A branch's commit."""
        return self.bare.head(branch)

    def file(self, path: str, ref: str = MAIN) -> bytes | None:
        """A file of a branch or commit."""
        return self.bare.file(self.bare.resolve(ref) or ref, path)

    def files(self, folder: str = "", ref: str = MAIN) -> Sequence[str]:
        """The files below a folder of a branch or commit, by their whole paths."""
        return self.bare.git("ls-tree", "-r", "--name-only", self.bare.resolve(ref) or ref, *([f"{folder}/"] if folder else [])).split("\n")

    def tree(self, path: str = KERNEL, ref: str = MAIN) -> str:
        """The git tree of a folder of a branch or commit."""
        return self.bare.git("rev-parse", f"{self.bare.resolve(ref) or ref}:{path}")


def executed(
    repository: Path, workflow: str, ref: str, sha: str, inputs: Mapping[str, str], run_id: int, folder: Path, server_url: str, **_: Any
) -> Finished:
    """A dispatched run, executed by the real batch over the formula. What act would do around it is tested with act."""
    bare, artifact = Bare(repository), folder / "evaluation.zip"
    _export(bare, sha, folder / "repository")
    _export(bare, inputs["commit"], folder / "attempts")
    with MACHINE:
        answer = run_batch(
            folder / "attempts" / "request.json",
            folder / "repository" / "kernel-specs",
            folder / "evaluation",
            run=f"{run_id}/1",
            bench=FormulaBench(harness_hash()),
            device=lambda _: DEVICE,
        )
    with zipfile.ZipFile(artifact, "w") as archive:
        archive.write(folder / "evaluation" / "batch.json", "batch.json")
    return Finished("success", {"evaluation": artifact}, summary=summary(answer))


def _export(bare: Bare, commit: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=bare.raw("archive", "--format=tar", commit), check=True)


@contextmanager
def factory_stand(folder: Path) -> Iterator[Stand]:
    """A stand that keeps everything below `folder`. A bot that still serves at its end is ended."""
    with running(folder / "forge") as forge:
        stand = Stand(folder, forge)
        try:
            yield stand
        finally:
            if stand.started:
                stand.kill()
            stand.reserved.close()
