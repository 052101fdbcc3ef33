"""The forge's pages: the front page, a pull request that a person reads and reviews, an issue, a commit with its checks, files."""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

import jinja2
import nh3
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markdown_it import MarkdownIt
from markupsafe import Markup

from bot.forge.bare import EMPTY_TREE, Bare
from bot.forge.model import Account, Check, Comment, Pull, Refused, Repository, Review, Run
from bot.forge.web import TheForge, TheRepository

router = APIRouter()
_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_MARKDOWN = MarkdownIt("gfm-like", {"html": True, "linkify": False}).disable("linkify")
_TAGS = nh3.ALLOWED_TAGS | {"details", "summary", "input"}
_HEADERS = {
    # Nothing that a page shows may run: not what a model, a spec or a comment wrote.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")
SHOWN_BYTES = 400_000


def markdown(text: str) -> Markup:
    """Markdown as safe HTML. How columns stand becomes an attribute: the pages' policy has no styles within."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("th_open", "td_open"):
            style = str(token.attrs.get("style", ""))
            token.attrs = {"align": style.rpartition(":")[2]} if style else {}
    return Markup(nh3.clean(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}), tags=_TAGS))


@dataclass(frozen=True)
class Line:
    """A line of a diff: its kind, its number before and after, and its text."""

    kind: str
    before: int | None
    after: int | None
    text: str


def lines(patch: str) -> list[Line]:
    """The lines of a file's part of a diff."""
    found, before, after = [], 0, 0
    for text in patch.splitlines():
        if text.startswith("@@"):
            old, new = text.split()[1:3]
            before, after = int(old[1:].split(",")[0]), int(new[1:].split(",")[0])
            found.append(Line("hunk", None, None, text))
        elif text.startswith("+"):
            found.append(Line("added", None, after, text[1:]))
            after += 1
        elif text.startswith("-"):
            found.append(Line("removed", before, None, text[1:]))
            before += 1
        elif text.startswith("\\"):
            found.append(Line("hunk", None, None, text))
        else:
            found.append(Line("same", before, after, text[1:]))
            before, after = before + 1, after + 1
    return found


_TEMPLATES.filters.update(markdown=markdown, lines=lines, short=lambda sha: sha[:8], when=lambda text: text.replace("T", " ").rstrip("Z"))


def page(name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of a template."""
    return HTMLResponse(_TEMPLATES.get_template(name).render(**values), status, headers=_HEADERS)


def told(error: Refused) -> HTMLResponse:
    """A page that says why something was refused."""
    return page(
        "refused.html", status=error.status, title=str(error.status), message=error.message, errors=error.errors or [], repository=None
    )


@router.get("/")
def front(forge: TheForge) -> Response:
    with forge.lock:
        return page("front.html", title="Forge", repositories=list(forge.repositories.values()), repository=None, latest=_latest)


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
            "pulls": repository.pulls()[::-1],
            "issues": issues[::-1],
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


def _checks(repository: Repository, sha: str) -> list[Check]:
    """The latest check of each name on a commit."""
    return list({(one.name, one.external_id): one for one in repository.checks if one.sha == sha}.values())


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
            "statuses": list({one.context: one for one in repository.statuses if one.sha == pull.head}.values()),
            "mergeable": pull.state == "open" and bare.merged_tree(bare.head(pull.base) or base, pull.head) is not None,
            "person": person if person is not None and person != pull.author else None,
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
        return page("issue.html", title=f"{issue.title} · #{number}", repository=repository, issue=issue)


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
            "statuses": [one for one in repository.statuses if one.sha == found],
        }
        return page("commit.html", title=commit.message.partition("\n")[0], repository=repository, commit=commit, files=files, **values)


@router.get("/{owner}/{name}/actions/runs/{run_id}")
def run_page(repository: TheRepository, run_id: int) -> Response:
    run: Run | None = repository.runs.get(run_id)
    if run is None:
        raise Refused(404, "There is no such run")
    return page("run.html", title=f"Run {run.number} of {run.workflow}", repository=repository, run=run)


@router.get("/{owner}/{name}/raw/{ref}/{path:path}")
def raw(repository: TheRepository, ref: str, path: str) -> Response:
    data, _ = _file(repository, ref, path)
    kind = mimetypes.guess_type(path)[0] or ""
    return Response(data, media_type=kind if kind in _PICTURES else "text/plain; charset=utf-8", headers=_HEADERS)


@router.get("/{owner}/{name}/blob/{ref}/{path:path}")
def blob(request: Request, repository: TheRepository, ref: str, path: str) -> Response:
    if "raw" in request.query_params:
        return raw(repository, ref, path)
    data, sha = _file(repository, ref, path)
    kind = mimetypes.guess_type(path)[0]
    text = data[:SHOWN_BYTES].decode("utf-8", "replace") if b"\0" not in data else ""
    return page("blob.html", title=path, repository=repository, path=path, sha=sha, text=text, picture=kind in _PICTURES)


def _file(repository: Repository, ref: str, path: str) -> tuple[bytes, str]:
    bare = Bare(repository.folder)
    sha = bare.resolve(ref)
    data = bare.file(sha, path) if sha else None
    if data is None or sha is None:
        raise Refused(404, "There is no such file")
    return data, sha
