"""Checks what sources declare: attributes, C linkage, operators that everything shares; and finds the names that are their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import overload

from runner.targets.cpu import words
from runner.targets.cpu.cpp_lexer import Problem, Token, at

MAX_PROBLEMS = 50

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NOT_TYPES = frozenset(
    {"return", "else", "do", "throw", "case", "co_return", "co_yield", "co_await", "new", "delete", "goto", "sizeof", "and", "or", "not"}
)
_AFTER_PARAMETERS = frozenset({"const", "noexcept", "final", "override", "mutable", "requires"})
_NOT_FUNCTIONS = frozenset({"__attribute__", "__attribute", "noexcept", "alignas", "decltype"})


class Code(Sequence[Token]):
    """A run of tokens in which the partner of each bracket is known, found once: sources may be hostile and large."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._closing: dict[int, int] = {}
        open_brackets: dict[str, list[int]] = {")": [], "]": [], "}": []}
        for index, token in enumerate(tokens):
            if token.kind == "punctuation":
                if token.text in _CLOSING:
                    open_brackets[_CLOSING[token.text]].append(index)
                elif open_brackets.get(token.text):
                    self._closing[open_brackets[token.text].pop()] = index

    def __len__(self) -> int:
        return len(self._tokens)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        return self._tokens[index]

    def closing(self, opening: int) -> int:
        """The index of the bracket that closes the one at `opening`; the number of tokens where none does."""
        return self._closing.get(opening, len(self))


def texts(tokens: Sequence[Token], start: int, count: int) -> list[str]:
    """The texts of `count` tokens from `start`, fewer at the end."""
    return [token.text for token in tokens[start : start + count]]


def check_attributes(tokens: Code, fast_math: bool) -> tuple[set[int], list[Problem]]:
    """The indices of the names that are attributes, and the attributes that are not allowed."""
    names: set[int] = set()
    problems: list[Problem] = []
    allowed = words.ATTRIBUTES | ({words.OPTIMIZE_ATTRIBUTE} if fast_math else set())
    for index, token in enumerate(tokens):
        if token.text in ("__attribute__", "__attribute"):
            if texts(tokens, index + 1, 2) != ["(", "("]:
                problems.append(at(token, "write attributes as `__attribute__((name))`"))
                continue
            start, end = index + 3, tokens.closing(index + 2)
        elif texts(tokens, index, 2) == ["[", "["] and token.kind == "punctuation":
            start, end = index + 2, tokens.closing(index + 1)
            if texts(tokens, start, 1) == ["using"]:
                names.update(range(start, start + 3))
                start += 3
        else:
            continue
        _check_list(tokens, start, end, allowed, names, problems)
        if len(problems) >= MAX_PROBLEMS:
            break  # the source is refused; more of the same helps nobody
    return names, problems


def _check_list(tokens: Code, start: int, end: int, allowed: Collection[str], names: set[int], problems: list[Problem]) -> None:
    """Read `name, name(arguments), vendor::name …` strictly: whatever else stands there is refused."""
    index = start
    while index < end:
        if tokens[index].text == ",":
            index += 1
            continue
        if texts(tokens, index + 1, 1) == ["::"]:
            names.add(index)
            index += 2
        name = tokens[min(index, len(tokens) - 1)]
        plain = name.text.removeprefix("__").removesuffix("__")
        if name.kind != "name" or plain not in allowed:
            problems.append(at(name, f"the attribute `{name.text}` is not allowed; allowed: {', '.join(sorted(allowed))}"))
            return
        names.add(index)
        index += 1
        if texts(tokens, index, 1) == ["("]:
            index = tokens.closing(index) + 1
        if index < end and tokens[index].text != ",":
            problems.append(at(tokens[index], "attributes are separated by commas"))
            return


def check_linkage(tokens: Code, functions: Collection[str]) -> Iterator[Problem]:
    """`extern` appears only as `extern "C"` of the functions that launch.yaml calls: else it could name anything in the process."""
    for index, token in enumerate(tokens):
        if token.text != "extern" or token.kind != "name":
            continue
        following = tokens[index + 1] if index + 1 < len(tokens) else token
        if following.text == "template":
            continue
        wanted = ", ".join(functions)
        if following.text != '"C"':
            yield at(token, f'`extern` is not allowed here; allowed: `extern "C"` before the functions of launch.yaml ({wanted})')
            continue
        yield from _check_c_linkage(tokens, index + 2, functions, wanted)


def _check_c_linkage(tokens: Code, start: int, functions: Collection[str], wanted: str) -> Iterator[Problem]:
    block = texts(tokens, start, 1) == ["{"]
    end = tokens.closing(start) if block else len(tokens)
    index = start + 1 if block else start
    named = False
    while index < end:
        token = tokens[index]
        if token.text == "(":
            before = tokens[index - 1]
            if before.text in functions:
                named = True
            elif before.text not in _NOT_FUNCTIONS:
                yield at(before, f'only the functions of launch.yaml ({wanted}) have `extern "C"`, and are written as `void name(…)`')
                return
            index = tokens.closing(index) + 1
        elif token.text == "{" or (token.text == ";" and not block):
            if not block:
                break
            index = tokens.closing(index) + 1
        elif token.text in ("namespace", "extern"):
            yield at(token, f'`extern "C"` holds functions, no `{token.text}`')
            return
        else:
            index += 1
    if not named:
        yield at(tokens[start - 1], f'`extern "C"` comes before the functions of launch.yaml ({wanted}) only')


def check_operators(tokens: Sequence[Token]) -> Iterator[Problem]:
    """Memory operators that would replace those of the whole process."""
    for index, token in enumerate(tokens):
        if token.text == "operator" and texts(tokens, index + 1, 1) in (["new"], ["delete"]):
            yield at(token, "`operator new` and `operator delete` can't be replaced; use std::vector, new or aligned_alloc for memory")


def own_names(tokens: Code) -> set[str]:
    """The ordinary words that sources define as functions, macros, variables or parameters of their own."""
    found = set()
    for index, token in enumerate(tokens):
        if token.text not in words.ORDINARY or index == 0 or not _may_end_type(tokens[index - 1]):
            continue
        following = texts(tokens, index + 1, 1)
        if following == ["("]:
            after = tokens.closing(index + 1) + 1
            while texts(tokens, after, 1) and tokens[after].text in _AFTER_PARAMETERS:
                after += 1
            if texts(tokens, after, 1) in (["{"], ["->"]):
                found.add(token.text)
        elif following and following[0] in ("=", "{", ",", ")", ";"):
            found.add(token.text)
    return found


def _may_end_type(token: Token) -> bool:
    return (token.kind == "name" and token.text not in _NOT_TYPES) or token.text in (">", "*", "&")
