"""Reads the PTX that the compiler made of a candidate: kernels with their parameters, globals, and what no kernel may do.

The source may hide a word behind macros and templates; here everything has been spelled out, so this is where the rules are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(?:\s+\.ptr(?:\s+\.\w+)?(?:\s+\.align\s+\d+)?)?\s+[\w$]+(?:\[(\d+)\])?")
_GLOBAL = re.compile(
    r"^\s*(?:\.visible\s+|\.weak\s+)?\.global\s+(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+\d+\s+)?"
    r"\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?",
    re.M,
)
_EXTERN = re.compile(r"\.extern\s+\.func\s+(?:\([^)]*\)\s*)?([\w$]+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LIBRARY = ("_ZN4cuda", "_ZN3cub", "_ZN17cooperative_groups", "_ZN6thrust", "_ZN41_INTERNAL")
_REFUSED = (
    (re.compile(r"%(?:clock\w*|globaltimer\w*|pm\d\w*)"), "reads a clock or a counter ({}): a kernel does not see how it is timed"),
    (re.compile(r"^\s*\.(?:file|include|section)\b", re.M), "has the directive {}: a kernel reads no files"),
)
_FUNCTIONS = {
    "malloc": "device memory is what launch.yaml gives as scratch",
    "free": "device memory is what launch.yaml gives as scratch",
    "vprintf": "a kernel prints nothing",
    "__assertfail": "a kernel prints nothing; `__trap()` ends it",
    "cudaGetParameterBufferV2": "a kernel launches nothing; launch.yaml does",
    "cudaLaunchDeviceV2": "a kernel launches nothing; launch.yaml does",
}
_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4}


@dataclass(frozen=True)
class Read:
    """`kernels` are the sizes of each entry's parameters in bytes; `variables` the candidate's own global memory by name with its size;
    `faults` what it may not do, as messages."""

    kernels: dict[str, tuple[int, ...]]
    variables: dict[str, int]
    faults: tuple[str, ...]


def read_ptx(text: str) -> Read:
    """Everything that is looked for in a module's PTX."""
    plain = _STRING.sub('""', _COMMENT.sub(" ", text))
    kernels = {
        name: tuple(_size(kind, count) for kind, count in _PARAMETER.findall(arguments)) for name, arguments in _ENTRY.findall(plain)
    }
    variables = {name: _size(kind, count) for kind, name, count in _GLOBAL.findall(plain) if not name.startswith(_LIBRARY)}
    return Read(kernels, variables, tuple(dict.fromkeys(_faults(plain))))


def _size(kind: str, count: str) -> int:
    return _BYTES.get(kind, 8) * (int(count) if count else 1)


def _faults(plain: str) -> Iterator[str]:
    for pattern, message in _REFUSED:
        for found in pattern.findall(plain):
            yield "the compiled kernel " + message.format(f"`{found.strip()}`")
    for name in _EXTERN.findall(plain):
        yield f"the compiled kernel calls `{name}`: {_FUNCTIONS.get(name, 'nothing outside a kernel can be called')}"
