"""Reads the PTX that the compiler made of a candidate: kernels with their parameters, globals, and what no kernel may do.

The source may hide a word behind macros and templates; here everything has been spelled out, so this is where the rules are kept. What
can't be read with certainty is refused: text that this module and the assembler might take apart differently hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from runner.targets.cuda.ptx_flow import Function, addresses_taken, called_elsewhere, function_addresses, functions, lines_kept, written

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(?:\s+\.ptr(?:\s+\.(?:global|const|local|shared))?(?:\s+\.align\s+\d+)?)?"
    r"\s+([\w$]+)(?:\[(\d+)\])?"
)
_SPACE = re.compile(r"(?<![\w.])\.(?:global|const)\b")
_VARIABLE = re.compile(r"\.(?:global|const)\s+(?:\.align\s+\d+\s+)?(?:\.v([248])\s+)?\.([a-z]\d+)\s+([\w$]+)\s*((?:\[\d+\]\s*)*)(?=[=;])")
_EXTERN = re.compile(r"\.extern\s+\.func\s+(?:\([^)]*\)\s*)?([\w$]+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PRAGMA = re.compile(r'//[^\n]*|/\*.*?\*/|\.pragma\s+"(?:nounroll|enable_smem_spilling|used_bytes_mask\s+\w+)"\s*;', re.S)
_CONTROL = re.compile(r"[^\n\t\x20-\x7e]")
_REGISTER = re.compile(r"%[A-Za-z_$][\w$]*")
_DECLARED = re.compile(r"\.reg\s+(?:\.v[248]\s+)?\.\w+\s+([^;]*);")
_ALLOWED = frozenset(
    f"%{name}"
    for name in (
        *("tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid"),
        *("is_explicit_cluster", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank"),
        *("lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"),
        *("total_smem_size", "dynamic_smem_size", "aggr_smem_size", "reserved_smem_offset_begin", "reserved_smem_offset_end"),
        *("reserved_smem_offset_cap", "reserved_smem_offset_0", "reserved_smem_offset_1"),
        *("envreg1", "envreg2"),  # where a cooperative launch keeps its barrier
    )
)
_CLOCK = re.compile(r"%(?:clock|globaltimer|pm\d)")
_DIRECTIVE = re.compile(r"(?<![\w.])\.(?:file|include|incbin|section|loc|pragma)\b|@@\w+")
_INSTRUCTION = re.compile(r"(?<![\w.%$])(?:brkpt|pmevent(?:\.mask)?)(?=[\s;])")
_FUNCTIONS = {
    "malloc": "device memory is what launch.yaml gives as scratch",
    "free": "device memory is what launch.yaml gives as scratch",
    "vprintf": "a kernel prints nothing",
    "__assertfail": "a kernel prints nothing; `__trap()` ends it",
    "cudaGetParameterBufferV2": "a kernel launches nothing; launch.yaml does",
    "cudaLaunchDeviceV2": "a kernel launches nothing; launch.yaml does",
}
MAX_VARIABLES = 64 << 20
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@dataclass(frozen=True)
class Read:
    """`kernels` are the sizes of each entry's parameters in bytes; `variables` the global and constant memory that the module may write
    to, by name, with its size; `faults` what it may not do, as messages."""

    kernels: dict[str, tuple[int, ...]]
    variables: dict[str, int]
    faults: tuple[str, ...]


def read_ptx(text: str) -> Read:
    """Everything that is looked for in a module's PTX."""
    # One pass over comments and pragmas: a comment's sign within text, or the reverse, would hide what lies between.
    plain = _PRAGMA.sub(" ", text)
    parameters = {
        name: {one: _size(kind, count) for kind, one, count in _PARAMETER.findall(arguments)} for name, arguments in _ENTRY.findall(plain)
    }
    declared, faults = _variables(plain)
    if _CONTROL.search(text):
        faults.append("the compiled kernel has characters that can't be seen")
    bodies = functions(plain)
    faults += [*_faults(plain, bodies), *_parameter_faults(bodies, parameters)]
    size = sum(declared.values())
    if size > MAX_VARIABLES:
        faults.append(f"the compiled kernel's variables take {size} bytes; allowed: up to {MAX_VARIABLES}; larger memory is scratch")
    faults += [f"the compiled kernel declares the function `{body.name}` within another" for body in bodies if body.nested]
    for name in function_addresses(bodies, plain):
        faults.append(f"the compiled kernel takes the address of the function `{name}`: functions are called by name")
    for operation in (operation for body in bodies for operation in lines_kept(body)):
        faults.append(
            f"the compiled kernel asks the cache to keep lines for later calls (`{operation}`): allowed are the second-level cache's "
            "evict_first, evict_normal and evict_unchanged, by createpolicy, and every hint to the first-level cache"
        )
    kept = written(bodies, plain, declared)
    kernels = {name: tuple(sizes.values()) for name, sizes in parameters.items()}
    return Read(kernels, {name: size for name, size in declared.items() if name in kept}, tuple(dict.fromkeys(faults)))


def _size(kind: str, count: str) -> int:
    return _BYTES.get(kind.lstrip("abcdefghijklmnopqrstuvwxyz"), 8) * (int(count) if count else 1)


def _variables(plain: str) -> tuple[dict[str, int], list[str]]:
    """The variables of global and constant memory with their sizes, and what is declared otherwise than the compiler would."""
    found: dict[str, int] = {}
    faults = []
    depth = last = 0
    for match in _SPACE.finditer(plain):
        depth += plain.count("{", last, match.start()) - plain.count("}", last, match.start())
        before, last = plain[max(0, match.start() - 40) : match.start()].split(), match.start()
        if before[-1:] == [".ptr"]:
            continue  # what a parameter points to
        whole = _VARIABLE.match(plain, match.start())
        if whole is None or depth or before[-1:] == [".extern"]:
            line = plain[match.start() : match.start() + 60].split(";")[0].split("\n")[0].strip()
            faults.append(
                f"the compiled kernel has the declaration `{line}`: state is declared in C++, as a `__device__` variable or scratch"
            )
            continue
        found[whole[3]] = _size(whole[2], "") * int(whole[1] or 1) * prod(int(one) for one in re.findall(r"\d+", whole[4]))
    return found, faults


def _faults(plain: str, bodies: list[Function]) -> Iterator[str]:
    if '"' in plain or "/*" in plain:
        yield "the compiled kernel has text in quotes, which assembly has no use for"
    declared = {name.split("<")[0]: "<" in name for names in _DECLARED.findall(plain) for name in re.findall(r"[%\w$]+(?:<\d+>)?", names)}
    for name in dict.fromkeys(_REGISTER.findall(plain)):
        if _CLOCK.match(name):
            yield f"the compiled kernel reads a clock or a counter (`{name}`): a kernel does not see how it is timed"
        elif name not in _ALLOWED and name not in declared and not declared.get(name.rstrip("0123456789")):
            yield f"the compiled kernel reads `{name}`: a kernel sees where it runs (%tid, %ctaid, %clusterid, …), not when or for whom"
    for pattern in (_DIRECTIVE, _INSTRUCTION):
        for found in pattern.findall(plain):
            yield f"the compiled kernel has `{found.strip()}`: a kernel reads no files, and nothing from outside looks at it"
    for name in dict.fromkeys((*_EXTERN.findall(plain), *called_elsewhere(bodies))):
        yield f"the compiled kernel calls `{name}`: {_FUNCTIONS.get(name, 'nothing outside a kernel can be called')}"


def _parameter_faults(bodies: list[Function], parameters: dict[str, dict[str, int]]) -> Iterator[str]:
    """Beside a launch's parameters lie those of other calls, so they are read by name, and within their size."""
    for body in bodies:
        for name in addresses_taken(body, parameters.get(body.name, {})):
            yield (
                f"the compiled kernel reads memory by the address of its parameter `{name}`: allowed are the parameter's value, and the "
                "address of a tensor map in the instructions that take one"
            )
