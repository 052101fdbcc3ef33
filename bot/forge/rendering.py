"""What the forge's pages make of texts: Markdown as safe HTML, with references and pictures found as GitHub finds them, and diffs."""

from __future__ import annotations

import mimetypes
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from bot.forge.bare import Changed
from bot.forge.model import Check, Pull, Repository

_MARKDOWN = MarkdownIt("gfm-like", {"html": True, "linkify": False}).disable("linkify")
_TAGS = nh3.ALLOWED_TAGS | {"details", "summary"}
_ATTRIBUTES = {**nh3.ALLOWED_ATTRIBUTES, "b": {"class"}}
# A word sign before it, or a word joiner after its first sign, makes a reference mere text.
_ACTIVE = re.compile(r"(?<![\w/&])(?:#(?P<number>\d{1,9})|@(?P<login>[A-Za-z0-9][A-Za-z0-9-]{0,38}))(?![\w-])")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")
LARGEST_PATCH = 40_000
# A check, and one of its remarks as GitHub writes it.
Note = tuple[Check, dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """Where a text stands: links of a file are relative to its folder in its commit, all others to the default branch's root."""

    repository: Repository
    url: str
    commit: str = ""
    path: str = ""

    def at(self, commit: str, path: str) -> Place:
        """A file of this repository."""
        return replace(self, commit=commit, path=path)

    def address(self, given: str, kind: str) -> str:
        """A link's address as the pages have it; `kind` is `raw` for pictures and `blob` for the rest. None of it leaves the repository."""
        if given == self.url or given.startswith(f"{self.url}/"):
            return given.removeprefix(self.url) or "/"
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|[/#?]", given) or not given:
            return given
        path = posixpath.normpath(posixpath.join("/", posixpath.dirname(self.path), given))
        return f"/{self.repository.full_name}/{kind}/{self.commit or self.repository.default_branch}{path}"


def markdown(text: str, place: Place) -> Markup:
    """Markdown as safe HTML. How columns stand becomes an attribute: the pages' policy has no styles within."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type in ("th_open", "td_open"):
            style = str(token.attrs.get("style", ""))
            token.attrs = {"align": style.rpartition(":")[2]} if style else {}
        if token.children:
            token.children = list(_inline(token.children, place))
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return Markup(nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES))


def _inline(tokens: Sequence[Token], place: Place) -> Iterator[Token]:
    """The parts of a paragraph, with their addresses found, and references and mentions made of plain text that is no link yet."""
    links = 0
    for token in tokens:
        for attribute, kind in (("src", "raw"), ("href", "blob")):
            if attribute in token.attrs:
                token.attrs[attribute] = place.address(str(token.attrs[attribute]), kind)
        links += token.nesting if token.type.startswith("link") else 0
        if token.type == "text" and not links:
            yield from _active(token.content, place)
        else:
            yield token


def _active(text: str, place: Place) -> Iterator[Token]:
    at = 0
    for match in _ACTIVE.finditer(text):
        made = list(_reference(match, place.repository))
        if made:
            yield _text(text[at : match.start()])
            yield from made
            at = match.end()
    yield _text(text[at:])


def _reference(match: re.Match[str], repository: Repository) -> Iterator[Token]:
    """A mention, or the link to an issue or pull request of this repository; nothing where there is none of this number."""
    if match["login"]:
        yield Token("strong_open", "b", 1, attrs={"class": "mention"})
        yield _text(match.group())
        yield Token("strong_close", "b", -1)
        return
    issue = repository.issues.get(int(match["number"]))
    if issue is None:
        return
    kind = "pull" if isinstance(issue, Pull) else "issues"
    attributes: dict[str, Any] = {"href": f"/{repository.full_name}/{kind}/{issue.number}", "title": issue.title}
    yield Token("link_open", "a", 1, attrs=attributes)
    yield _text(match.group())
    yield Token("link_close", "a", -1)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def picture(path: str) -> bool:
    """Whether a file is one that the pages show as a picture."""
    return mimetypes.guess_type(path)[0] in PICTURES


@dataclass(frozen=True)
class Line:
    """A line of a diff: its kind, its number before and after, its text, and what checks remark on it."""

    kind: str
    before: int | None
    after: int | None
    text: str
    notes: tuple[Note, ...] = ()


def notes(checks: Sequence[Check], path: str) -> list[Note]:
    """What checks remark on a file."""
    return [(check, one) for check in checks for one in check.annotations if one["path"] == path]


def lines(patch: str, notes: Sequence[Note] = ()) -> list[Line]:
    """The lines of a file's part of a diff, with the remarks on its new lines."""
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
    if not notes:
        return found
    return [replace(line, notes=tuple(note for note in notes if note[1]["start_line"] == line.after)) for line in found]


def elsewhere(check: Check, files: Sequence[Changed]) -> list[dict[str, Any]]:
    """What a check remarks on lines that these files' diffs don't show."""
    shown = {(file.path, line.after) for file in files for line in lines(file.patch)} if check.annotations else set()
    return [one for one in check.annotations if (one["path"], one["start_line"]) not in shown]


def by_interest(files: Sequence[Changed]) -> list[Changed]:
    """A diff's files for a reader: kernels first, then what people write, and last what programs wrote."""
    return sorted(files, key=lambda file: (by_machine(file.path), "/kernel/" not in f"/{file.path}", file.path))


def document(file: Changed) -> str:
    """The text of Markdown that was added, which is shown as it reads; empty for every other file."""
    whole = file.path.endswith(".md") and file.status == "added"
    return "\n".join(line.text for line in lines(file.patch) if line.kind == "added") if whole else ""


def by_machine(path: str) -> bool:
    """Whether a program wrote this file for programs: it is folded away."""
    return "/results/" in f"/{path}" or path.endswith((".json", ".lock"))


def folded(file: Changed) -> bool:
    """Whether a file's diff is shown only when it is asked for."""
    return by_machine(file.path) or len(file.patch) > LARGEST_PATCH
