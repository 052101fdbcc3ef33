"""The forge's pages: the front page, a pull request that a person reads and reviews, an issue, a commit with its checks, files."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

import jinja2
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from bot.forge.bare import EMPTY_TREE, Bare
from bot.forge.model import Account, Check, Comment, Issue, Pull, Refused, Repository, Review, Run, Status
from bot.forge.rendering import PICTURES, Place, by_interest, document, elsewhere, folded, lines, markdown, notes, picture
from bot.forge.web import TheForge, TheRepository

router = APIRouter()
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_HEADERS = {
    # Nothing that a page shows may run: not what a model, a spec or a comment wrote.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
SHOWN_BYTES = 400_000


def _when(text: str) -> str:
    """A time in ISO 8601 as people read it."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


_TEMPLATES.filters.update(
    markdown=markdown,
    lines=lines,
    notes=notes,
    by_interest=by_interest,
    document=document,
    elsewhere=elsewhere,
    folded=folded,
    picture=picture,
    short=lambda sha: sha[:8],
    when=_when,
    plural=lambda number, word: f"{number} {word}{'' if number == 1 else 's'}",
)


def page(name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of a template; `place` is where its texts stand."""
    return HTMLResponse(_TEMPLATES.get_template(name).render(**values), status, headers=_HEADERS)


def told(error: Refused) -> HTMLResponse:
    """A page that says why something was refused."""
    found: dict[str, Any] = {"title": str(error.status), "message": error.message, "errors": error.errors or [], "repository": None}
    return page("refused.html", status=error.status, **found)


@router.get("/")
def front(forge: TheForge) -> Response:
    with forge.lock:
        values: dict[str, Any] = {"repositories": list(forge.repositories.values()), "latest": _latest, "waiting": _waiting(forge.person())}
        return page("front.html", title="Forge", repository=None, **values)


def _waiting(person: Account | None) -> Callable[[Repository], list[Pull]]:
    """Finds the pull requests that wait for a person's review, newest first."""
    return lambda repository: [pull for pull in repository.pulls()[::-1] if pull.state == "open" and person in pull.requested]


def _latest(repository: Repository) -> Any:
    bare = Bare(repository.folder)
    head = bare.head(repository.default_branch)
    return bare.commit(head) if head else None


@router.get("/style.css")
def style() -> Response:
    return Response((Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8"), media_type="text/css")


@router.get("/{owner}/{name}")
def repository_page(forge: TheForge, repository: TheRepository) -> Response:
    with forge.lock:
        bare = Bare(repository.folder)
        head = bare.head(repository.default_branch)
        issues = [one for one in repository.issues.values() if not isinstance(one, Pull)]
        values: dict[str, Any] = {
            "pulls": _open_first(repository.pulls()),
            "issues": _open_first(issues),
            "waiting": _waiting(forge.person())(repository),
            "commits": bare.log("-12", head) if head else [],
        }
        return page(
            "repository.html",
            title=repository.full_name,
            repository=repository,
            checks=lambda sha: _checks(repository, sha),
            runs=list(repository.runs.values())[::-1][:10],
            **values,
        )


def _open_first(issues: Sequence[Issue]) -> list[Issue]:
    """The open ones, then the closed ones, each newest first."""
    return sorted(issues, key=lambda issue: (issue.state == "open", issue.number), reverse=True)


def _checks(repository: Repository, sha: str) -> list[Check]:
    """The latest check of each name on a commit."""
    return list({(one.name, one.external_id): one for one in repository.checks if one.sha == sha}.values())


def _statuses(repository: Repository, sha: str) -> list[Status]:
    """The latest status of each context on a commit."""
    return list({one.context: one for one in repository.statuses if one.sha == sha}.values())


@router.get("/{owner}/{name}/pull/{number}")
def pull_page(forge: TheForge, repository: TheRepository, number: int) -> Response:
    with forge.lock:
        pull = repository.pull(number)
        bare = Bare(repository.folder)
        base = bare.merge_base(pull.base_sha, pull.head) or pull.base_sha
        events: list[Comment | Review] = sorted([*pull.comments, *pull.reviews], key=lambda one: one.id)
        person = forge.person()
        values: dict[str, Any] = {
            "commits": bare.log("--reverse", f"{base}..{pull.head}"),
            "files": bare.changed(base, pull.head),
            "checks": _checks(repository, pull.head),
            "statuses": _statuses(repository, pull.head),
            "mergeable": pull.state == "open" and bare.merged_tree(bare.head(pull.base) or base, pull.head) is not None,
            "person": person if person is not None and person != pull.author else None,
            "place": Place(repository, forge.url),
        }
        return page("pull.html", title=f"{pull.title} · #{number}", repository=repository, pull=pull, events=events, **values)


def person_of(request: Request, forge: TheForge) -> Account:
    """Whom a form acts for. Only this forge's own pages may send one."""
    if request.headers.get("Origin", forge.url) != forge.url or request.headers.get("Host") != forge.url.partition("//")[2]:
        raise Refused(403, "this form was not sent from a page of this forge")
    person = forge.person()
    if person is None:
        raise Refused(403, "nobody here may review")
    return person


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a sent form."""
    given = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in given.items()}


@router.post("/{owner}/{name}/pull/{number}/review")
def review(
    forge: TheForge,
    repository: TheRepository,
    number: int,
    person: Annotated[Account, Depends(person_of)],
    form: Annotated[dict[str, str], Depends(form_of)],
) -> Response:
    with forge.lock:
        pull = repository.pull(number)
        if pull.state != "open":
            raise Refused(422, "this pull request is closed")
        if form.get("head", pull.head) != pull.head:
            raise Refused(409, "The pull request was changed since the page was opened: look at it again.")
        made = forge.review(repository, person, pull, form.get("event", ""), form.get("body", "").replace("\r\n", "\n").strip())
    return RedirectResponse(f"{forge.url}/{repository.full_name}/pull/{number}#review-{made.id}", 303)


@router.get("/{owner}/{name}/issues/{number}")
def issue_page(forge: TheForge, repository: TheRepository, number: int) -> Response:
    with forge.lock:
        issue = repository.issue(number)
        if isinstance(issue, Pull):
            return RedirectResponse(f"{forge.url}/{repository.full_name}/pull/{number}")
        place = Place(repository, forge.url)
        return page("issue.html", title=f"{issue.title} · #{number}", repository=repository, issue=issue, place=place)


@router.get("/{owner}/{name}/commit/{sha}")
def commit_page(forge: TheForge, repository: TheRepository, sha: str) -> Response:
    bare = Bare(repository.folder)
    found = bare.resolve(sha)
    if found is None:
        raise Refused(404, "There is no such commit")
    with forge.lock:
        commit = bare.commit(found)
        files = bare.changed(commit.parents[0] if commit.parents else EMPTY_TREE, found)
        values: dict[str, Any] = {
            "checks": _checks(repository, found),
            "statuses": _statuses(repository, found),
            "place": Place(repository, forge.url),
        }
        return page("commit.html", title=commit.message.partition("\n")[0], repository=repository, commit=commit, files=files, **values)


@router.get("/{owner}/{name}/actions/runs/{run_id}")
def run_page(forge: TheForge, repository: TheRepository, run_id: int) -> Response:
    run: Run | None = repository.runs.get(run_id)
    if run is None:
        raise Refused(404, "There is no such run")
    place = Place(repository, forge.url)
    return page("run.html", title=f"Run {run.number} of {run.workflow}", repository=repository, run=run, place=place)


@router.get("/{owner}/{name}/raw/{ref}/{path:path}")
def raw(repository: TheRepository, ref: str, path: str) -> Response:
    data, _ = _file(repository, ref, path)
    kind = mimetypes.guess_type(path)[0] or ""
    return Response(data, media_type=kind if kind in PICTURES else "text/plain; charset=utf-8", headers=_HEADERS)


@router.get("/{owner}/{name}/blob/{ref}/{path:path}")
def blob(request: Request, forge: TheForge, repository: TheRepository, ref: str, path: str) -> Response:
    if "raw" in request.query_params:
        return raw(repository, ref, path)
    data, sha = _file(repository, ref, path)
    text = data[:SHOWN_BYTES].decode("utf-8", "replace") if b"\0" not in data else ""
    return page(
        "blob.html", title=path, repository=repository, path=path, sha=sha, text=text, place=Place(repository, forge.url, sha, path)
    )


def _file(repository: Repository, ref: str, path: str) -> tuple[bytes, str]:
    bare = Bare(repository.folder)
    sha = bare.resolve(ref)
    data = bare.file(sha, path) if sha else None
    if data is None or sha is None:
        raise Refused(404, "There is no such file")
    return data, sha
