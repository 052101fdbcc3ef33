"""Makes the compiler's messages fit to publish: those about the candidate's own files, with names relative to its folder.

A message about any other file could quote that file, so it is left out, with the lines that belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Set

MAX_CHARACTERS = 6000
_HEAD = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<text>.*)$")
_CONTEXT = re.compile(r"^(?P<file>[^\s:][^:]*): (?P<text>(?:In|At) .*)$")
_LINKER = re.compile(r"(undefined reference to `[^']*'|multiple definition of `[^']*')")
_LIMIT = re.compile(
    r"^(?:compilation terminated.*|cc1plus: (?:out of memory|all warnings).*|virtual memory exhausted.*|g\+\+: fatal error: Killed.*)$"
)


def readable(text: str, files: Set[str]) -> str:
    """The messages about `files` (names in `/src`), the linker's about symbols, at most 6,000 characters in all."""
    kept: list[str] = []
    own = False
    for line in text.splitlines():
        head = _HEAD.match(line)
        context = _CONTEXT.match(line) if head is None else None
        linker = _LINKER.search(line)
        if linker:
            own = False
            kept.append(f"error: {linker[1]}")
        elif head is not None:
            name = _own(head["file"], files)
            own = name is not None
            if own:
                place = ":".join(part for part in (name, head["line"], head["column"]) if part)
                kept.append(f"{place}: {head['text']}")
        elif context is not None:
            name = _own(context["file"], files)
            own = name is not None
            if own:
                kept.append(f"{name}: {context['text']}")
        elif line.startswith("In file included from") or line.lstrip().startswith("from "):
            own = False
        elif _LIMIT.match(line):
            own = False
            kept.append(line)
        elif own and line.startswith(" "):
            kept.append(line)
        else:
            own = False
    message = "\n".join("".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in line) for line in kept)
    return message if len(message) <= MAX_CHARACTERS else message[:MAX_CHARACTERS] + "\n…"


def _own(path: str, files: Set[str]) -> str | None:
    name = path.removeprefix("/src/").removeprefix("./")
    return name if name in files else None
