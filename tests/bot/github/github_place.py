"""A running forge with one repository in it, and the bot's client of it; waits are written down and not waited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from github import Auth, Github
from github.Repository import Repository as GithubRepository

from bot.forge.server import Handle, running
from bot.github.auth import Access, App, Personal
from bot.github.client import Repository
from bot.github.git import Clone

NAME = "demo/kernels"


class Place:
    """`repository` is the bot's client as an App. `ada` may write to the repository, `eve` may not."""

    def __init__(self, folder: Path, forge: Handle) -> None:
        self.forge = forge
        self.tokens = {"ada": forge.add_user("ada", write=True), "eve": forge.add_user("eve", write=False)}
        self.waits: list[float] = []
        self.now = time.time()
        self.access = Access(forge.api_url, App(forge.app.app_id, forge.app.private_key, forge.app.installation_id))
        url = forge.create_repository(NAME)
        self.repository = Repository(self.access, NAME, self.pause, self.clock)
        self.clone = Clone(folder / "clone", url, lambda: self.tokens["ada"])
        self.main = self.clone.commit(None, {"a.txt": b"one\n"}, "first")
        self.clone.push(f"{self.main}:refs/heads/main")

    def pause(self, seconds: float) -> None:
        """Let the time pass for the client alone."""
        self.waits.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def branch(self, name: str = "x", text: bytes = b"two\n") -> str:
        """Push a branch with one change; returns its commit."""
        commit = self.clone.commit(self.main, {"a.txt": text}, f"change {name}")
        self.clone.push(f"+{commit}:refs/heads/{name}")
        return commit

    def pull(self, name: str = "x") -> tuple[int, str]:
        """A pull request of the bot; returns its number and head."""
        head = self.branch(name)
        return self.repository.open_pull_request(name, "Title", "Body").number, head

    def person(self, login: str) -> GithubRepository:
        """The repository as a person sees it."""
        github = Github(auth=Auth.Token(self.tokens[login]), base_url=self.forge.api_url, seconds_between_writes=0)
        return github.get_repo(NAME)

    def as_person(self, login: str) -> Repository:
        """The bot's client with a person's token."""
        return Repository(Access(self.forge.api_url, Personal(self.tokens[login])), NAME, self.pause, self.clock)

    def made(self, method: str, ending: str) -> int:
        """How many writes of this kind were carried out, whatever was answered."""
        return sum(one.method == method and one.path.endswith(ending) for one in self.forge.writes)


@contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    with running(folder / "forge") as forge:
        yield Place(folder, forge)
