"""A candidate: a kernel folder (sources and `launch.yaml`), read once into memory, and its provenance.

What is read is text from a stranger: only plain files of allowed names, few and small, opened without following links and never
opened twice, so that what is judged is what was read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.errors import FactoryError, Fault, FaultsError
from runner.files import exchange, read_regular
from runner.identity import MANIFEST_NAME, git_tree
from runner.manifest import KnobValue, Manifest
from runner.spec.models import PATTERNS, SOURCE, Policy
from runner.validation import validate
from runner.yaml_source import Source, plain_value, read_yaml

_PLAIN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*")


@dataclass(frozen=True)
class Provenance:
    """Who made a candidate: `seed` (written by hand), `search`, or a `model`; from which kernel tree; and why it should be better."""

    agent: str
    kind: Literal["seed", "search", "model", "person"]
    parent: str | None = None
    hypothesis: str = ""


@dataclass(frozen=True)
class Candidate:
    """Files by name (flat: no folders) with their manifest. `tree` is the git tree hash of exactly these files."""

    files: Mapping[str, bytes]
    manifest: Manifest
    tree: str


def read_candidate(folder: Path, policy: Policy) -> Candidate:
    """Read a kernel folder. Raises `FaultsError` with every fault of its files, `FactoryError` where it can't be read at all."""
    return candidate_from_files(read_files(folder, policy), str(folder), policy)


def candidate_from_files(files: Mapping[str, bytes], where: str, policy: Policy | None = None) -> Candidate:
    """A candidate from files in memory, under the same rules as a folder; `where` is how faults name the folder."""
    faults = _name_and_size_faults(files, where, policy or Policy())
    faults += [fault for name, data in files.items() for fault in _text_faults(f"{where}/{_shown(name)}", data)]
    if MANIFEST_NAME not in files:
        faults.append(Fault(where, 1, 1, f"`{MANIFEST_NAME}` is missing; a kernel is its sources and that file"))
    if faults:
        raise FaultsError(faults)
    source = read_yaml(files[MANIFEST_NAME], f"{where}/{MANIFEST_NAME}")
    manifest, faults_of_manifest = validate(Manifest, source)
    faults = [*source.faults, *faults_of_manifest]
    if manifest is not None:
        for index, name in enumerate(manifest.sources):
            if name not in files:
                faults.append(
                    source.fault(("sources", index), f"the file `{name}` is not in the folder; there: {', '.join(sorted(files))}")
                )
            elif name in manifest.sources[:index]:
                faults.append(source.fault(("sources", index), f"the file `{name}` is listed a second time"))
    if manifest is None or faults:
        raise FaultsError(faults)
    return Candidate(dict(sorted(files.items())), manifest, git_tree(files))


def read_files(folder: Path, policy: Policy) -> dict[str, bytes]:
    """The files of a kernel folder by name, each opened once and without following links, within the policy's bounds."""
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FactoryError(f"{folder}: not a folder that can be read (a link to one is not allowed): {error.strerror}") from None
    try:
        return _read_directory(directory, str(folder), policy)
    finally:
        os.close(directory)


def _read_directory(directory: int, where: str, policy: Policy) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    faults: list[Fault] = []
    left = policy.max_bytes
    with os.scandir(directory) as entries:
        for count, entry in enumerate(entries):
            if count >= policy.max_files:
                raise FactoryError(f"{where}: more than {policy.max_files} files; at most {policy.max_files} are allowed")
            problem, data = _read_file(directory, entry.name, left + 1)
            left -= len(data)
            if problem:
                faults.append(Fault(f"{where}/{_shown(entry.name)}", 1, 1, problem))
            elif left < 0:
                raise FactoryError(
                    f"{where}: more than {policy.max_bytes} bytes; at most {policy.max_bytes} are allowed in all files together"
                )
            else:
                files[entry.name] = data
    if faults:
        raise FaultsError(faults)
    return files


def _read_file(directory: int, name: str, limit: int) -> tuple[str, bytes]:
    """What is wrong with an entry of a folder, or else at most `limit` bytes of it."""
    if not allowed_name(name):
        return f"this name is not allowed; allowed: {MANIFEST_NAME}, or {PATTERNS[SOURCE]}", b""
    try:
        return "", read_regular(name, limit, directory)
    except OSError as error:
        return f"not a regular file that can be read ({error.strerror}); links, folders, pipes and devices are not allowed", b""


def allowed_name(name: str) -> bool:
    """Whether a file of a kernel folder may be called this."""
    return name == MANIFEST_NAME or re.fullmatch(SOURCE.removeprefix("^").removesuffix("$"), name) is not None


def _name_and_size_faults(files: Mapping[str, bytes], where: str, policy: Policy) -> list[Fault]:
    faults = []
    if len(files) > policy.max_files:
        faults.append(Fault(where, 1, 1, f"{len(files)} files; at most {policy.max_files} are allowed"))
    size = sum(len(data) for data in files.values())
    if size > policy.max_bytes:
        faults.append(Fault(where, 1, 1, f"{size} bytes; at most {policy.max_bytes} are allowed in all files together"))
    seen: dict[str, str] = {}
    for name in sorted(files):
        if not allowed_name(name):
            message = f"this name is not allowed; allowed: {MANIFEST_NAME}, or {PATTERNS[SOURCE]}"
            faults.append(Fault(f"{where}/{_shown(name)}", 1, 1, message))
        elif seen.setdefault(name.lower(), name) != name:
            faults.append(Fault(f"{where}/{name}", 1, 1, f"differs from `{seen[name.lower()]}` in upper and lower case only"))
    return faults


def _text_faults(file: str, data: bytes) -> list[Fault]:
    """Sources are plain UTF-8 text that shows what it says: no control characters, nothing invisible, nothing that reorders a line."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return [Fault(file, line, error.start - data.rfind(b"\n", 0, error.start), "not UTF-8 text; only UTF-8 is allowed")]
    faults = []
    for number, line_text in enumerate(text.split("\n"), 1):
        for column, letter in enumerate(line_text.removesuffix("\r"), 1):
            if letter != "\t" and unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"):
                message = f"the character U+{ord(letter):04X} is not allowed: it can't be seen, or changes how the text is shown"
                faults.append(Fault(file, number, column, message))
                break  # one a line is enough
        if len(faults) >= 10:
            break
    return faults


def _shown(name: str) -> str:
    """A file's name as a message shows it: printable ASCII, not too long."""
    text = name.encode("ascii", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
    return text if len(text) <= 80 else text[:79] + "…"


def with_knobs(candidate: Candidate, knobs: Mapping[str, KnobValue]) -> Candidate:
    """The candidate with its table replaced by one row that chooses these knobs for every workload.

    Everything else in `launch.yaml`, comments too, stays as it was. A candidate without knobs is returned as it is.
    Raises `FactoryError` where `knobs` does not give every knob one of its values.
    """
    space = candidate.manifest.knobs
    if set(knobs) != set(space):
        raise FactoryError(f"the knobs are {', '.join(space) or 'none'}; not {', '.join(knobs) or 'none'}")
    for name, value in knobs.items():
        if not any(type(value) is type(allowed) and value == allowed for allowed in space[name]):
            raise FactoryError(f"the knob `{name}` can't be {value!r}; allowed: {', '.join(map(repr, space[name]))}")
    if not space:
        return candidate
    source = read_yaml(candidate.files[MANIFEST_NAME], MANIFEST_NAME)
    row = ", ".join(['when: "true"', *(f"{name}: {_yaml_value(knobs[name])}" for name in space)])
    text = _with_table(source, "{" + row + "}")
    changed = candidate_from_files(
        {**candidate.files, MANIFEST_NAME: text.encode()}, "candidate", Policy(max_files=64, max_bytes=4_000_000)
    )
    if changed.manifest.model_copy(update={"table": ()}) != candidate.manifest.model_copy(update={"table": ()}):
        raise FactoryError(f"{MANIFEST_NAME}: the table can't be replaced without changing the rest; write it as a plain list of rows")
    return changed


def _with_table(source: Source, row: str) -> str:
    text, path = source.text, ("table",)
    if path in source.spans:
        start, end = source.spans[path]
        return text[:start] + (f"- {row}" if path in source.blocks else f"[{row}]") + text[end:]
    if () in source.blocks:
        return text.rstrip("\n") + f"\ntable:\n  - {row}\n"
    end = source.spans[()][1] - 1
    return text[:end].rstrip().removesuffix(",") + f", table: [{row}]" + text[end:]


def _yaml_value(value: KnobValue) -> str:
    if isinstance(value, int):
        return str(value)
    plain = _PLAIN_TEXT.fullmatch(value) and plain_value(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def write_candidate(candidate: Candidate, folder: Path) -> None:
    """Make the folder hold exactly the candidate's files: whoever looks sees the old folder or the new one, never a mixture."""
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        for name, data in candidate.files.items():
            with (fresh / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        if folder.exists():
            exchange(fresh, folder)
        else:
            fresh.rename(folder)
    except OSError as error:
        raise FactoryError(f"{folder}: the kernel can't be written: {error.strerror}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
