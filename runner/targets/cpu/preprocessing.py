"""Checks preprocessor lines: what may be included, defined and asked of the compiler."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from runner.targets.cpu import words
from runner.targets.cpu.cpp_lexer import ASKING, Problem, Token, at, lex

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_OPTION = re.compile(r'"[A-Za-z0-9_.,=+ -]*"')
ALLOWED_PRAGMAS = ", ".join(" ".join(words_) for words_ in words.PRAGMAS)


def is_directive(line: Sequence[Token]) -> bool:
    """Whether a logical line is for the preprocessor."""
    return line[0].kind == "punctuation" and line[0].text == "#"


def check_directive(line: Sequence[Token], own_files: Collection[str], functions: Collection[str], fast_math: bool) -> Iterator[Problem]:
    """What a preprocessor line does that is not allowed. Names in it are checked elsewhere, with all others."""
    if len(line) == 1:
        return  # `#` alone does nothing
    word = line[1]
    if word.text not in words.DIRECTIVES:
        allowed = ", ".join(sorted(words.DIRECTIVES))
        yield at(word, f"`#{word.text}` is not allowed; allowed: {allowed}")
    elif word.text == "include":
        yield from _check_include(line, own_files)
    elif word.text == "pragma":
        yield from check_pragma(line[2:], word, fast_math)
    elif word.text in ("define", "undef"):
        yield from _check_define(line, functions)
    yield from _check_asking(line, own_files)


def macro_body(line: Sequence[Token]) -> Sequence[Token]:
    """What a `#define` replaces its name with; parameters count to it where there are any."""
    return line[3:]


def _check_include(line: Sequence[Token], own_files: Collection[str]) -> Iterator[Problem]:
    if len(line) < 3 or line[2].kind != "header":
        yield at(line[-1], '`#include` takes a header\'s name as it is: `<header>` or `"file.hpp"`, not a macro')
        return
    problem = _header_problem(line[2].text, own_files)
    if problem:
        yield at(line[2], problem)
    if len(line) > 3:
        yield at(line[3], "nothing may follow a header's name")


def _header_problem(header: str, own_files: Collection[str]) -> str:
    name = header[1:-1]
    if header.startswith("<"):
        return "" if name in words.HEADERS else f"the header `{header}` is not allowed; allowed: {', '.join(sorted(words.HEADERS))}"
    if name in own_files:
        return ""
    there = ", ".join(f'"{file}"' for file in sorted(own_files)) or "none"
    return f"{header} is not a file of this kernel; allowed: {there}, or a standard header as `<header>`"


def _check_asking(line: Sequence[Token], own_files: Collection[str]) -> Iterator[Problem]:
    """`__has_include` tells whether a file is there, so it may ask only for what could be included."""
    for index, token in enumerate(line):
        if token.text not in ASKING:
            continue
        following = line[index + 1 : index + 4]
        if token.text != "__has_include" or len(following) < 3 or following[1].kind != "header" or following[2].text != ")":
            yield at(token, f"`{token.text}` is not allowed in this form; allowed: `__has_include(<header>)`")
        elif problem := _header_problem(following[1].text, own_files):
            yield at(following[1], problem)


def _check_define(line: Sequence[Token], functions: Collection[str]) -> Iterator[Problem]:
    if len(line) < 3:
        return
    name = line[2]
    problem = macro_name_problem(name.text, functions)
    if problem:
        yield at(name, problem)
    body = line[3:]
    pasted = next((token for token in body if token.text == "##"), None)
    if pasted:
        yield at(pasted, "token pasting (`##`) is not allowed: names must stand in the source as they are; use templates or constexpr")
    yield from _check_balance(body)
    yield from _check_parameters(line)


def macro_name_problem(name: str, functions: Collection[str]) -> str:
    """Why a macro must not have this name; empty when it may."""
    if words.is_reserved(name):
        return f"`{name}` is the compiler's name: it begins with __, or with _ and a capital; choose another for a macro"
    if name in words.KEYWORDS or name in words.ATTRIBUTES or name in words.REFUSED or name == words.OPTIMIZE_ATTRIBUTE:
        return f"`{name}` is a word of the language or of its libraries; a macro must not change what it means"
    if name in functions:
        return f"`{name}` is a function that launch.yaml calls; a macro must not change what it means"
    return ""


def _check_balance(body: Sequence[Token]) -> Iterator[Problem]:
    """Half of a pair of brackets in a macro would make sources read otherwise than they compile."""
    open_brackets: list[Token] = []
    for token in body:
        if token.kind != "punctuation":
            continue
        if token.text in _PAIRS:
            open_brackets.append(token)
        elif token.text in _PAIRS.values() and (not open_brackets or _PAIRS[open_brackets.pop().text] != token.text):
            yield at(token, f"`{token.text}` has no partner in this macro; brackets in a macro come in pairs")
            return
    if open_brackets:
        yield at(open_brackets[0], f"`{open_brackets[0].text}` has no partner in this macro; brackets in a macro come in pairs")


def _check_parameters(line: Sequence[Token]) -> Iterator[Problem]:
    """A macro's parameters must not stand in for the names of attributes in its body."""
    texts = [token.text for token in line[3:]]
    attributes = "__attribute__" in texts or "__attribute" in texts or any(texts[i : i + 2] == ["[", "["] for i in range(len(texts)))
    if not attributes or not texts or texts[0] != "(" or ")" not in texts:
        return
    for token in line[4 : 3 + texts.index(")")]:
        if token.text in words.ATTRIBUTES or token.text == words.OPTIMIZE_ATTRIBUTE:
            yield at(token, f"a macro's parameter must not be called `{token.text}`, the name of an attribute")


def check_pragma(tokens: Sequence[Token], place: Token, fast_math: bool) -> Iterator[Problem]:
    """What a pragma does that is not allowed; `place` is where the message stands when the pragma is empty."""
    texts = tuple(token.text for token in tokens)
    optimize = texts[:2] == words.OPTIMIZE_PRAGMA
    if optimize and not fast_math:
        yield at(tokens[0], "`#pragma GCC optimize` is not allowed: the spec's policy does not allow fast math, which it can switch on")
    elif not optimize and not any(texts[: len(allowed)] == allowed for allowed in words.PRAGMAS):
        yield at(tokens[0] if tokens else place, f"this pragma is not allowed; allowed: {ALLOWED_PRAGMAS}")
    elif texts[:1] == ("GCC",):
        for token in tokens[2:]:
            if token.kind == "string" and not _OPTION.fullmatch(token.text):
                yield at(token, "only letters, digits and . , = + - _ are allowed in a pragma's option")


def check_pragma_operators(tokens: Sequence[Token], fast_math: bool) -> Iterator[Problem]:
    """`_Pragma("…")` takes one plain string, which is checked like a `#pragma`."""
    for index, token in enumerate(tokens):
        if token.text != "_Pragma":
            continue
        following = tokens[index + 1 : index + 4]
        if [item.text for item in following[::2]] != ["(", ")"] or following[1].kind != "string" or not following[1].text.startswith('"'):
            yield at(token, '`_Pragma` takes one string as it is: `_Pragma("omp simd")`')
            continue
        inner = lex(re.sub(r'\\(["\\])', r"\1", following[1].text[1:-1]))
        if inner.problems:
            yield at(following[1], inner.problems[0].message)
        yield from (at(following[1], problem.message) for problem in check_pragma(inner.tokens, following[1], fast_math))
