"""NVIDIA's compute-sanitizer over a candidate's calls: what its tools print, as findings by call. The parser needs no GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from runner.errors import FactoryError
from runner.targets.cuda import watching
from runner.targets.cuda.watched import FAILED, MARK
from runner.targets.cuda.watching import Watched
from runner.targets.instruments import Finding

PROGRAM = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck")
SECONDS = 60.0
_OPTIONS = ("--print-limit", "100", "--show-backtrace", "no", "--report-api-errors", "no", "--target-processes", "all")
_PREFIX = "========="
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY:")
_KINDS = re.compile(
    r"Invalid (?P<space>__\w+__|\w+) (?P<access>read|write|atomic|access)|(?P<misaligned>Misaligned)|(?P<initial>Uninitialized )"
    r"|(?P<race>Error: .*(?:[Rr]ace|hazard))|(?P<warning>Warning: )|(?P<internal>Internal Sanitizer Error|Error: (?:Target|Failed|No))"
)
_PLACE = re.compile(r"^\s*(?:at|and) ")
_HEX = re.compile(r"\b0x[0-9a-f]{3,}\b")


def available() -> bool:
    """Whether the program is on this machine."""
    return watching.find(PROGRAM) is not None


def sanitize(calls: Sequence[Watched]) -> list[Finding]:
    """What the tools find in these calls, each thing once. Raises `FactoryError` where the program is not here or does not work."""
    program = watching.find(PROGRAM)
    if program is None:
        raise FactoryError(
            f"{PROGRAM} is not on this machine: it comes with the CUDA toolkit (Debian: nvidia-cuda-toolkit, NVIDIA: cuda-sanitizer)"
        )
    with ThreadPoolExecutor(len(TOOLS)) as executor:
        seen = list(executor.map(lambda tool: watching.watch([program, "--tool", tool, *_OPTIONS], calls, SECONDS), TOOLS))
    found: list[Finding] = []
    for tool, one in zip(TOOLS, seen, strict=True):
        if one.status is None:
            found.append(Finding(tool, calls[-1].name, f"did not finish within {SECONDS:g} s under {PROGRAM}", certain=False))
        else:
            found += parse(tool, one.text)
    return found


def parse(tool: str, text: str) -> list[Finding]:
    """The findings in what a tool printed. Raises `FactoryError` where it did not come to its end."""
    if not _SUMMARY.search(text):
        tail = " ".join(text.split())[-300:]
        raise FactoryError(f"{PROGRAM} ({tool}) did not work here: {tail or 'it printed nothing'}")
    found: dict[tuple[str, str], Finding] = {}
    name, lines = "", text.splitlines()
    for index, line in enumerate(lines):
        if line.startswith(MARK):
            name = line.removeprefix(MARK).strip()
        elif line.startswith(FAILED):
            one = Finding(tool, name, f"the call failed: {line.removeprefix(FAILED).strip()}")
            found.setdefault((name, one.message), one)
        elif line.startswith(_PREFIX) and not _SUMMARY.search(line):
            kind = _KINDS.search(line.removeprefix(_PREFIX))
            if kind is None:
                continue
            head = line.removeprefix(_PREFIX).strip()
            details = _details(lines[index + 1 :])
            message = "; ".join([head, *details])
            # Whether racecheck knows every way in which honest kernels wait for each other (mbarrier, clusters) has not been shown.
            certain = tool == "memcheck" and not kind["warning"] and not kind["internal"]
            # The same access of other threads and blocks is the same finding.
            found.setdefault((name, _HEX.sub("", f"{head} {details[:1]}")), Finding(tool, name, message, certain))
    return list(found.values())


def _details(lines: Sequence[str]) -> list[str]:
    """The lines that belong to the finding before them: where, by which thread, at which address."""
    details = []
    for line in lines:
        rest = line.removeprefix(_PREFIX)
        if not line.startswith(_PREFIX) or not rest.startswith("    ") or not rest.strip() or rest.strip().startswith("Saved host"):
            break
        details.append(rest.strip())
    return details[:4]
