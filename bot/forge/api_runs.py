"""The API of Actions: a workflow is dispatched, its run is executed on this machine, and its artifacts are kept."""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Mapping
from typing import Any

import yaml
from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response

from bot.forge.bare import Bare
from bot.forge.forge import Forge
from bot.forge.misruns import kept, misrun
from bot.forge.model import Artifact, Refused, Repository, Run, now
from bot.forge.runs import Finished
from bot.forge.shapes_runs import workflow_id
from bot.forge.web import PREFIX, Actor, Given, TheForge, TheRepository, Writer, paged

LOG = logging.getLogger("forge")

router = APIRouter(prefix=f"{PREFIX}/repos/{{owner}}/{{name}}/actions")
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


@router.post("/workflows/{workflow}/dispatches")
def dispatch(forge: TheForge, actor: Writer, repository: TheRepository, workflow: str, given: Given) -> Response:
    bare = Bare(repository.folder)
    branch = str(given.get("ref", "")).removeprefix("refs/heads/")
    with forge.lock:
        sha = bare.head(branch)
        if sha is None:
            raise Refused(422, f"No ref found for: {branch}")
        # A workflow is known by its file on the default branch, and is taken from the branch it is dispatched on.
        workflow = _workflow(bare, repository, workflow)
        loaded = _loaded(bare.file(sha, f".github/workflows/{workflow}") or b"")
        inputs = _inputs(loaded, given.get("inputs") or {})
        title = _title(str(loaded.get("run-name") or loaded.get("name") or workflow), inputs, actor.login)
        run = Run(forge.next_id(), len(repository.runs) + 1, workflow, branch, sha, actor, inputs, title)
        repository.runs[run.id] = run
        forge.faults.dispatched(inputs.get("request", ""))
        _tell(forge, repository, run, "requested")
    thread = threading.Thread(target=_executed, args=(forge, repository, run), name=f"run {run.id}", daemon=True)
    forge.threads.append(thread)
    thread.start()
    if not given.get("return_run_details") or forge.faults.take("no_run_id", inputs.get("request", "")) is not None:
        return Response(status_code=204)
    told = _run(forge, repository, run)
    return JSONResponse({"workflow_run_id": run.id, "run_url": told["url"], "html_url": told["html_url"]})


@functools.lru_cache(maxsize=8)
def _loaded(text: bytes) -> Mapping[Any, Any]:
    """A workflow's file, which is the same at most dispatches."""
    loaded: dict[Any, Any] = yaml.safe_load(text) or {}
    return loaded


def _title(name: str, inputs: dict[str, str], actor: str) -> str:
    """A run's name with the workflow's `run-name` filled in, as far as it names inputs and who started it."""
    known = {
        "github.actor": actor,
        **{f"{context}inputs.{key}": value for key, value in inputs.items() for context in ("", "github.event.")},
    }
    return _EXPRESSION.sub(lambda found: known.get(found[1], ""), name)


def _inputs(loaded: Mapping[Any, Any], given: dict[str, Any]) -> dict[str, str]:
    """The inputs of a dispatch with the workflow's defaults. Raises `Refused` (422) for ones that it does not have, or that lack."""
    # YAML 1.1 reads the key `on` as true.
    on = loaded.get(True, loaded.get("on"))
    # One event may be named by a bare word, several by a list of them.
    on = dict.fromkeys([on] if isinstance(on, str) else on) if isinstance(on, str | list) else on
    if not isinstance(on, dict) or "workflow_dispatch" not in on:
        raise Refused(422, "Workflow does not have 'workflow_dispatch' trigger")
    known: dict[str, Any] = (on["workflow_dispatch"] or {}).get("inputs") or {}
    for name in given:
        if name not in known:
            raise Refused(422, f'Unexpected inputs provided: ["{name}"]')
    inputs = {}
    for name, about in known.items():
        value = given.get(name, (about or {}).get("default", ""))
        if name not in given and (about or {}).get("required") and value == "":
            raise Refused(422, f"Required input '{name}' not provided")
        inputs[name] = str(value)
    if sum(map(len, inputs.values())) > 65_535:
        raise Refused(422, "inputs are too large")
    return inputs


def _executed(forge: Forge, repository: Repository, run: Run) -> None:
    """Execute a run to its end."""
    request = run.inputs.get("request", "")
    queued = forge.faults.take("run_queued", request) is not None
    if not queued:
        _now(forge, repository, run, "in_progress")
    finished = misrun(forge.faults, run, queued)
    if finished is None:
        try:
            finished = forge.execute(
                repository.folder,
                run.workflow,
                f"refs/heads/{run.branch}",
                run.sha,
                run.inputs,
                run.id,
                forge.folder / "runs" / str(run.id),
                forge.url,
                full_name=repository.full_name,
                actor=run.actor.login,
                cancelled=run.cancelled,
            )
        except Exception as error:
            # A run ends whatever happens to the machine that it is on.
            LOG.exception("run %d could not be executed", run.id)
            finished = Finished("failure", log=f"the machine failed: {error!r}")
    artifacts = kept(forge.faults, repository, run, forge.next_id, finished.artifacts)
    with forge.lock:
        run.artifacts, run.log, run.summary, run.conclusion = artifacts, finished.log, finished.summary, finished.conclusion
        if forge.faults.take("run_foreign", request) is not None:
            run.sha = Bare(repository.folder).commit(run.sha).tree
        if forge.faults.take("run_again", request) is not None:
            run.attempt = 2
    _now(forge, repository, run, "completed")
    if forge.faults.take("run_deleted", request) is not None:
        with forge.lock:
            del repository.runs[run.id]


def _now(forge: Forge, repository: Repository, run: Run, status: str) -> None:
    with forge.lock:
        run.status, run.updated = status, now()
        _tell(forge, repository, run, status)


def _tell(forge: Forge, repository: Repository, run: Run, action: str) -> None:
    told = {"workflow": forge.shapes.workflow(repository, run.workflow), "workflow_run": _run(forge, repository, run)}
    forge.tell(repository, run.actor, "workflow_run", action=action, **told)


def _run(forge: Forge, repository: Repository, run: Run) -> dict[str, Any]:
    return forge.shapes.run(repository, forge.owner(repository), run, "")


def _found(repository: Repository, run_id: int) -> Run:
    found = repository.runs.get(run_id)
    if found is None:
        raise Refused(404, "Not Found")
    return found


@router.get("/workflows/{workflow}")
def workflow(forge: TheForge, actor: Actor, repository: TheRepository, workflow: str) -> Any:
    return forge.shapes.workflow(repository, _workflow(Bare(repository.folder), repository, workflow))


def _workflow(bare: Bare, repository: Repository, asked: str) -> str:
    """The file on the default branch that a name or a number stands for. Raises `Refused` (404) where there is none."""
    head = bare.head(repository.default_branch)
    for name in bare.names(head, ".github/workflows") if head is not None else ():
        if asked in (name, str(workflow_id(name))):
            return name
    raise Refused(404, "Not Found")


@router.get("/runs")
def runs(request: Request, forge: TheForge, actor: Actor, repository: TheRepository) -> Response:
    return _listed(request, forge, repository, list(repository.runs.values()))


@router.get("/workflows/{workflow}/runs")
def workflow_runs(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, workflow: str) -> Response:
    name = _workflow(Bare(repository.folder), repository, workflow)
    return _listed(request, forge, repository, [one for one in repository.runs.values() if one.workflow == name])


def _listed(request: Request, forge: Forge, repository: Repository, runs: list[Run]) -> Response:
    """Those that are asked for, newest first. `created` is understood as the earliest time (`>=TIME`)."""
    wanted = request.query_params
    if forge.faults.take("run_unlisted") is not None:
        runs = runs[:-1]
    found = [
        one
        for one in reversed(runs)
        if wanted.get("actor") in (None, one.actor.login)
        and wanted.get("branch") in (None, one.branch)
        and wanted.get("event") in (None, "workflow_dispatch")
        and wanted.get("head_sha") in (None, one.sha)
        and wanted.get("created", "").removeprefix(">=") <= one.created
    ]
    return paged(request, [_run(forge, repository, one) for one in found], "workflow_runs")


@router.get("/runs/{run_id}")
def run(forge: TheForge, actor: Actor, repository: TheRepository, run_id: int) -> Any:
    return _run(forge, repository, _found(repository, run_id))


@router.post("/runs/{run_id}/cancel", status_code=202)
def cancel(forge: TheForge, actor: Writer, repository: TheRepository, run_id: int) -> Any:
    found = _found(repository, run_id)
    if found.status == "completed":
        raise Refused(409, "Cannot cancel a workflow run that is completed.")
    found.cancelled.set()
    return {}


@router.get("/runs/{run_id}/artifacts")
def artifacts(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, run_id: int) -> Response:
    found = _found(repository, run_id)
    name = request.query_params.get("name")
    told = [forge.shapes.artifact(repository, found, one) for one in found.artifacts if name in (None, one.name)]
    return paged(request, told, "artifacts")


def _kept(repository: Repository, artifact_id: int) -> tuple[Run, Artifact]:
    for found in repository.runs.values():
        for artifact in found.artifacts:
            if artifact.id == artifact_id:
                return found, artifact
    raise Refused(404, "Not Found")


@router.get("/artifacts/{artifact_id}")
def artifact(forge: TheForge, actor: Actor, repository: TheRepository, artifact_id: int) -> Any:
    return forge.shapes.artifact(repository, *_kept(repository, artifact_id))


@router.get("/artifacts/{artifact_id}/zip")
def archive(forge: TheForge, actor: Actor, repository: TheRepository, artifact_id: int) -> Response:
    _, kept = _kept(repository, artifact_id)
    if kept.expired:
        raise Refused(410, "Artifact has expired")
    # GitHub sends on to a storage address that needs no credentials: so does this.
    return RedirectResponse(f"{forge.url}/storage/{repository.full_name}/{kept.id}/{kept.digest}", 302)


storage = APIRouter()


@storage.get("/storage/{owner}/{name}/{artifact_id}/{digest}")
def stored(repository: TheRepository, artifact_id: int, digest: str) -> Response:
    _, kept = _kept(repository, artifact_id)
    if digest != kept.digest:
        raise Refused(404, "Not Found")
    return FileResponse(kept.path, media_type="application/zip")
