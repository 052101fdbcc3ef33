"""The static policy for device code: what a candidate's files may include and name, and whether its launches can be computed.

Device code can reach neither files nor processes, so the list is short. What macros could hide is looked for again in the PTX
(`runner.targets.cuda.ptx`); here whoever oversteps is told early, at `file:line:column`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from runner.candidate import Candidate, candidate_from_files
from runner.errors import FactoryError, Fault, FaultsError
from runner.identity import MANIFEST_NAME
from runner.manifest import DeviceLaunch, choose_row, row_knobs, scope
from runner.manifest_check import check_manifest
from runner.spec.models import Spec
from runner.spec.workloads import edge, public
from runner.targets.cuda.launching import Nominal, plan_call
from runner.verdict import Rejected
from runner.yaml_source import Source, read_yaml

MAX_MESSAGES = 20
SUFFIXES = (".cu", ".cuh")
HEADERS = re.compile(
    r"cuda/(?:std/)?[a-z0-9_/]+|cub/[a-z0-9_/]+\.cuh|cooperative_groups(?:/[a-z0-9_]+)?\.h|mma\.h|"
    r"cuda_(?:bf16|fp16|fp8|fp6|fp4|pipeline|pipeline_primitives|awbarrier|awbarrier_primitives|device_runtime_api)\.h|cuda\.h|"
    r"vector_types\.h|crt/mma\.h"
)
_ALLOWED_HEADERS = "the candidate's own files, cuda/…, cuda/std/…, cub/…, cooperative_groups.h, mma.h, cuda_fp16.h, cuda_bf16.h, cuda_fp8.h"
_INCLUDE = re.compile(r"^[ \t\f\v]*#[ \t\f\v]*include\b[ \t]*(.*)$", re.M)
_DIRECTIVE = re.compile(r"^[ \t\f\v]*#[ \t\f\v]*(\w*)", re.M)
_DIRECTIVES = frozenset({"include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma", "error", "warning"})
_PRAGMA = re.compile(r"^[ \t\f\v]*#[ \t\f\v]*pragma[ \t]+(\w+)|_Pragma\b(?:\s*\(\s*\"(\w+))?", re.M)
_PRAGMAS = frozenset({"unroll", "nounroll", "once", "nv_diag_suppress", "nv_diagnostic", "nv_diag_default", "diag_suppress"})
# Numbers are tokens too, since an apostrophe may stand within one.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|\'(?:[^\'\\\n]|\\[^\n])+\'|//[^\n]*|/\*.*?\*/|(?<!\w)\.?\d(?:\'\w|[eEpP][+-]|[\w.])*', re.S)
_SPLICE = re.compile(r"\\\r?\n")
_TRICKS = (
    (re.compile(r"\?\?[=/'()!<>-]"), "a trigraph (`??` and a sign) is not allowed"),
    (re.compile(r'\b(?:u8|u|U|L)?R"'), "a raw string is not allowed; write an ordinary string"),
    (re.compile(r"\\[ \t\f\v]+\r?$", re.M), "there is space behind the `\\` that ends this line"),
)
_CALLED = re.compile(r"\s*\(")
_DIGRAPH = re.compile(r"%:")
_CALLS = {
    **dict.fromkeys(("clock", "clock64", "__globaltimer"), "a kernel does not see how it is timed"),
    **dict.fromkeys(("malloc", "free", "calloc", "realloc"), "memory is what launch.yaml gives as scratch"),
    **dict.fromkeys(("printf", "vprintf", "assert", "__assert_fail"), "a kernel prints nothing; `__trap()` ends it"),
}
_WORDS = {
    "__managed__": "memory is what launch.yaml gives as scratch, and `__device__` variables",
    **dict.fromkeys(("__DATE__", "__TIME__", "__TIMESTAMP__"), "a build does not depend on when it is made"),
    **dict.fromkeys(("__has_include", "__has_include_next", "__has_embed"), "it asks about files that are not the candidate's"),
}
_ASSEMBLY = (
    (re.compile(r"%(?:clock|globaltimer|pm\d)"), "reads a clock or a counter: a kernel does not see how it is timed"),
    (re.compile(r"\.(?:file|include|incbin|section)\b"), "names a file: a kernel reads none"),
)
_NAME = re.compile(r"[A-Za-z_]\w*")


def check_sources(files: Mapping[str, bytes], spec: Spec) -> tuple[str, ...]:
    """What these files (a candidate's, by name) may not contain, as `file:line:column: message`; empty when all is allowed."""
    try:
        candidate = candidate_from_files(files, ".", spec.policy)
    except FaultsError as error:
        return _messages(error.faults)
    faults = [*check_manifest(spec, candidate), *_check_launch(spec, candidate)]
    sources = {name: data.decode() for name, data in candidate.files.items() if name.endswith(SUFFIXES)}
    for name, text in sources.items():
        faults += [Fault(name, *_place(text, at), message) for at, message in _check_source(text, sources)]
    if not faults:
        faults += _check_calls(spec, candidate)
    return _messages(faults)


def _messages(faults: Collection[Fault]) -> tuple[str, ...]:
    ordered = [str(fault).removeprefix("./") for fault in sorted(set(faults))]
    if len(ordered) > MAX_MESSAGES:
        ordered = [*ordered[:MAX_MESSAGES], f"and {len(ordered) - MAX_MESSAGES} more"]
    return tuple(ordered)


def _check_launch(spec: Spec, candidate: Candidate) -> Iterator[Fault]:
    """The parts of `launch.yaml` that only this target knows."""
    manifest = candidate.manifest
    source: Source = read_yaml(candidate.files[MANIFEST_NAME], MANIFEST_NAME)
    for name in candidate.files:
        if name != MANIFEST_NAME and not name.endswith(SUFFIXES):
            yield Fault(name, 1, 1, "a target with a GPU takes .cu and .cuh files only: a candidate has no host code")
    if not any(name.endswith(".cu") for name in manifest.sources):
        yield source.fault(("sources",), "no .cu file is listed; at least one is compiled")
    if manifest.build.fast_math and not spec.policy.fast_math:
        yield source.fault(("build", "fast_math"), "`fast_math` is not allowed by the spec's policy; allowed: false")
    if manifest.build.arch is not None:
        yield source.fault(("build", "arch"), "the architecture is the spec's `hardware.target`; leave `arch` out")
    for index, launch in enumerate(manifest.launches):
        if not isinstance(launch, DeviceLaunch):
            yield source.fault(("launches", index), "a host `function` can't be called on a GPU; a `kernel` is launched")


def _check_calls(spec: Spec, candidate: Candidate) -> Iterator[Fault]:
    """Every written workload selects a table row, and its launches can be computed. One fault of a kind is enough."""
    manifest = candidate.manifest
    if manifest.knobs and not manifest.table:
        return  # a search space without a chosen point
    source: Source = read_yaml(candidate.files[MANIFEST_NAME], MANIFEST_NAME)
    seen: set[str] = set()
    for workload in (*public(spec), *edge(spec)):
        try:
            row = choose_row(manifest, workload.axes, *scope(workload))
            plan_call(manifest, row_knobs(manifest, row), workload, Nominal())
        except (Rejected, FactoryError) as error:
            message = (error.message if isinstance(error, Rejected) else str(error)).removeprefix("launch.yaml: ")
        else:
            continue
        if message not in seen and len(seen) < 5:
            seen.add(message)
            yield source.fault(("launches",), f"workload {workload.name}: {message}", key=True)


def _check_source(text: str, files: Collection[str]) -> Iterator[tuple[int, str]]:
    """Faults of one file, each with its position. The text is taken apart as a compiler does: continued lines are joined first."""
    joined, origin = _joined(text)
    code = _blank(joined, comments=True, strings=False)
    bare = _blank(joined, comments=True, strings=True)
    for at, message in _faults_of(joined, code, bare, files):
        yield origin(at), message


def _faults_of(joined: str, code: str, bare: str, files: Collection[str]) -> Iterator[tuple[int, str]]:
    """`code` is without comments, `bare` without strings too; both as long as `joined`."""
    for pattern, message in _TRICKS:
        yield from ((match.start(), message) for match in pattern.finditer(code))
    yield from ((match.start(), "a directive is written with `#`") for match in _DIGRAPH.finditer(bare))
    for match in re.finditer("[\"']", _blank(joined, comments=True, strings=True, hollow=False)):
        yield match.start(), "a quote is not closed in its line"
    for match in _DIRECTIVE.finditer(bare):
        if match[1] not in _DIRECTIVES:
            yield match.start(), f"the directive `#{match[1]}` is not allowed; allowed: {', '.join(sorted(_DIRECTIVES))}"
    for match in _INCLUDE.finditer(code):
        name = match[1].strip()
        own = name.startswith('"') and name.endswith('"') and name[1:-1] in files
        known = name[:1] in ("<", '"') and HEADERS.fullmatch(name[1:-1]) is not None
        if not (own or known):
            yield match.start(), f"`#include {name[:60]}` is not allowed; allowed: {_ALLOWED_HEADERS}"
    for match in _PRAGMA.finditer(code):
        if (match[1] or match[2]) not in _PRAGMAS:
            yield match.start(), f"the pragma `{match[1] or match[2] or '_Pragma'}` is not allowed; allowed: {', '.join(sorted(_PRAGMAS))}"
    for match in _NAME.finditer(bare):
        word = match.group()
        if word in _WORDS or (word in _CALLS and _CALLED.match(bare, match.end()) and bare[: match.start()].rstrip()[-1:] != "."):
            yield match.start(), f"`{word}` is not allowed: {(_WORDS | _CALLS)[word]}"
    for match in _TOKEN.finditer(joined):
        if match.group().startswith('"'):
            for pattern, message in _ASSEMBLY:
                if pattern.search(match.group()):
                    yield match.start(), f"this text {message}"


def _joined(text: str) -> tuple[str, Callable[[int], int]]:
    """The text with continued lines joined, and a function from a place in it to the place in `text`."""
    cuts = [(match.start(), len(match.group())) for match in _SPLICE.finditer(text)]

    def origin(at: int) -> int:
        for start, length in cuts:
            if at < start:
                break
            at += length
        return at

    return _SPLICE.sub("", text), origin


def _blank(text: str, *, comments: bool, strings: bool, hollow: bool = True) -> str:
    """The text with the inside of comments and strings blank, so that places stay. Without `hollow` the quotes of strings go too."""

    def blank(match: re.Match[str]) -> str:
        token = match.group()
        if token[0] == "/":
            return re.sub(r"[^\n]", " ", token) if comments else token
        if token[0] in "\"'" and strings:
            return token[0] + " " * (len(token) - 2) + token[-1] if hollow else " " * len(token)
        return " " * len(token) if not hollow and "'" in token else token

    return _TOKEN.sub(blank, text)


def _place(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
