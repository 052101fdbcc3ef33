"""Specs and manifests that were damaged at random load or have faults; nothing else happens, and the words are for people."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.errors import FaultsError
from runner.spec.load import load_spec
from runner.targets.cpu.policy import check_sources
from runner.yaml_source import read_yaml

GOOD = Path(__file__).parents[2] / "data" / "specs" / "good-spec"
SPEC = load_spec(GOOD).spec
ODD: list[Any] = [
    None,
    3,
    -1,
    0,
    "x",
    "rows",
    "cols // 2",
    "rows /",
    "",
    [],
    {},
    True,
    1e9,
    -0.5,
    float("nan"),
    10**25,
    "a b",
    [[]],
    "1/0",
    "'t'",
]
ODD += [[1, "rows"], {"type": "var"}, {"a": 1}, "9 ** 9 ** 9", {"low": 1, "high": 0}, {"name": "x", "axes": {"rows": 3}}]
JARGON = ("Input should", "instance of", "None", "Extra inputs", "uple", "dictionary")


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in parts:
        yield from places(value, (*path, key))


def damaged(data: Any, draw: random.Random) -> str:
    """The data with one to three parts replaced, removed or added, as YAML."""
    data = copy.deepcopy(data)
    for _ in range(draw.randint(1, 3)):
        path = draw.choice([place for place in places(data) if place])
        around = data
        for key in path[:-1]:
            around = around[key]
        way = draw.random()
        if way < 0.6:
            around[path[-1]] = copy.deepcopy(draw.choice(ODD))
        elif way < 0.8:
            del around[path[-1]]
        elif isinstance(around, dict):
            around[draw.choice(["zz", "rows", "min", "x", 3, True])] = copy.deepcopy(draw.choice(ODD))
        else:
            around.append(copy.deepcopy(draw.choice([*ODD, *around[:1]])))
    return yaml.safe_dump(data, sort_keys=False)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_specs_have_faults_at_places_in_the_file(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    folder = tmp_path / "good-spec"
    shutil.copytree(GOOD, folder)
    data = read_yaml((GOOD / "spec.yaml").read_bytes(), "spec.yaml").data
    refused = 0
    for _ in range(50):
        text = damaged(data, draw)
        (folder / "spec.yaml").write_text(text)
        try:
            load_spec(folder)
        except FaultsError as error:
            refused += 1
            lines = text.splitlines()
            for fault in error.faults:
                assert 1 <= fault.line <= len(lines)
                assert 1 <= fault.column <= len(lines[fault.line - 1]) + 1
                assert not any(word in fault.message for word in JARGON), fault.message
    assert refused > 25


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", ["kernel", "seeds/fast"])
def test_damaged_manifests_are_told_in_messages(seed: int, kernel: str) -> None:
    draw = random.Random(seed)
    files = {path.name: path.read_bytes() for path in (GOOD / kernel).iterdir()}
    data = read_yaml(files["launch.yaml"], "launch.yaml").data
    refused = 0
    for _ in range(50):
        messages = check_sources({**files, "launch.yaml": damaged(data, draw).encode()}, SPEC)
        refused += bool(messages)
        assert not any(word in message for message in messages for word in JARGON), messages
    assert refused > 25
