"""Follows addresses through PTX: which variables may be written to, and which parameters' addresses go where they have no business.

It errs on one side only: an address counts as written through, or as misused, unless every use of it is known to be harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

_FUNCTION = re.compile(r"(?<![\w.])\.(entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$]+)")
_HEAD = re.compile(r"[\s{}]*(?:[\w$]+\s*:(?!:)[\s{}]*)*(?:@!?\s*[%\w$]+\s+)?[\s{}]*")
_OPERATION = re.compile(r"([a-z]\w*(?:\s*\.\s*[A-Za-z0-9]\w*(?:::\w+)*)*)\s*(.*)", re.S)
_BEGIN = re.compile(r"[^;{]*([;{])")
_WORD = re.compile(r"[%A-Za-z_$][\w$]*")
_PLACE = re.compile(r"\[\s*([\w$]+)\s*(?:\+\s*(-?\d+)\s*)?\]")
_WIDTH = re.compile(r"(?:\.v(\d))?\.[a-z](\d+)$")
_INITIAL = re.compile(r"(?<![\w.])\.(?:global|const)\b[^;=]*=([^;]*);")
_READS = re.compile(r"(?:ld|ldu|prefetch|prefetchu)\b")
_MOVES = re.compile(r"(?:mov|cvta|selp)\b")
_CHOOSES = re.compile(r"(?:mov|selp)\.b?u?64$")
_POLICIES = (0x1000000000000000, 0x12F0000000000000)  # evict_normal and evict_first, as the toolkit's libraries write them
_COMPUTES = re.compile(r"(?:mov|cvta|selp|add|sub|mad|mul|shl|shr|cvt|and|or|xor|min|max|setp|fma|bfi|bfe|prmt|lop3|slct)\b")
_TAKES_MAP = re.compile(
    r"cp\.(?:reduce\.)?async\.bulk\.(?:prefetch\.)?tensor\b|prefetch(?:\.param)?\.tensormap\b|fence\.proxy\.tensormap\b"
)


@dataclass(frozen=True)
class Instruction:
    """An operation, such as `ld.global.u32`, and its operands in order."""

    operation: str
    operands: tuple[str, ...]

    @cached_property
    def first(self) -> frozenset[str]:
        """Registers and names in the first operand: what most operations write to."""
        return frozenset(word for operand in self.operands[:1] for word in _WORD.findall(operand))

    @cached_property
    def others(self) -> frozenset[str]:
        """Registers and names in the other operands."""
        return frozenset(word for operand in self.operands[1:] for word in _WORD.findall(operand))

    @cached_property
    def words(self) -> frozenset[str]:
        """Registers and names in all operands."""
        return self.first | self.others


@dataclass(frozen=True)
class Function:
    """A kernel or function: its name and instructions. A prototype is not `defined`; `nested` is one that is announced within another."""

    name: str
    instructions: tuple[Instruction, ...]
    defined: bool
    nested: bool


def functions(plain: str) -> list[Function]:
    """The functions of a module without comments. What stands before the first holds declarations only."""
    heads = list(_FUNCTION.finditer(plain))
    ends = [*(head.start() for head in heads), len(plain)][1:]
    found, depth, last = [], 0, 0
    for head, end in zip(heads, ends, strict=True):
        depth += plain.count("{", last, head.start()) - plain.count("}", last, head.start())
        last = head.start()
        begin = _BEGIN.match(plain, head.end(), end)
        instructions = tuple(_instructions(plain[begin.end() : end])) if begin is not None else ()
        found.append(Function(head[2], instructions, begin is not None and begin[1] == "{", depth != 0))
    return found


def _instructions(body: str) -> Iterator[Instruction]:
    for piece in body.split(";"):
        head = _HEAD.match(piece)
        found = _OPERATION.match(piece, head.end() if head else 0)
        if found is not None:
            yield Instruction(re.sub(r"\s+", "", found[1]), tuple(_split(found[2])))


def _split(text: str) -> Iterator[str]:
    """Operands: at commas outside of brackets."""
    depth, begun = 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            yield text[begun:index].strip()
            begun = index + 1
    if text[begun:].strip():
        yield text[begun:].strip()


def called_elsewhere(bodies: Collection[Function]) -> list[str]:
    """What is called and not defined in the module, or not by its name."""
    defined = {body.name for body in bodies if body.defined}
    targets = [
        next((operand for operand in one.operands if not operand.startswith("(")), "")
        for body in bodies
        for one in body.instructions
        if one.operation.startswith("call")
    ]
    return list(dict.fromkeys(target for target in targets if target not in defined))


def function_addresses(bodies: Collection[Function], plain: str) -> list[str]:
    """The functions and kernels whose address is taken: code lies in memory, where it could be read or changed."""
    names = {body.name for body in bodies}
    held = {word for initial in _INITIAL.findall(plain) for word in _WORD.findall(initial)}
    used = {word for body in bodies for one in body.instructions if not one.operation.startswith("call") for word in one.words}
    return sorted(names & (held | used))


def lines_kept(body: Function) -> list[str]:
    """Operations that ask the second-level cache to keep lines, or that may do so because it is not seen what they ask."""
    made: dict[str, list[Instruction]] = {}
    for one in body.instructions:
        if not one.operands[0:1] or one.operands[0].startswith("["):
            continue
        for word in one.first:
            made.setdefault(word, []).append(one)

    def harmless(policy: str, seen: frozenset[str]) -> bool:
        if policy in seen:
            return True
        if re.fullmatch(r"0x[0-9a-fA-F]+U?|\d+U?", policy):
            return int(policy.rstrip("U"), 0) in _POLICIES
        return policy in made and all(
            one.operation.startswith(("createpolicy.fractional", "createpolicy.range"))
            or (_CHOOSES.match(one.operation) is not None and all(harmless(other, seen | {policy}) for other in one.operands[1:3]))
            for one in made[policy]
        )

    return [
        one.operation
        for one in body.instructions
        if "L2::evict_last" in one.operation
        or one.operation.startswith("createpolicy.cvt")
        or ("L2::cache_hint" in one.operation and not harmless(one.operands[-1] if one.operands else "", frozenset()))
    ]


def written(bodies: Collection[Function], plain: str, variables: Collection[str]) -> set[str]:
    """Those of the variables that may be written to: all whose address is used for more than loads."""
    held = {word for initial in _INITIAL.findall(plain) for word in _WORD.findall(initial)}
    used = {word for body in bodies for one in body.instructions for word in one.words}
    found = held & set(variables)
    for name in (used & set(variables)) - held:
        if any(_misused(body, {name}, _COMPUTES, _harmless_read) for body in bodies):
            found.add(name)
    return found


def _harmless_read(one: Instruction, tainted: Collection[str]) -> bool:
    return _READS.match(one.operation) is not None


def addresses_taken(body: Function, parameters: Mapping[str, int]) -> list[str]:
    """The parameters whose address is used for anything but a tensor map's instructions, or that are read beyond their size."""

    def harmless(one: Instruction, tainted: Collection[str]) -> bool:
        if _TAKES_MAP.match(one.operation):
            return True
        if not one.operation.startswith("ld.param") or len(one.operands) != 2:
            return False
        place, width = _PLACE.fullmatch(one.operands[1]), _WIDTH.search(one.operation)
        if place is None or width is None or place[1] not in parameters:
            return False
        offset = int(place[2] or 0)
        return 0 <= offset <= parameters[place[1]] - int(width[1] or 1) * int(width[2]) // 8

    return [name for name in parameters if _misused(body, {name}, _MOVES, harmless)]


def _misused(body: Function, tainted: set[str], moves: re.Pattern[str], harmless: Callable[[Instruction, Collection[str]], bool]) -> bool:
    """Whether an address that these names stand for reaches an instruction that is not known to be harmless."""
    size = -1
    while len(tainted) != size:
        size = len(tainted)
        for one in body.instructions:
            if one.words.isdisjoint(tainted):
                continue
            if moves.match(one.operation):
                if not one.others.isdisjoint(tainted):
                    tainted |= one.first
            elif not harmless(one, tainted):
                return True
    return False
