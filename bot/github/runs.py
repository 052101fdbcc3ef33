"""Workflow runs: started once, looked at, ended, and their artifacts, which are taken only when their digest is right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import requests
from github import Github, GithubException
from github.Artifact import Artifact
from github.Repository import Repository as GithubRepository

from bot.github.asking import ANNOUNCED_SECONDS, Asking
from bot.github.auth import Access, told
from bot.hosting import Missing
from runner.errors import FactoryError

SECONDS = 60
CHUNK = 1 << 16


@dataclass(frozen=True)
class Run:
    """A workflow run as GitHub tells it. `path` is the workflow's file, `attempt` counts from 1."""

    id: int
    path: str
    event: str
    head_branch: str
    head_sha: str
    actor: str
    attempt: int
    status: str
    conclusion: str | None


class _Host(Protocol):
    access: Access
    asking: Asking

    def repository(self, github: Github) -> GithubRepository: ...

    def started(self, workflow: str, ref: str, name: str, since: datetime) -> int | None: ...


class Runs:
    """The part of a repository that runs workflows."""

    def started(self: _Host, workflow: str, ref: str, name: str, since: datetime) -> int | None:
        """The first run of a workflow file that this bot started on a branch since then under this name (the file's `run-name`).

        A run is listed only a while after it was started, so None is told only after looking for so long.
        """
        login = self.access.login()

        def look(github: Github) -> int | None:
            runs = (
                self.repository(github)
                .get_workflow(workflow)
                .get_runs(branch=ref, event="workflow_dispatch", created=f">={since:%Y-%m-%dT%H:%M:%SZ}")
            )
            mine = [run.id for run in runs if run.display_title == name and run.actor is not None and run.actor.login == login]
            return min(mine, default=None)

        for wait in (*ANNOUNCED_SECONDS, None):
            found = self.asking.read(f"the runs of {workflow}", look)
            if found is not None or wait is None:
                return found
            self.asking.pause(wait)
        raise AssertionError("the last look returns")

    def dispatch(self: _Host, workflow: str, ref: str, inputs: Mapping[str, str], name: str, since: datetime) -> int:
        """Start a run of a workflow file on a branch; returns its id. Where GitHub's answer is lost or doesn't tell it, the run is looked
        for by the name that it has. Never asked for twice: whoever calls again looks by `started` first."""

        def create(github: Github) -> int | None:
            run = self.repository(github).get_workflow(workflow).create_dispatch(ref, dict(inputs), throw=True, return_run_details=True)
            return None if isinstance(run, bool) else run.id

        what, said = f"GitHub: {workflow} can't be started on {ref}", "its run is not listed"
        try:
            number = self.asking.attempt(f"starting {workflow}", create)
        except GithubException as error:
            if error.status < 500:
                raise FactoryError(f"{what}: {told(error)}") from error
            number, said = None, told(error)
        except requests.RequestException as error:
            number, said = None, f"{type(error).__name__}: {error}"
        number = number or self.started(workflow, ref, name, since)
        if number is None:
            raise FactoryError(f"{what}: {said}")
        return number

    def run(self: _Host, run_id: int) -> Run:
        """A run as it is now. `Missing` where it was deleted."""

        def read(github: Github) -> Run:
            run = self.repository(github).get_workflow_run(run_id)
            return Run(
                run.id,
                run.path,
                run.event,
                run.head_branch,
                run.head_sha,
                run.actor.login if run.actor is not None else "",
                run.run_attempt,
                run.status,
                run.conclusion,
            )

        return self.asking.read(f"run {run_id}", read, announced=True)

    def cancel(self: _Host, run_id: int) -> None:
        """End a run; one that has ended stays as it is."""

        def write(github: Github) -> None:
            run = self.repository(github).get_workflow_run(run_id)
            if run.status != "completed":
                run.cancel()

        self.asking.write(f"ending run {run_id}", write)

    def artifact(self: _Host, run_id: int, name: str, max_bytes: int) -> bytes:
        """A run's newest artifact of this name: a zip file. `Missing` where there is none, or it is expired, too large or not what was
        kept."""
        what = f"the artifact {name} of run {run_id}"

        def read(github: Github) -> bytes:
            artifacts = [one for one in self.repository(github).get_workflow_run(run_id).get_artifacts() if one.name == name]
            if not artifacts:
                raise Missing(f"run {run_id} kept no artifact {name}")
            newest = max(artifacts, key=lambda one: one.id)
            if newest.expired:
                raise Missing(f"{what} has expired")
            if newest.size_in_bytes > max_bytes:
                raise Missing(f"{what} has {newest.size_in_bytes:,} bytes; {max_bytes:,} are allowed")
            digest = newest.raw_data.get("digest")
            if digest is None:
                # GitHub knows the digest of whatever the upload action that the workflow pins has kept: this is something else.
                raise Missing(f"{what} has no digest, so nothing says that it is what was kept")
            data = _download(github, newest, max_bytes)
            if digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
                raise Missing(f"{what} is not what was kept: its digest differs")
            return data

        return self.asking.read(what, read, announced=True)


def _download(github: Github, artifact: Artifact, max_bytes: int) -> bytes:
    """An artifact's zip file from where GitHub sends on to: another host, which gets no credentials (and PyGithub would refuse)."""
    headers, _ = github.requester.requestJsonAndCheck("GET", artifact.archive_download_url)
    location = str(headers.get("location", ""))
    if not location.startswith(("https://", "http://")):
        raise Missing(f"the artifact {artifact.name} has no address to be fetched from")
    data = bytearray()
    try:
        with requests.get(location, timeout=SECONDS, stream=True) as answer:
            if answer.status_code in (404, 410):
                raise Missing(f"the artifact {artifact.name} is gone: {answer.status_code} {answer.reason}")
            answer.raise_for_status()
            for part in answer.iter_content(CHUNK):
                data += part
                if len(data) > max_bytes:
                    raise Missing(f"the artifact {artifact.name} is longer than it says: more than {max_bytes:,} bytes")
    except requests.RequestException as error:
        # Its own text holds the address, with which anybody may fetch the artifact.
        said = f"{error.response.status_code} {error.response.reason}" if error.response is not None else type(error).__name__
        raise requests.RequestException(f"the artifact {artifact.name} can't be fetched: {said}") from None
    return bytes(data)
