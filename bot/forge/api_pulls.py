"""The API of issues and pull requests: comments, reviews and merges."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from bot.forge.bare import Bare
from bot.forge.model import LIMIT, Comment, Issue, Pull, Refused, Repository, invalid, now
from bot.forge.web import PREFIX, Actor, Given, TheForge, TheRepository, Writer, paged

router = APIRouter(prefix=f"{PREFIX}/repos/{{owner}}/{{name}}")


def _chosen(issues: list[Any], request: Request) -> list[Any]:
    """Those of the wanted state, newest first unless told otherwise."""
    state = request.query_params.get("state", "open")
    found = [one for one in issues if state in ("all", one.state)]
    return found if request.query_params.get("direction") == "asc" else found[::-1]


@router.get("/pulls")
def pulls(request: Request, forge: TheForge, actor: Actor, repository: TheRepository) -> Response:
    found = _chosen(repository.pulls(), request)
    head, base = request.query_params.get("head"), request.query_params.get("base")
    if head:
        found = [one for one in found if f"{(one.source or repository.full_name).partition('/')[0]}:{one.branch}" == head]
    if base:
        found = [one for one in found if one.base == base]
    return paged(request, [forge.pull_json(repository, one, full=False) for one in found])


@router.post("/pulls", status_code=201)
def open_pull(forge: TheForge, actor: Actor, repository: TheRepository, given: Given) -> Any:
    for name in ("title", "head", "base"):
        if not isinstance(given.get(name), str):
            raise Refused(422, f"Invalid request.\n\n{name!r} wasn't supplied.")
    if not actor.write and given["head"].partition(":")[0] != actor.login:
        raise Refused(403, "Resource not accessible by personal access token")
    with forge.lock:
        texts = (given["title"], given.get("body") or "", given["head"], given["base"])
        pull = forge.open_pull(repository, actor, *texts, draft=bool(given.get("draft")))
        if forge.faults.take("exists_after") is not None:
            raise invalid("PullRequest", "base", f"A pull request already exists for {repository.owner}:{pull.branch}.")
        return forge.pull_json(repository, pull)


@router.get("/pulls/{number}")
def pull(forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Any:
    with forge.lock:
        found = repository.pull(number)
        return forge.pull_json(repository, found, forge.mergeable(repository, found))


@router.patch("/pulls/{number}")
def edit_pull(forge: TheForge, actor: Writer, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        found = repository.pull(number)
        forge.edit(repository, actor, found, given)
        return forge.pull_json(repository, found)


@router.put("/pulls/{number}/merge")
def merge(forge: TheForge, actor: Writer, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        texts = (given.get("sha"), given.get("commit_title") or "", given.get("commit_message") or "", given.get("merge_method") or "merge")
        commit = forge.merge(repository, actor, repository.pull(number), *texts)
    return {"sha": commit, "merged": True, "message": "Pull Request successfully merged"}


@router.get("/pulls/{number}/merge")
def is_merged(forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Response:
    if repository.pull(number).merged is None:
        raise Refused(404, "Not Found")
    return Response(status_code=204)


@router.get("/pulls/{number}/files")
def files(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Response:
    found = repository.pull(number)
    bare = Bare(repository.folder)
    base = bare.merge_base(found.base_sha, found.head) or found.base_sha
    return paged(request, [forge.shapes.file(repository, found.head, one) for one in bare.changed(base, found.head)])


@router.get("/pulls/{number}/commits")
def commits(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Response:
    found = repository.pull(number)
    log = Bare(repository.folder).log("--reverse", f"{found.base_sha}..{found.head}")
    return paged(request, [forge.shapes.commit(repository, one) for one in log])


@router.get("/pulls/{number}/reviews")
def reviews(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Response:
    return paged(request, [forge.shapes.review(repository, one) for one in repository.pull(number).reviews])


@router.post("/pulls/{number}/reviews")
def review(forge: TheForge, actor: Actor, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        found = repository.pull(number)
        made = forge.review(repository, actor, found, str(given.get("event")), given.get("body") or "", given.get("commit_id"))
        return forge.shapes.review(repository, made)


@router.put("/pulls/{number}/reviews/{review_id}/dismissals")
def dismiss(forge: TheForge, actor: Writer, repository: TheRepository, number: int, review_id: int, given: Given) -> Any:
    with forge.lock:
        for one in repository.pull(number).reviews:
            if one.id == review_id and one.state in ("APPROVED", "CHANGES_REQUESTED"):
                one.state = "DISMISSED"
                told = {**forge.shapes.review(repository, one), "state": "dismissed"}
                short = forge.pull_json(repository, repository.pull(number), full=False)
                forge.tell(repository, actor, "pull_request_review", action="dismissed", review=told, pull_request=short)
                return forge.shapes.review(repository, one)
    raise Refused(404, "Not Found")


@router.post("/pulls/{number}/requested_reviewers", status_code=201)
def request_reviewers(forge: TheForge, actor: Writer, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        found = repository.pull(number)
        for login in given.get("reviewers") or []:
            account = forge.accounts.get(login)
            if account is None or account.bot or not account.write:
                raise Refused(422, f"Reviews may only be requested from collaborators: {login} is not one")
            if account == found.author:
                raise Refused(422, "Review cannot be requested from pull request author.")
            if account not in found.requested:
                found.requested.append(account)
                told = {
                    "number": number,
                    "pull_request": forge.pull_json(repository, found),
                    "requested_reviewer": forge.shapes.user(account),
                }
                forge.tell(repository, actor, "pull_request", action="review_requested", **told)
        return forge.pull_json(repository, found, full=False)


@router.get("/pulls/{number}/requested_reviewers")
def requested_reviewers(forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Any:
    return {"users": [forge.shapes.user(one) for one in repository.pull(number).requested], "teams": []}


@router.get("/issues")
def issues(request: Request, forge: TheForge, actor: Actor, repository: TheRepository) -> Response:
    found = _chosen(list(repository.issues.values()), request)
    creator = request.query_params.get("creator")
    labels = [one for one in request.query_params.get("labels", "").split(",") if one]
    found = [one for one in found if creator in (None, one.author.login) and set(labels) <= set(one.labels)]
    return paged(request, [forge.shapes.issue(repository, one) for one in found])


@router.post("/issues", status_code=201)
def open_issue(forge: TheForge, actor: Actor, repository: TheRepository, given: Given) -> Any:
    with forge.lock:
        labels = [one if isinstance(one, str) else one["name"] for one in given.get("labels") or []]
        issue = forge.open_issue(repository, actor, given.get("title", ""), given.get("body") or "", labels)
        return forge.shapes.issue(repository, issue)


@router.get("/issues/comments/{comment_id}")
def comment(forge: TheForge, actor: Actor, repository: TheRepository, comment_id: int) -> Any:
    return forge.shapes.comment(repository, _comment(repository, comment_id)[1])


@router.patch("/issues/comments/{comment_id}")
def edit_comment(forge: TheForge, actor: Writer, repository: TheRepository, comment_id: int, given: Given) -> Any:
    with forge.lock:
        issue, found = _comment(repository, comment_id)
        body = given.get("body")
        if not isinstance(body, str) or not body:
            raise invalid("IssueComment", "body", "body can't be blank")
        if len(body) > LIMIT:
            raise invalid("IssueComment", "body", "body is too long (maximum is 65536 characters)")
        found.body, found.updated = body, now()
        forge.tell_comment(repository, actor, issue, found, "edited")
        return forge.shapes.comment(repository, found)


@router.delete("/issues/comments/{comment_id}", status_code=204)
def delete_comment(forge: TheForge, actor: Writer, repository: TheRepository, comment_id: int) -> Response:
    with forge.lock:
        issue, found = _comment(repository, comment_id)
        issue.comments.remove(found)
        forge.tell_comment(repository, actor, issue, found, "deleted")
    return Response(status_code=204)


@router.get("/issues/{number}")
def issue(forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Any:
    return forge.shapes.issue(repository, repository.issue(number))


@router.patch("/issues/{number}")
def edit_issue(forge: TheForge, actor: Writer, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        found = repository.issue(number)
        forge.edit(repository, actor, found, given)
        return forge.shapes.issue(repository, found)


@router.get("/issues/{number}/comments")
def comments(request: Request, forge: TheForge, actor: Actor, repository: TheRepository, number: int) -> Response:
    return paged(request, [forge.shapes.comment(repository, one) for one in repository.issue(number).comments])


@router.post("/issues/{number}/comments", status_code=201)
def add_comment(forge: TheForge, actor: Actor, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        issue, text = repository.issue(number), given.get("body") or ""
        if forge.faults.take("imitated_comment") is not None:
            forge.comment(repository, forge.person() or actor, issue, text)
        made = forge.comment(repository, actor, issue, text)
        if forge.faults.take("doubled_comment") is not None:
            forge.comment(repository, actor, issue, text)
        return forge.shapes.comment(repository, made)


@router.post("/issues/{number}/labels")
def add_labels(forge: TheForge, actor: Writer, repository: TheRepository, number: int, given: Given) -> Any:
    with forge.lock:
        found = repository.issue(number)
        found.labels = list(dict.fromkeys([*found.labels, *(given.get("labels") or [])]))
        return JSONResponse([forge.shapes.label(repository, one) for one in found.labels])


def _comment(repository: Repository, comment_id: int) -> tuple[Issue | Pull, Comment]:
    for issue in repository.issues.values():
        for found in issue.comments:
            if found.id == comment_id:
                return issue, found
    raise Refused(404, "Not Found")
