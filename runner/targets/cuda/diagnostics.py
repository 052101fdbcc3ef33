"""Makes NVRTC's messages fit to publish, and reads ptxas's report on resources.

A message about any other file than the candidate's could quote that file, so its text is left out.
"""

from __future__ import annotations

import re
from collections.abc import Set

MAX_CHARACTERS = 6000
_HEAD = re.compile(r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<text>(?:catastrophic )?(?:error|warning|remark|note)\b.*)$")
_OTHER = re.compile(r"^\s*(?:nvrtc: error: .*|ptxas .*(?:error|fatal).*|candidate\.cu\(\d+\): .*)$")
_ASKED = "__nv_name_map"  # where the compiler looks up the instances that launch.yaml names
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def readable(text: str, files: Set[str]) -> str:
    """The messages about `files` (names in `/src`), with the lines quoted from them, at most 6,000 characters in all."""
    kept: list[str] = []
    own = False
    for line in text.replace("\0", "").splitlines():
        head = _HEAD.match(line)
        if head is not None:
            name = head["file"].removeprefix("/src/").removeprefix("./")
            own = name in files
            if own:
                kept.append(f"{name}:{head['line']}: {head['text']}")
            elif name in ("candidate.cu", _ASKED) and "name expression" not in head["text"]:
                kept.append(f"launch.yaml: {head['text']}")
            elif "error" in head["text"] and name != _ASKED:
                kept.append("error: in a header that the candidate includes")
        elif _OTHER.match(line):
            own = False
            kept.append(line.strip())
        elif own and line.startswith((" ", "\t")) and line.strip():
            kept.append(line)
        else:
            own = False
    message = "\n".join("".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in line) for line in kept)
    return message if len(message) <= MAX_CHARACTERS else message[:MAX_CHARACTERS] + "\n…"


def resources(log: str) -> dict[str, dict[str, int]]:
    """By entry, what ptxas says of it: registers, stack and spills in bytes, static shared memory in bytes."""
    found: dict[str, dict[str, int]] = {}
    entry: dict[str, int] = {}
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = found.setdefault(match[1], {"static_shared": 0})
        elif match := _PROPERTIES.search(line):
            entry |= {"stack": int(match[1]), "spill_stores": int(match[2]), "spill_loads": int(match[3])}
        elif match := _USED.search(line):
            entry["registers"] = int(match[1])
            if shared := _SHARED.search(line):
                entry["static_shared"] = int(shared[1])
    return found
