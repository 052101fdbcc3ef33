"""Splits C++ sources into tokens as the compiler's preprocessor does, for checks that read sources and never run them.

Line splices are undone first, comments vanish, digraphs become what they mean, and every token knows its place in the file.
What would need the compiler's finer rules (raw strings, trigraphs, escapes in names) is a fault, so that both can't disagree.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Kind = Literal["name", "number", "string", "character", "header", "punctuation"]


@dataclass(frozen=True)
class Token:
    """One token. `line` and `column` count from 1 in the file; `logical` numbers the lines after splicing, as directives see them."""

    kind: Kind
    text: str
    line: int
    column: int
    logical: int


@dataclass(frozen=True)
class Problem:
    """Something at a place that the lexer refuses."""

    line: int
    column: int
    message: str


def at(token: Token, message: str) -> Problem:
    """A problem at a token."""
    return Problem(token.line, token.column, message)


@dataclass(frozen=True)
class Lexed:
    """The tokens of a file and what is wrong with its text."""

    tokens: tuple[Token, ...]
    problems: tuple[Problem, ...]

    def lines(self) -> Iterator[tuple[Token, ...]]:
        """The tokens of each logical line that has any."""
        for _number, tokens in groupby(self.tokens, key=lambda token: token.logical):
            yield tuple(tokens)


DIGRAPHS = {"%:%:": "##", "%:": "#", "<:": "[", ":>": "]", "<%": "{", "%>": "}"}
INCLUDING = frozenset({"include", "include_next", "import", "embed"})
ASKING = frozenset({"__has_include", "__has_include_next", "__has_embed"})

_SPLICE = re.compile(r"\\\r?\n")
_TRIGRAPH = re.compile(r"\?\?[=/'()!<>-]")
_SPACED_SPLICE = re.compile(r"\\[ \t]+\r?$", re.MULTILINE)
_TOKEN = re.compile(
    r"""
    (?P<newline>\r?\n)
  | (?P<space>[ \t]+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>(?:u8|u|U|L)?R")
  | (?P<string>(?:u8|u|U|L)?"(?:[^"\\\n]|\\[^\n])*")
  | (?P<character>(?:u8|u|U|L)?'(?:[^'\\\n]|\\[^\n])*')
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'(?=[A-Za-z0-9_])|[A-Za-z0-9_.])*)
  | (?P<punctuation>%:%:|%:|<::(?![:>])|<:|:>|<%|%>|\#\#|::|->|[][(){}<>;:,.?~!+\-*/%&|^=\#])
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(r'<[^>\n]*>|"[^"\n]*"')


def lex(text: str) -> Lexed:
    """The tokens of a source file. Faults don't stop it, but for raw strings and endless comments, where the rest means nothing."""
    return _Lexer(text).run()


class _Lexer:
    def __init__(self, original: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", original))]
        # Where the spliced text continues in the original: positions in the one, and how far ahead the other is from there on.
        self._cuts = [0]
        self._ahead = [0]
        for match in _SPLICE.finditer(original):
            self._cuts.append(match.start() - self._ahead[-1])
            self._ahead.append(self._ahead[-1] + match.end() - match.start())
        self._text = _SPLICE.sub("", original)
        self._problems = [
            self._problem_at(match.start(), "a trigraph (`??` and a sign) is not allowed") for match in _TRIGRAPH.finditer(original)
        ]
        self._problems += [
            self._problem_at(match.start(), "spaces between a backslash and the line's end are not allowed")
            for match in _SPACED_SPLICE.finditer(original)
        ]
        self._tokens: list[Token] = []
        self._logical = 0

    def run(self) -> Lexed:
        position = 0
        while position < len(self._text):
            position = self._step(position)
        return Lexed(tuple(self._tokens), tuple(sorted(self._problems, key=lambda problem: (problem.line, problem.column))))

    def _step(self, position: int) -> int:
        """Take one token, and return where the next one starts."""
        if self._header_expected() and (header := _HEADER.match(self._text, position)):
            self._add("header", header.group(), position)
            return header.end()
        match = _TOKEN.match(self._text, position)
        if match is None or (match.lastgroup == "punctuation" and self._text.startswith("/*", position)):
            return self._odd(position)
        kind, text = match.lastgroup, match.group()
        if kind == "newline":
            self._logical += 1
        elif kind == "raw":
            self._refuse(position, "a raw string is not allowed; write an ordinary string")
            return len(self._text)
        elif kind == "punctuation":
            if text == "<::":  # a `<` before a global name, by the standard's exception to the digraph
                self._add("punctuation", "<", position)
                return position + 1
            self._add("punctuation", DIGRAPHS.get(text, text), position)
        elif kind in ("string", "character", "name", "number"):
            self._add(kind, text, position)  # type: ignore[arg-type]  # the group's name is one of the kinds
        return match.end()

    def _header_expected(self) -> bool:
        """Whether a `<` or `"` here starts the name of a header: after `#include` and its kin, and within `__has_include(`."""
        line = self._tokens[-2:]
        if len(line) < 2 or line[0].logical != self._logical:
            return False
        asked = line[0].text in ASKING and line[1].text == "("
        first = len(self._tokens) == 2 or self._tokens[-3].logical != self._logical
        return asked or (first and line[0].text == "#" and line[1].text in INCLUDING)

    def _odd(self, position: int) -> int:
        letter = self._text[position]
        if self._text.startswith("/*", position):
            self._refuse(position, "this comment has no end")
            return len(self._text)
        if letter in "\"'":
            self._refuse(position, "this text in quotes has no end on its line")
            end = self._text.find("\n", position)
            return end if end >= 0 else len(self._text)
        if letter == "\\":
            self._refuse(position, "a backslash outside quotes is not allowed: names are written in plain letters")
        elif letter == "$":
            self._refuse(position, "`$` is not allowed in names")
        else:
            self._refuse(position, f"the character U+{ord(letter):04X} is allowed in comments and quotes only")
        return position + 1

    def _add(self, kind: Kind, text: str, position: int) -> None:
        line, column = self._place(self._in_original(position))
        self._tokens.append(Token(kind, text, line, column, self._logical))

    def _refuse(self, position: int, message: str) -> None:
        self._problems.append(self._problem_at(self._in_original(position), message))

    def _in_original(self, position: int) -> int:
        return position + self._ahead[bisect_right(self._cuts, position) - 1]

    def _place(self, original: int) -> tuple[int, int]:
        line = bisect_right(self._starts, original)
        return line, original - self._starts[line - 1] + 1

    def _problem_at(self, original: int, message: str) -> Problem:
        return Problem(*self._place(original), message)
