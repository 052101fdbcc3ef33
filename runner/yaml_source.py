"""Reads YAML that a person or a model wrote into plain data, and remembers where every key and value stands.

The dialect is YAML 1.2's core schema (`no` is text, `1e-6` is a number) without anchors, aliases, tags, merge keys and further
documents: nothing in it can refer to itself or grow. Size, depth and the number of values are bounded while it is read.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.events import AliasEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from runner.errors import Fault, FaultsError

Path = tuple[str | int, ...]
Place = tuple[int, int]
Span = tuple[int, int]

MAX_BYTES = 1_000_000
MAX_DEPTH = 24
MAX_VALUES = 10_000
MAX_DIGITS = 30
KEPT = 64  # sources that were read last

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True)
class Source:
    """A YAML file as plain data (dict, list, str, int, float, bool, None) with the places and extents of its parts.

    `keys` and `values` map the path of a part to its line and column, `spans` to its first and one-past-last character in `text`.
    `faults` are those that left data behind, such as a duplicate key, of which the first counts.
    """

    file: str
    text: str
    data: Any
    keys: Mapping[Path, Place]
    values: Mapping[Path, Place]
    spans: Mapping[Path, Span]
    blocks: frozenset[Path]
    faults: tuple[Fault, ...]

    def fault(self, path: Path, message: str, *, key: bool = False) -> Fault:
        """A fault at the value at `path` (or at its key); where that is not in the file, at the nearest part around it."""
        while True:
            place = (self.keys.get(path) if key else None) or self.values.get(path)
            if place is not None:
                return Fault(self.file, *place, message)
            if not path:
                return Fault(self.file, 1, 1, message)
            path = path[:-1]


@lru_cache(maxsize=KEPT)
def read_yaml(data: bytes, file: str) -> Source:
    """Read one YAML document. Raises `FaultsError` where no data can be had at all; `file` is how faults name the file.

    What was read last is kept, since a search reads one manifest for each of its points: nobody may change what is returned.
    """
    text = _decode(data, file)
    faults: list[Fault] = []
    try:
        root = _Loader(text, file, faults).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise FaultsError([*faults, Fault(file, line, column, _syntax_message(error))]) from None
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position)
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML; allowed: printable text"
        raise FaultsError([Fault(file, line, column, message)]) from None
    except _TooLarge as error:
        raise FaultsError([error.fault]) from None
    if root is None:
        raise FaultsError([Fault(file, 1, 1, "the file is empty; a mapping (key: value) is expected")])
    walk = _Walk(file, faults)
    plain = walk.visit(root, ())
    return Source(file, text, plain, walk.keys, walk.values, walk.spans, frozenset(walk.blocks), tuple(walk.faults))


def _decode(data: bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise FaultsError([Fault(file, 1, 1, f"the file has {len(data)} bytes; at most {MAX_BYTES} are allowed")])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _line_and_column(data[: error.start].decode("utf-8"), error.start)
        raise FaultsError([Fault(file, line, column, "the file is not UTF-8 text; save it in UTF-8")]) from None


def _line_and_column(text: str, index: int) -> Place:
    before = text[:index]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or "not YAML").strip()
    if "'\\t'" in problem:
        return "a tab can't start a token; indent with spaces"
    if "but found another document" in problem:
        return "a second document starts here; one document is allowed"
    context = f" {error.context}" if error.context else ""
    return f"not valid YAML: {problem}{context}"


class _TooLarge(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's composer with tags, anchors and aliases refused and the depth bounded. Values are resolved in the walk."""

    def __init__(self, text: str, file: str, faults: list[Fault]) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.file = file
        self.faults = faults
        self.depth = 0
        self.count = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's stubs leave the parser untyped
        self._refuse(event)
        if isinstance(event, AliasEvent):
            alias: Any = self.get_event()  # type: ignore[no-untyped-call]  # as above
            return ScalarNode("", "", alias.start_mark, alias.end_mark, style=None)
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH:
            raise _TooLarge(self._fault(event, f"nested more than {MAX_DEPTH} deep; at most {MAX_DEPTH} levels are allowed"))
        if self.count > MAX_VALUES:
            raise _TooLarge(self._fault(event, f"more than {MAX_VALUES} keys and values; at most {MAX_VALUES} are allowed"))
        event.anchor = None
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _refuse(self, event: Any) -> None:
        if isinstance(event, AliasEvent):
            self.faults.append(self._fault(event, f"the alias `*{event.anchor}` is not allowed; write the value out"))
            return
        if event.anchor is not None:
            self.faults.append(self._fault(event, f"the anchor `&{event.anchor}` is not allowed; write values out where they are used"))
        if event.tag is not None:
            self.faults.append(self._fault(event, "a tag (`!…`) is not allowed; put text in quotes, write other values plainly"))

    def _fault(self, event: Any, message: str) -> Fault:
        return Fault(self.file, event.start_mark.line + 1, event.start_mark.column + 1, message)


class _Walk:
    """Turns the node graph into plain data and fills the maps of places."""

    def __init__(self, file: str, faults: list[Fault]) -> None:
        self.file = file
        self.keys: dict[Path, Place] = {}
        self.values: dict[Path, Place] = {}
        self.spans: dict[Path, Span] = {}
        self.blocks: set[Path] = set()
        self.faults = faults

    def visit(self, node: Any, path: Path) -> Any:
        self.values[path] = _place(node)
        if isinstance(node, ScalarNode):
            self.spans[path] = (node.start_mark.index, node.end_mark.index)
            return self._scalar(node)
        if not node.flow_style:
            self.blocks.add(path)
        if isinstance(node, SequenceNode):
            value: Any = [self.visit(item, (*path, index)) for index, item in enumerate(node.value)]
            children = [(*path, index) for index in range(len(node.value))]
        else:
            value = dict(self._entries(node, path))
            children = [(*path, key) for key in value]
        # PyYAML ends a block collection where the next token starts; it really ends with its last child.
        end = node.end_mark.index if node.flow_style else max((self.spans[child][1] for child in children), default=node.end_mark.index)
        self.spans[path] = (node.start_mark.index, end)
        return value

    def _entries(self, node: MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is None:
                continue
            if key in seen:
                self._refuse(key_node, f"the key `{key}` is here a second time (first in line {seen[key]}); a key may stand once")
                continue
            seen[key] = key_node.start_mark.line + 1
            here = (*path, key)
            self.keys[here] = _place(key_node)
            value = self.visit(value_node, here)
            if value is None and value_node.start_mark.index == value_node.end_mark.index:
                self.values[here] = self.keys[here]  # an empty value has no place of its own
            yield key, value

    def _key(self, node: Node) -> str | None:
        if not isinstance(node, ScalarNode):
            self._refuse(node, "a key must be text, not a list or a mapping")
            return None
        value = self._scalar(node)
        if not isinstance(value, str):
            self._refuse(node, f"a key must be text; put `{node.value}` in quotes if it is meant as text")
            return None
        return value

    def _scalar(self, node: ScalarNode) -> Any:
        odd = next((letter for letter in node.value if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t"), None)
        if odd is not None:  # written as an escape within quotes
            self._refuse(node, f"the character U+{ord(odd):04X} is not allowed in text; allowed: printable text")
            return None
        if node.style is not None:
            return node.value
        try:
            return plain_value(node.value)
        except ValueError as error:
            self._refuse(node, str(error))
            return None

    def _refuse(self, node: Node, message: str) -> None:
        self.faults.append(Fault(self.file, *_place(node), message))


def plain_value(text: str) -> Any:
    """What text without quotes means. Raises `ValueError`, with a message for people, where that would surprise."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number has at most {MAX_DIGITS} characters")
        if text[:2] in ("0o", "0x"):
            return int(text, 0)
        if _LEADING_ZERO.fullmatch(text):
            raise ValueError(f"`{text}` could be octal or decimal; write it without leading zeros, or as 0o…, or in quotes")
        if _INT.fullmatch(text):
            return int(text)
        if math.isinf(float(text)):
            raise ValueError(f"the number `{text}` is too large; at most 1.7e308 is allowed")
        return float(text)
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _place(node: Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def describe(value: Any) -> str:
    """A value as a message shows it, short, in the words of YAML."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    text = " ".join(str(value).split())
    kind = "the text " if isinstance(value, str) else ""
    return f"{kind}`{text if len(text) <= 40 else text[:39] + '…'}`"
