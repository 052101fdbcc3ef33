"""`kernel-factory demo`: the whole loop on this machine, really run: a forge, the bot, a spec that is committed, a person who approves."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bot
from bot.campaign.store import write_atomically
from bot.forge.server import Handle, running
from bot.webhook import reading
from runner.errors import FactoryError

PERSON, FULL_NAME, SPEC = "ada", "demo/kernels", "rmsnorm-cpu"
BRANCH = "main"
# What a laptop can do in a few minutes: the spec as a person in a hurry would commit it. The three workloads that are kept may
# flatter a winner: a kernel does not gain the same on all ten.
HURRIED = {
    "approval: none": "approval: required",
    "    - {name: 64x1024, axes: {rows: 64, cols: 1024}}\n": "",
    "    - {name: 1024x512, axes: {rows: 1024, cols: 512}}\n": "",
    "    - {name: 2048x768, axes: {rows: 2048, cols: 768}}\n": "",
    "    - {name: 4096x256, axes: {rows: 4096, cols: 256}}\n": "",
    "    - {name: 64x131072, axes: {rows: 64, cols: 131072}}\n": "",
    "    - {name: 1024x16384, axes: {rows: 1024, cols: 16384}}\n": "",
    "    - {name: 2048x4096, axes: {rows: 2048, cols: 4096}}\n": "",
    "screening: [256x1024, 2048x768, 32x8192, 1024x4096]": "screening: [256x1024, 32x8192, 1024x4096]",
}
LEFT_OUT = ("kernel-specs/", "tests/")
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Asked:
    """What the person asked for: to approve by itself, a summary for programs, and a spec folder other than the project's own."""

    state: Path
    approve: bool = False
    json_path: Path | None = None
    spec: Path | None = None


def demo(asked: Asked) -> None:
    """Run the demo to its end. Raises `FactoryError` when it can't go on; Ctrl-C is `KeyboardInterrupt`, and nothing is left running."""
    folder = asked.state / "demo"
    with (asked.state / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FactoryError(f"a demo runs in {folder} already; one at a time, or name another state folder") from error
        _demo(asked, folder)


def _demo(asked: Asked, folder: Path) -> None:
    begun = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with running(folder / "forge") as forge:
        token = forge.add_user(PERSON, write=True)
        url = forge.create_repository(FULL_NAME)
        _say(f"a forge on this machine: {forge.url}")
        work = _repository(folder / "work", url, token)
        secret, port = secrets.token_hex(32), _free_port()
        forge.webhook(f"http://127.0.0.1:{port}/webhook", secret)
        process = _bot(forge, folder / "bot", secret, port)
        try:
            _wait_for(process, f"http://127.0.0.1:{port}/healthz")
            spec = asked.spec or _root() / "kernel-specs" / SPEC
            _say(f"{PERSON} commits the spec {spec.name}; watch what follows at {forge.url}/{FULL_NAME}")
            _commit_spec(work, spec)
            told = _follow(asked, forge, process, _campaigns(port, secret))
        finally:
            process.terminate()
            process.wait()
        told["seconds"] = round(time.monotonic() - begun, 1)
        if asked.json_path is not None:
            kept = {name: value for name, value in told.items() if name not in ("table", "lessons")}
            write_atomically(asked.json_path.absolute(), json.dumps(kept, indent=1).encode() + b"\n")
        _story(told, folder)
        if not asked.approve and sys.stdin.isatty():
            _say(f"The pages stay at {forge.url}/{FULL_NAME} until Ctrl-C.")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()


def _campaigns(port: int, secret: str) -> urllib.request.Request:
    """What asks the bot for its campaigns."""
    bearer = f"Bearer {reading(secret.encode())}"
    return urllib.request.Request(f"http://127.0.0.1:{port}/campaigns", headers={"Authorization": bearer})


def _follow(asked: Asked, forge: Handle, process: subprocess.Popen[bytes], address: urllib.request.Request) -> dict[str, Any]:
    """Wait for the winner, have it approved or wait for that, and for the end."""
    announced: tuple[int, str] | None = None
    while True:
        campaigns = _get(process, address)
        campaign = next(iter(campaigns), None)
        if campaign is not None and campaign["ended"]:
            told: dict[str, Any] = campaign["summary"]
            return told
        pull = campaign["pull"] if campaign is not None else None
        if pull is not None and (pull["number"], pull["head"]) != announced:
            announced = pull["number"], pull["head"]
            page = f"{forge.url}/{FULL_NAME}/pull/{pull['number']}"
            if asked.approve:
                _say(f"the winner waits for a review: {page}; {PERSON} approves it")
                _post(f"{page}/review", {"event": "APPROVE", "body": "Measured, readable, merged.", "head": pull["head"]})
            else:
                _say(f"the winner waits for your review:\n\n    {page}\n\nApprove it there, or request changes. Ctrl-C ends.")
        time.sleep(POLL_SECONDS)


def _bot(forge: Handle, state: Path, secret: str, port: int) -> subprocess.Popen[bytes]:
    """The bot as a process of its own, as the App that the forge knows."""
    state.mkdir()
    key = state / "app.pem"
    key.write_text(forge.app.private_key)
    key.chmod(0o600)
    settings = {
        "STATE": state,
        "API_URL": forge.api_url,
        "GIT_URL": forge.url,
        "REPOSITORY": FULL_NAME,
        "APP_ID": forge.app.app_id,
        "APP_KEY": key,
        "APP_INSTALLATION": forge.app.installation_id,
        "WEBHOOK_SECRET": secret,
        "PORT": port,
        "RECONCILE_SECONDS": 2,
        "WRITE_SECONDS": 0,
    }
    environment = {**os.environ, **{f"KERNEL_FACTORY_{name}": str(value) for name, value in settings.items()}}
    return subprocess.Popen([sys.executable, "-m", "bot.cli", "serve"], env=environment, start_new_session=True)


def _repository(folder: Path, url: str, token: str) -> Path:
    """A working copy of a repository made from this project's files, without its specs."""
    root = _root()
    for name in _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and not name.startswith(LEFT_OUT) and (root / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target)
    _git(folder, "init", "--quiet", f"--initial-branch={BRANCH}")
    for key, value in {
        "user.name": "Ada",
        "user.email": "ada@example.org",
        "core.hooksPath": "/dev/null",
        "commit.gpgSign": "false",
    }.items():
        _git(folder, "config", key, value)
    _git(folder, "remote", "add", "origin", url.replace("://", f"://{PERSON}:{token}@", 1))
    _push(folder, "A factory for kernels")
    return folder


def _commit_spec(work: Path, spec: Path) -> None:
    """Commit and push a spec with its kernels, as a person would: for a laptop, and with an approval."""
    folder = work / "kernel-specs" / spec.name
    shutil.copytree(spec, folder, ignore=shutil.ignore_patterns("results", "RESULTS.md", "lessons.md", "__pycache__"))
    (folder / "spec.yaml").write_text(hurried((folder / "spec.yaml").read_text(encoding="utf-8")), encoding="utf-8")
    _push(work, f"Add the spec {spec.name}")


def hurried(spec: str) -> str:
    """A spec's text as the demo commits it; where it says something else than the project's own, that stays."""
    for written, wanted in HURRIED.items():
        spec = spec.replace(written, wanted)
    return spec


def _push(work: Path, message: str) -> None:
    _git(work, "add", "--all")
    _git(work, "commit", "--quiet", "--message", message)
    _git(work, "push", "--quiet", "origin", BRANCH)


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False, env=_git_environment())
    if done.returncode != 0:
        raise FactoryError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _git_environment() -> dict[str, str]:
    """Git that asks nobody and reads no settings of this machine."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def _root() -> Path:
    return Path(bot.__file__).resolve().parents[1]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.25)
    raise FactoryError("the bot did not start; what it said stands above")


def _get(process: subprocess.Popen[bytes], address: urllib.request.Request) -> list[dict[str, Any]]:
    if process.poll() is not None:
        raise FactoryError("the bot ended before the campaign did; what it said stands above")
    with urllib.request.urlopen(address, timeout=60) as answer:
        got: list[dict[str, Any]] = json.load(answer)
        return got


def _post(address: str, form: dict[str, str]) -> None:
    data = urllib.parse.urlencode(form).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=data), timeout=60):
            return
    except urllib.error.HTTPError as error:
        raise FactoryError(f"the page did not take the review: {error}") from error


def _story(told: dict[str, Any], folder: Path) -> None:
    """What happened, in a few lines on standard output."""
    print(f"\nCampaign {told['campaign']}: {told['status']}. {told['reason']}.")
    print(f"  {told['evaluations']} evaluations in {told['rounds']} rounds, {told['seconds']:.0f} seconds in all")
    for pull in told["pull_requests"]:
        print(f"  pull request {pull['number']} of {pull['agent']}: {pull['state']}, {pull['verdict']}")
    winner = told["winner"]
    if winner is not None:
        low, high = winner["interval"]
        print(f"  the winner is {winner['speedup']:.3f} times as fast as the best baseline ({low:.3f}–{high:.3f})")
        same = "exactly the judged kernel" if told["merged_kernel_tree"] == winner["kernel_tree"] else "NOT the judged kernel"
        print(f"  approved by {told['approved_by'] or 'nobody, as the spec allows'}; merged: {same}, {told['merged_kernel_tree']}")
    for line in told["table"]:
        print(line)
    for lesson in told["lessons"]:
        print(f"  lesson: {lesson}")
    print(f"\nThe forge's repositories lie in {folder / 'forge'}, the bot's notebook in {folder / 'bot'}.", flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
