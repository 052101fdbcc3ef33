"""Makes the candidate that a case describes: as it is written, or an unseen variant of it, in a folder of its own.

A variant has other constants where `vary` says so, and other names for its function, its file and what it declares at file scope. It
follows from a seed, so that a failure can be shown again.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.attack_cases import Case, Plant
from runner.errors import FactoryError

_DECLARED = re.compile(
    r"^(?:static|thread_local|struct|constexpr|enum|__device__|__constant__)\b[^;={(\n]*?\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:[;={(]|$)",
    re.MULTILINE,
)
_LAUNCHED = re.compile(r"\b(function|kernel): ([\"']?)(\w+)")
_SYLLABLES = ("ba", "de", "fi", "ko", "lu", "ma", "ne", "po", "ra", "si", "to", "vu")
_KEPT = {"main", "operator", "Time", "const", "Loader", "alignas"}


def write_candidate_of(case: Case, folder: Path, words: Mapping[str, str], chooser: random.Random | None) -> str:
    """Write the candidate's files into `folder` (made here), with `words` replaced. Without `chooser` as written; else a variant.

    Returns what was varied, for the report: `as written`, or `AT = 77, …`.
    """
    kernel = case.folder / "kernel"
    texts = {path.name: path.read_bytes() for path in sorted(kernel.iterdir()) if path.is_file()}
    told = "as written"
    if chooser is not None:
        texts, told = _varied(case, texts, chooser)
    folder.mkdir(parents=True)
    for name, text in texts.items():
        for word, meaning in words.items():
            text = text.replace(word.encode(), meaning.encode())
        (folder / name).write_bytes(text)
    for plant in case.file.plant:
        _plant(plant, folder, words)
    return told


def _varied(case: Case, texts: Mapping[str, bytes], chooser: random.Random) -> tuple[dict[str, bytes], str]:
    try:
        plain = {name: text.decode() for name, text in texts.items()}
    except UnicodeDecodeError:
        return dict(texts), "as written (not UTF-8, so nothing was varied)"
    told = []
    for pattern, choices in case.file.vary.items():
        new = _choose(choices, chooser)
        plain = _replace(case, plain, pattern, new)
        told.append(pattern.replace("{}", new) if "{}" in pattern else new)
    plain = _renamed(plain, chooser)
    return {name: text.encode() for name, text in plain.items()}, ", ".join(told) or "other names"


def _choose(choices: str | Sequence[str | int | float], chooser: random.Random) -> str:
    if isinstance(choices, str):
        low, high = choices.split("..")
        return str(chooser.randint(int(low), int(high)))
    return str(chooser.choice(choices))


def _replace(case: Case, texts: Mapping[str, str], pattern: str, new: str) -> dict[str, str]:
    """Put `new` where `pattern` has `{}` (what is written there ends before the text that follows in the pattern, or with the word), or
    in place of a pattern without it."""
    before, found, after = pattern.partition("{}")
    gap = r"[^\n]*?" if after else r"(?:[-\w.']+(?: << \d+)?)"
    where = re.compile(re.escape(before) + gap + re.escape(after) if found else re.escape(pattern))
    put = before + new + after if found else new
    replaced = {name: where.sub(lambda _: put, text) for name, text in texts.items()}
    if not any(where.search(text) for text in texts.values()):
        raise FactoryError(f"{case.folder}: `{pattern}` is not in any file of its kernel")
    return replaced


def _renamed(texts: Mapping[str, str], chooser: random.Random) -> dict[str, str]:
    """Other names for what the sources declare at file scope, for what is launched and its file."""
    launch = texts.get("launch.yaml", "")
    sources = {name: text for name, text in texts.items() if name.endswith((".cpp", ".hpp", ".cu", ".cuh"))}
    names = {name for text in sources.values() for name in _DECLARED.findall(text)}
    for _kind, _quote, name in _LAUNCHED.findall(launch):
        if any(re.search(rf"^(?:.*\bvoid )?(?:__launch_bounds__\(\d+\) )?{name}\(", text, re.MULTILINE) for text in sources.values()):
            names.add(name)
    # A knob's define is given by launch.yaml under its own name.
    names = {name for name in names - _KEPT if not re.search(rf"\b{name}: ", launch)}
    meaning = {name: _word(chooser) + ("_t" if name[0].isupper() else "") for name in sorted(names)}
    whole = re.compile(r"(?<![\w.>:\"'/])(" + "|".join(map(re.escape, sorted(meaning))) + r")\b(?![\"'])") if meaning else None
    renamed = {name: whole.sub(lambda match: meaning[match.group(1)], text) if whole else text for name, text in sources.items()}
    launch = _LAUNCHED.sub(lambda match: f"{match[1]}: {match[2]}{meaning.get(match[3], match[3])}", launch)
    result = {name: text for name, text in texts.items() if name not in sources and name != "launch.yaml"} | renamed
    single = [name for name in sources if re.fullmatch(r"\w+\.(cpp|cu)", name)]
    if len(sources) == 1 and single and f"[{single[0]}]" in launch and f'"{single[0]}"' not in renamed[single[0]]:
        name = f"{_word(chooser)}{Path(single[0]).suffix}"
        launch = launch.replace(f"[{single[0]}]", f"[{name}]")
        result[name] = result.pop(single[0])
    return result | ({"launch.yaml": launch} if "launch.yaml" in texts else {})


def _word(chooser: random.Random) -> str:
    return "".join(chooser.choices(_SYLLABLES, k=4)) + str(chooser.randint(10, 99))


def _plant(plant: Plant, folder: Path, words: Mapping[str, str]) -> None:
    if plant.link is not None:
        to = plant.to
        for word, meaning in words.items():
            to = to.replace(word, meaning)
        (folder / plant.link).symlink_to(to)
    if plant.pipe is not None:
        os.mkfifo(folder / plant.pipe)
    if plant.fill is not None:
        (folder / plant.fill).parent.mkdir(exist_ok=True)
        (folder / plant.fill).write_bytes(b"// 0123456789\n" * (plant.bytes // 14 + 1))
    if plant.many is not None:
        for index in range(plant.count):
            (folder / plant.many.replace("{}", str(index))).write_text("// One of many.\n")
    if plant.nest is not None:
        (folder / plant.nest).write_text("sources: " + "[" * plant.depth + "]" * plant.depth + "\n")
