"""A running forge with one repository, a person, and a receiver of its webhooks."""

from __future__ import annotations

import hashlib
import hmac
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bot.forge.bare import environment
from bot.forge.model import Artifact, Repository
from bot.forge.server import Handle, running

FULL_NAME, SECRET = "demo/kernels", "a secret"


class Stand:
    """What a test needs: `token` is that of `person`, who may write; `received` are the GUIDs and events that came in, signed."""

    person = "ada"

    def __init__(self, folder: Path, forge: Handle) -> None:
        self.folder = folder
        self.forge = forge
        self.token = forge.add_user(self.person, write=True)
        self.url = forge.create_repository(FULL_NAME)
        self.received: list[tuple[str, str]] = []
        self.answer = 202
        self.work = folder / "work"
        self.git("init", "--quiet", "--initial-branch=main", str(self.work), at=folder)
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")

    @property
    def repository(self) -> Repository:
        found: Repository = self.forge.state(FULL_NAME)
        return found

    def git(self, *words: str, at: Path | None = None) -> str:
        done = subprocess.run(["git", *words], cwd=at or self.work, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def address(self, token: str, user: str = "x-access-token") -> str:
        return self.url.replace("://", f"://{user}:{token}@")

    def commit(self, branch: str, files: dict[str, str], parent: str = "", *, push: bool = True) -> str:
        """Commit files to a branch, made from `parent` where that is another one, and push it."""
        if parent and parent != branch:
            self.git("checkout", "--quiet", "-B", branch, parent)
        elif self.git("branch", "--list", branch):
            self.git("checkout", "--quiet", branch)
        for name, text in files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Change {', '.join(files)}")
        if push:
            self.git("push", "--quiet", "--force", self.address(self.token), f"HEAD:refs/heads/{branch}")
        return self.git("rev-parse", "HEAD")

    def keep(self, run: int, name: str, data: bytes) -> int:
        """Give a run an artifact."""
        path = self.folder / f"{name}.zip"
        path.write_bytes(data)
        made = Artifact(self.forge.forge.next_id(), name, path, hashlib.sha256(data).hexdigest())
        self.repository.runs[run].artifacts.append(made)
        return made.id

    def wait(self, happened: Callable[[], bool]) -> None:
        """Wait for something that another thread does."""
        for _ in range(1000):
            if happened():
                return
            time.sleep(0.01)
        raise AssertionError("it did not happen within ten seconds")


@contextmanager
def stand(folder: Path) -> Iterator[Stand]:
    with running(folder / "forge") as forge:
        made = Stand(folder, forge)

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                signed = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
                if hmac.compare_digest(signed, self.headers["X-Hub-Signature-256"]):
                    made.received.append((self.headers["X-GitHub-Delivery"], self.headers["X-GitHub-Event"]))
                self.send_response(made.answer)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            forge.webhook(f"http://127.0.0.1:{server.server_address[1]}/", SECRET)
            try:
                yield made
            finally:
                server.shutdown()
                thread.join()
