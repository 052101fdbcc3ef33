"""Workflow runs: started, looked at, ended, and their artifacts, which are taken only when their digest is right."""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Protocol

from github import Github, GithubException
from github.Artifact import Artifact
from github.Repository import Repository as GithubRepository

from bot.github.asking import Asking
from runner.errors import FactoryError

SECONDS = 60


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
    asking: Asking

    def repository(self, github: Github) -> GithubRepository: ...


class Runs:
    """The part of a repository that runs workflows."""

    def dispatch(self: _Host, workflow: str, ref: str, inputs: Mapping[str, str]) -> int:
        """Start a run of a workflow file on a branch; returns its id. It is never asked for twice: whoever asks looks for it first."""

        def write(github: Github) -> int:
            found = self.repository(github).get_workflow(workflow)
            run = found.create_dispatch(ref, dict(inputs), throw=True, return_run_details=True)
            if isinstance(run, bool):
                raise FactoryError(f"GitHub started {workflow} without telling the run's id: this server is too old")
            return run.id

        try:
            return self.asking.attempt(f"starting {workflow}", write)
        except GithubException as error:
            raise FactoryError(f"GitHub: {workflow} can't be started on {ref}: {error.status} {error.message or error.data}") from error

    def run(self: _Host, run_id: int) -> Run:
        """A run as it is now."""

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
        """A run's newest artifact of this name: a zip file. `FactoryError` where it is missing, expired, too large or not what was kept."""

        def read(github: Github) -> bytes:
            artifacts = [one for one in self.repository(github).get_workflow_run(run_id).get_artifacts() if one.name == name]
            if not artifacts:
                raise FactoryError(f"run {run_id} kept no artifact {name}")
            newest = max(artifacts, key=lambda one: one.id)
            if newest.expired:
                raise FactoryError(f"the artifact {name} of run {run_id} has expired")
            if newest.size_in_bytes > max_bytes:
                raise FactoryError(f"the artifact {name} of run {run_id} has {newest.size_in_bytes:,} bytes; {max_bytes:,} are allowed")
            digest = newest.raw_data.get("digest")
            if digest is None:
                # GitHub knows the digest of whatever the upload action that the workflow pins has kept: this is something else.
                raise FactoryError(f"the artifact {name} of run {run_id} has no digest, so nothing says that it is what was kept")
            data = _download(github, newest, max_bytes)
            if digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
                raise FactoryError(f"the artifact {name} of run {run_id} is not what was kept: its digest differs")
            return data

        return self.asking.read(f"the artifact {name} of run {run_id}", read, announced=True)


def _download(github: Github, artifact: Artifact, max_bytes: int) -> bytes:
    """An artifact's zip file from where GitHub sends on to: another host, which gets no credentials (and PyGithub would refuse)."""
    headers, _ = github.requester.requestJsonAndCheck("GET", artifact.archive_download_url)
    location = str(headers.get("location", ""))
    if not location.startswith(("https://", "http://")):
        raise FactoryError(f"the artifact {artifact.name} has no address to be fetched from")
    try:
        with urllib.request.urlopen(location, timeout=SECONDS) as answer:
            data: bytes = answer.read(max_bytes + 1)
    except (OSError, HTTPException) as error:
        raise FactoryError(f"the artifact {artifact.name} can't be fetched: {error}") from error
    if len(data) > max_bytes:
        raise FactoryError(f"the artifact {artifact.name} is longer than it says: more than {max_bytes:,} bytes")
    return data
