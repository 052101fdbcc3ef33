"""The API of a repository itself: branches, commits, files and people; check runs and commit statuses; and the App's own affairs."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from bot.forge.bare import Bare
from bot.forge.forge import Forge
from bot.forge.model import Account, Check, Refused, Repository, Status, invalid, now
from bot.forge.web import PREFIX, Actor, Bot, Given, TheForge, TheRepository, Writer, app_of, paged

router = APIRouter(prefix=PREFIX)
REPOSITORY = "/repos/{owner}/{name}"
TheApp = Annotated[None, Depends(app_of)]
FOREIGN_APP = 99
SUMMARY_LIMIT, ANNOTATIONS_A_REQUEST = 65_535, 50
CONCLUSIONS = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out")


@router.get(REPOSITORY)
def repository(forge: TheForge, actor: Actor, repository: TheRepository) -> Any:
    return forge.shapes.repository(repository, forge.owner(repository))


@router.get(REPOSITORY + "/branches/{branch:path}")
def branch(forge: TheForge, actor: Actor, repository: TheRepository, branch: str) -> Any:
    bare = Bare(repository.folder)
    sha = bare.head(branch)
    if sha is None:
        raise Refused(404, "Branch not found")
    url = f"{forge.shapes.api}/repos/{repository.full_name}/branches/{branch}"
    return {
        "name": branch,
        "commit": forge.shapes.commit(repository, bare.commit(sha)),
        "_links": {"html": f"{forge.url}/{repository.full_name}/tree/{branch}", "self": url},
        "protected": False,
        "protection": {"enabled": False},
        "protection_url": f"{url}/protection",
    }


@router.get(REPOSITORY + "/git/ref/{ref:path}")
def ref(forge: TheForge, actor: Actor, repository: TheRepository, ref: str) -> Any:
    sha = Bare(repository.folder).resolve(f"refs/{ref}")
    if sha is None:
        raise Refused(404, "Not Found")
    return _ref(forge, repository, f"refs/{ref}", sha)


@router.get(REPOSITORY + "/git/matching-refs/{ref:path}")
def matching_refs(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, ref: str) -> Response:
    refs = Bare(repository.folder).refs()
    return paged(request, [_ref(forge, repository, name, sha) for name, sha in refs.items() if name.startswith(f"refs/{ref}")])


@router.delete(REPOSITORY + "/git/refs/{ref:path}", status_code=204)
def delete_ref(forge: TheForge, actor: Writer, repository: TheRepository, ref: str) -> Response:
    bare = Bare(repository.folder)
    with forge.lock:
        before = bare.refs()
        if f"refs/{ref}" not in before:
            raise Refused(422, "Reference does not exist")
        bare.update(f"refs/{ref}", None)
        forge.pushed(repository, actor, before, bare.refs())
    return Response(status_code=204)


def _ref(forge: Forge, repository: Repository, name: str, sha: str) -> dict[str, Any]:
    base = f"{forge.shapes.api}/repos/{repository.full_name}/git"
    told = {"type": "commit", "sha": sha, "url": f"{base}/commits/{sha}"}
    return {"ref": name, "node_id": "UkVG", "url": f"{base}/{name}", "object": told}


@router.get(REPOSITORY + "/contents/{path:path}")
def contents(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, path: str) -> Any:
    bare = Bare(repository.folder)
    ref = request.query_params.get("ref", repository.default_branch)
    sha = bare.resolve(ref)
    data = bare.file(sha, path) if sha else None
    if data is None:
        raise Refused(404, "Not Found")
    url = f"{forge.shapes.api}/repos/{repository.full_name}/contents/{path}?ref={ref}"
    blob = bare.git("rev-parse", f"{sha}:{path}")
    html = f"{forge.url}/{repository.full_name}/blob/{sha}/{path}"
    git_url = f"{forge.shapes.api}/repos/{repository.full_name}/git/blobs/{blob}"
    return {
        "type": "file",
        "encoding": "base64",
        "size": len(data),
        "name": path.rpartition("/")[2],
        "path": path,
        "content": base64.encodebytes(data).decode(),
        "sha": blob,
        "url": url,
        "git_url": git_url,
        "html_url": html,
        "download_url": f"{forge.url}/{repository.full_name}/raw/{sha}/{path}",
        "_links": {"git": git_url, "self": url, "html": html},
    }


@router.get(REPOSITORY + "/collaborators")
def collaborators(request: Request, forge: TheForge, actor: Writer, repository: TheRepository) -> Response:
    people = [one for one in forge.accounts.values() if one.write and not one.bot]
    rights = {"permissions": {"pull": True, "triage": True, "push": True, "maintain": False, "admin": False}, "role_name": "write"}
    return paged(request, [{**forge.shapes.user(one), **rights} for one in people])


@router.get(REPOSITORY + "/collaborators/{login}/permission")
def permission(forge: TheForge, actor: Actor, repository: TheRepository, login: str) -> Any:
    account = forge.accounts.get(login)
    if account is None:
        raise Refused(404, "Not Found")
    right = "write" if account.write else "read"
    rights = {"pull": True, "triage": account.write, "push": account.write, "maintain": False, "admin": False}
    return {"permission": right, "role_name": right, "user": {**forge.shapes.user(account), "permissions": rights, "role_name": right}}


def _commit_of(repository: Repository, name: str) -> str:
    sha = Bare(repository.folder).resolve(name)
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {name}")
    return sha


@router.post(REPOSITORY + "/check-runs", status_code=201)
def create_check(forge: TheForge, actor: Bot, repository: TheRepository, given: Given) -> Any:
    if not isinstance(given.get("name"), str) or not isinstance(given.get("head_sha"), str):
        raise Refused(422, 'Invalid request.\n\n"name", "head_sha" weren\'t supplied.')
    with forge.lock:
        sha = _commit_of(repository, given["head_sha"])
        check = Check(forge.next_id(), sha, given["name"], str(given.get("external_id") or ""), forge.app_id)
        _filled(check, given)
        if forge.faults.take("foreign_check") is not None:
            theirs = Check(forge.next_id(), sha, check.name, check.external_id, FOREIGN_APP, status="completed", conclusion="success")
            repository.checks.append(theirs)
        repository.checks.append(check)
        return _told(forge, repository, check, "created")


@router.patch(REPOSITORY + "/check-runs/{check_id}")
def update_check(forge: TheForge, actor: Bot, repository: TheRepository, check_id: int, given: Given) -> Any:
    with forge.lock:
        check = _check(repository, check_id)
        if check.app_id != forge.app_id:
            raise Refused(403, "Invalid app_id for check run - check run can only be modified by the GitHub App that created it.")
        _filled(check, given)
        return _told(forge, repository, check, "completed" if check.status == "completed" else "created")


def _filled(check: Check, given: dict[str, Any]) -> None:
    """Take the fields of a request. Raises `Refused` before anything is changed."""
    output = given.get("output") or {}
    annotations = output.get("annotations") or []
    if len(annotations) > ANNOTATIONS_A_REQUEST:
        raise Refused(422, f"Invalid request.\n\nNo more than {ANNOTATIONS_A_REQUEST} items are allowed; {len(annotations)} were supplied.")
    if output and not ({"title", "summary"} <= output.keys() or check.title is not None):
        raise Refused(422, 'Invalid request.\n\n"title", "summary" weren\'t supplied.')
    for name in ("summary", "text"):
        if len((output.get(name) or "").encode()) > SUMMARY_LIMIT:
            raise invalid("CheckRun", name, f"{name} exceeds a maximum bytesize of {SUMMARY_LIMIT}")
    for one in annotations:
        if not {"path", "start_line", "end_line", "annotation_level", "message"} <= one.keys():
            raise Refused(422, "Invalid request.\n\nan annotation lacks a field.")
        if one.get("start_column") is not None and one["start_line"] != one["end_line"]:
            raise Refused(422, "start_column can only be used when start_line and end_line are the same")
    conclusion = given.get("conclusion")
    if conclusion is not None and conclusion not in CONCLUSIONS:
        raise Refused(422, f"Invalid request.\n\n{conclusion} is not a possible value.")
    if given.get("status") == "completed" and conclusion is None and check.conclusion is None:
        raise Refused(422, 'Invalid request.\n\nMissing required keys "conclusion"')
    check.status = "completed" if conclusion else given.get("status") or check.status
    check.conclusion = conclusion or (check.conclusion if check.status == "completed" else None)
    check.completed = given.get("completed_at") or now() if check.status == "completed" else None
    check.name, check.external_id = given.get("name", check.name), given.get("external_id", check.external_id)
    check.details = given.get("details_url") or check.details
    check.title, check.summary = output.get("title", check.title), output.get("summary", check.summary)
    check.text = output.get("text", check.text)
    check.annotations += annotations


def _check(repository: Repository, check_id: int) -> Check:
    for check in repository.checks:
        if check.id == check_id:
            return check
    raise Refused(404, "Not Found")


def _shaped(forge: Forge, repository: Repository, check: Check) -> dict[str, Any]:
    return forge.shapes.check(repository, forge.owner(repository), check, [])


def _told(forge: Forge, repository: Repository, check: Check, action: str) -> dict[str, Any]:
    told = _shaped(forge, repository, check)
    forge.tell(repository, forge.bot, "check_run", action=action, check_run=told)
    return told


@router.get(REPOSITORY + "/check-runs/{check_id}")
def check(forge: TheForge, actor: Actor, repository: TheRepository, check_id: int) -> Any:
    return _shaped(forge, repository, _check(repository, check_id))


@router.get(REPOSITORY + "/check-runs/{check_id}/annotations")
def check_annotations(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, check_id: int) -> Response:
    found = _check(repository, check_id)
    return paged(request, [forge.shapes.annotation(repository, found, one) for one in found.annotations])


@router.get(REPOSITORY + "/commits/{ref:path}/check-runs")
def checks(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, ref: str) -> Response:
    sha = _commit_of(repository, ref)
    name, app = request.query_params.get("check_name"), request.query_params.get("app_id")
    found = [
        one
        for one in reversed(repository.checks)
        if one.sha == sha
        and name in (None, one.name)
        and app in (None, str(one.app_id))
        and one.status in (request.query_params.get("status"), one.status)
    ]
    if request.query_params.get("filter", "latest") == "latest":
        found = list({(one.app_id, one.name, one.external_id): one for one in reversed(found)}.values())[::-1]
    return paged(request, [_shaped(forge, repository, one) for one in found], "check_runs")


@router.get(REPOSITORY + "/commits/{ref:path}/statuses")
def statuses(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, ref: str) -> Response:
    sha = _commit_of(repository, ref)
    return paged(request, [forge.shapes.status(repository, one) for one in reversed(repository.statuses) if one.sha == sha])


@router.get(REPOSITORY + "/commits/{ref:path}")
def commit(forge: TheForge, actor: Actor, repository: TheRepository, ref: str) -> Any:
    bare = Bare(repository.folder)
    found = bare.commit(_commit_of(repository, ref))
    files = bare.changed(found.parents[0], found.sha) if found.parents else []
    numbers = {"additions": sum(one.added for one in files), "deletions": sum(one.removed for one in files)}
    told = [forge.shapes.file(repository, found.sha, one) for one in files]
    return {**forge.shapes.commit(repository, found), "stats": {**numbers, "total": sum(numbers.values())}, "files": told}


@router.post(REPOSITORY + "/statuses/{sha}", status_code=201)
def create_status(forge: TheForge, actor: Writer, repository: TheRepository, sha: str, given: Given) -> Any:
    if given.get("state") not in ("error", "failure", "pending", "success"):
        raise invalid("Status", "state", "state is not included in the list")
    texts = (given["state"], given.get("context") or "default", given.get("description") or "", given.get("target_url") or "")
    if len(texts[2]) > 140:
        raise invalid("Status", "description", "description is too long (maximum is 140 characters)")
    with forge.lock:
        status = Status(forge.next_id(), _commit_of(repository, sha), *texts, author=actor)
        repository.statuses.append(status)
        return forge.shapes.status(repository, status)


@router.get("/app")
def app(forge: TheForge, checked: TheApp) -> Any:
    return forge.shapes.app(forge.bot)


@router.get("/app/installations/{number}")
def installation(forge: TheForge, checked: TheApp, number: int) -> Any:
    return forge.shapes.installation(_installed(forge, number), _account(forge))


@router.get(REPOSITORY + "/installation")
def repository_installation(forge: TheForge, checked: TheApp, repository: TheRepository) -> Any:
    return forge.shapes.installation(forge.installation_id, forge.owner(repository))


@router.post("/app/installations/{number}/access_tokens", status_code=201)
def access_token(forge: TheForge, checked: TheApp, number: int) -> Any:
    _installed(forge, number)
    token, ends = forge.installation_token()
    installed = forge.shapes.installation(number, _account(forge))
    return {"token": token, "expires_at": ends, "permissions": installed["permissions"], "repository_selection": "all"}


def _account(forge: Forge) -> Account:
    return next((forge.owner(one) for one in forge.repositories.values()), forge.bot)


def _installed(forge: Forge, number: int) -> int:
    if number != forge.installation_id:
        raise Refused(404, "Not Found")
    return number


@router.get("/app/hook/deliveries")
def deliveries(request: Request, forge: TheForge, checked: TheApp) -> Response:
    return JSONResponse([forge.shapes.delivery(one) for one in forge.hooks.told()][: int(request.query_params.get("per_page", 30))])


@router.get("/app/hook/deliveries/{number}")
def delivery(forge: TheForge, checked: TheApp, number: int) -> Any:
    return forge.shapes.delivery(forge.hooks.delivery(number), full=True)


@router.post("/app/hook/deliveries/{number}/attempts", status_code=202)
def redeliver(forge: TheForge, checked: TheApp, number: int) -> Any:
    forge.hooks.redeliver(number)
    return {}


@router.get("/user")
def user(forge: TheForge, actor: Actor) -> Any:
    if actor.bot:
        raise Refused(403, "Resource not accessible by integration")
    return _person(forge, actor)


@router.get("/users/{login}")
def some_user(forge: TheForge, actor: Actor, login: str) -> Any:
    account = forge.accounts.get(login)
    if account is None:
        raise Refused(404, "Not Found")
    return _person(forge, account)


def _person(forge: Forge, account: Account) -> dict[str, Any]:
    unknown = dict.fromkeys(("name", "company", "blog", "location", "email", "hireable", "bio"))
    counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    dates = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    return {**forge.shapes.user(account), **unknown, **counts, **dates}
