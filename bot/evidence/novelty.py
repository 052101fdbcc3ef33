"""Novelty: is a candidate one that was tried before, or differs from it in comments and spacing only?"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Literal

from bot.evidence.experiment import Experiment
from runner.candidate import Candidate
from runner.verdict import Verdict

# One pass over C++: literals are kept as they are, a comment is a space, a run of spaces is one.
# Raw strings come first, since they may hold anything.
_PIECES = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?:.|\n)*?\)(?P=mark)")
  | (?P<literal>"(?:\\(?:.|\n)|[^"\\\n])*" | (?<![0-9A-Za-z_])'(?:\\(?:.|\n)|[^'\\\n])*')
  | (?P<comment>//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/)
  | (?P<newline>[ \t\r\f\v]*\n\s*)
  | (?P<space>(?:[ \t\r\f\v]|\\\n)+)
  | (?P<other>[A-Za-z0-9_']+|.)
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z0-9_]")
_QUOTES = "\"'"
_JOINING = "+-*/%<>=&|^!~:.#"


def is_known(
    kernel_tree: str,
    spec_hash: str,
    experiments: Iterable[Experiment],
    *,
    tier: Literal["screening", "full"] | None = None,
    normalized: str | None = None,
) -> Experiment | None:
    """The first experiment that already answers for this candidate, or None.

    It has the same kernel tree (or, when `normalized` is given, the same normalized hash) under the same spec hash, in `tier`
    if one is named, and was not lost. Pass the experiments that count: this campaign's, this device's.
    """
    for experiment in experiments:
        if experiment.spec_hash != spec_hash or experiment.verdict is Verdict.EVALUATION_LOST:
            continue
        if tier is not None and experiment.tier != tier:
            continue
        if experiment.kernel_tree == kernel_tree or (normalized and experiment.normalized == normalized):
            return experiment
    return None


def normalized_hash(candidate: Candidate) -> str:
    """A hash that two candidates share when they differ in comments and spacing only (SHA-256, hexadecimal).

    Sources are compared without comments and with spaces only where they separate words; `launch.yaml` by what it says.
    """
    parts: list[tuple[str, str]] = [("launch.yaml", json.dumps(candidate.manifest.model_dump(mode="json"), sort_keys=True))]
    parts += [(name, normalize(text.decode("utf-8", "replace"))) for name, text in sorted(candidate.files.items()) if name != "launch.yaml"]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def normalize(source: str) -> str:
    """C++ without comments, with spaces only where pieces would join without, and line ends only around preprocessor lines."""
    pieces: list[str] = []
    gap, directive, line_start = "", False, True
    for match in _PIECES.finditer(source.replace("\r\n", "\n")):
        kind, text = match.lastgroup, match.group()
        if kind in ("comment", "space"):
            gap = gap or " "
        elif kind == "newline":
            gap = "\n" if directive or gap == "\n" else " "
            directive, line_start = False, True
        else:
            if text == "#" and line_start:
                directive, gap = True, "\n"
            if pieces and (gap == "\n" or (gap and _needs_space(pieces[-1], text, directive))):
                pieces.append(gap)
            gap, line_start = "", False
            pieces.append(text)
    return "".join(pieces)


def _needs_space(before: str, after: str, directive: bool) -> bool:
    """Whether a space between two pieces may carry a meaning: the pieces would join without it (`a b`, `+ +`, `L "x"`).

    In a directive every space may: `#define F (x)` is not `#define F(x)`.
    """
    one, other = before[-1], after[0]
    words = bool(_WORD.match(one)), bool(_WORD.match(other))
    if any(words):
        return directive or all(words) or one in _QUOTES or other in _QUOTES
    return directive or (one in _JOINING and other in _JOINING)
