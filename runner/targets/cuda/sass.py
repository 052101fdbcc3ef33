"""Counts what a disassembly shows: the instructions by which a kernel's speed is judged before it runs."""

from __future__ import annotations

import re

_CLASSES = {
    "wgmma": r"\bHGMMA|\bQGMMA|\bIGMMA",
    "mma": r"\bHMMA|\bQMMA|\bIMMA",
    "bulk_copies": r"\bUBLKCP|\bUTMALDG|\bUTMASTG|\bUBLKRED",
    "async_copies": r"\bLDGSTS",
    "global_loads": r"\bLDG\b",
    "global_loads_16_bytes": r"\bLDG\.E(?:\.\w+)*\.128",
    "global_stores": r"\bSTG\b",
    "global_stores_16_bytes": r"\bSTG\.E(?:\.\w+)*\.128",
    "shared_loads": r"\bLDS\b|\bLDSM\b",
    "local_loads": r"\bLDL\b",
    "local_stores": r"\bSTL\b",
    "atomics": r"\bATOM|\bRED\b|\bATOMS",
    "shuffles": r"\bSHFL\b",
    "barriers": r"\bBAR\b|\bSYNCS\b",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _CLASSES.items()}
_FUNCTION = re.compile(r"^\.text\.([\w$.]+):", re.M)


def count(text: str) -> dict[str, dict[str, int]]:
    """By kernel, how often each class stands in its code; classes that don't occur are left out."""
    pieces = _FUNCTION.split(text)
    return {
        name: {kind: found for kind, pattern in _PATTERNS.items() if (found := len(pattern.findall(code)))}
        for name, code in zip(pieces[1::2], pieces[2::2], strict=True)
    }
