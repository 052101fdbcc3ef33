"""YAML is read as YAML 1.2 without anchors and tags; every fault and every value has its place."""

from __future__ import annotations

import math

import pytest

from runner.errors import FaultsError
from runner.yaml_source import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Source, describe, plain_value, read_yaml


def read(text: str) -> Source:
    return read_yaml(text.encode(), "file.yaml")


def faults(text: str | bytes) -> list[str]:
    """The faults of a text, as they are shown."""
    data = text if isinstance(text, bytes) else text.encode()
    try:
        return [str(fault) for fault in read_yaml(data, "f").faults]
    except FaultsError as error:
        return str(error).splitlines()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("1E+3", 1000.0),
        ("-.5", -0.5),
        ("3.", 3.0),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("0", 0),
        ("-17", -17),
        ("+4", 4),
        ("0x1F", 31),
        ("0o17", 15),
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("2026-11-30", "2026-11-30"),
        ("<<", "<<"),
        ("=", "="),
        ("x86-64-v3", "x86-64-v3"),
        ("'1'", "1"),
        ('"true"', "true"),
    ],
)
def test_values_are_those_of_yaml_1_2(text: str, value: object) -> None:
    data = read(f"key: {text}").data
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(read("a: .nan").data["a"])


@pytest.mark.parametrize("text", ["010", "-007", "00", "1" * 31, "1e999", "1." + "0" * 40])
def test_numbers_that_would_surprise_are_faults(text: str) -> None:
    with pytest.raises(ValueError, match=r"could be octal|at most"):
        plain_value(text)
    assert faults(f"a: {text}")[0].startswith("f:1:4: ")


def test_places_and_extents() -> None:
    source = read("a: 1\nb:\n  - x: yes   # why\n    y: [1, 22]\n\n  # after\nc:\n")
    assert source.keys[("b", 0, "y")] == (4, 5)
    assert source.values[("b", 0, "y")] == (4, 8)
    assert source.values[("b", 0, "y", 1)] == (4, 12)
    assert source.values[("c",)] == source.keys[("c",)] == (7, 1)
    start, end = source.spans[("b",)]
    assert source.text[start:end] == "- x: yes   # why\n    y: [1, 22]"
    assert ("b",) in source.blocks
    assert ("b", 0, "y") not in source.blocks


def test_columns_count_characters() -> None:
    assert faults("ä: 1\nü: {é: 1, é: 2}") == ["f:2:11: the key `é` is here a second time (first in line 2); a key may stand once"]


def test_a_fault_of_something_absent_stands_at_what_is_around_it() -> None:
    source = read("a:\n  b: 1\n")
    assert str(source.fault(("a", "c", "d"), "gone")) == "file.yaml:2:3: gone"
    assert str(source.fault(("a",), "key", key=True)) == "file.yaml:1:1: key"


def test_every_recoverable_fault_is_told_at_once() -> None:
    found = faults("a: &x 1\nb: *x\nc: !!str 2\na: 3\nd: 010\n1: 2\n? [q]\n: 3\n")
    assert [line.split(": ")[0] for line in found] == ["f:1:4", "f:2:4", "f:3:4", "f:4:1", "f:5:4", "f:6:1", "f:7:3"]
    assert "anchor" in found[0]
    assert "alias" in found[1]
    assert "tag" in found[2]
    assert "second time" in found[3]
    assert "put `1` in quotes" in found[5]
    assert "not a list" in found[6]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "f:1:1: the file is empty"),
        ("# only a comment\n", "f:1:1: the file is empty"),
        ("a: [1", "f:1:6: not valid YAML"),
        ("a: b: c", "f:1:5: not valid YAML: mapping values are not allowed here"),
        ("a:\n\t- 1", "f:2:1: a tab can't start a token"),
        ("a: 1\n---\nb: 2\n", "f:2:1: a second document starts here"),
        ("a: 'open", "f:1:9: not valid YAML"),
        (b"a: \xff", "f:1:4: the file is not UTF-8 text"),
        (b"\xff", "f:1:1: the file is not UTF-8 text"),
        ("é\nab\x00c: 1", "f:2:3: the character U+0000 is not allowed"),
        ("a: \x1b[31m", "f:1:4: the character U+001B is not allowed"),
        ('a: "x\\0y"', "f:1:4: the character U+0000 is not allowed in text"),
        ('a: "\\ud800"', "f:1:4: the character U+D800 is not allowed in text"),
        ('"\\e[2J": 1', "f:1:1: the character U+001B is not allowed in text"),
        ("a: *nowhere", "f:1:4: the alias"),
    ],
)
def test_what_is_no_yaml_is_one_fault_at_its_place(text: str | bytes, start: str) -> None:
    assert faults(text)[0].startswith(start)


def test_yaml_that_refers_to_itself_ends() -> None:
    assert [line[:6] for line in faults("&a [*a, {b: *a}]")] == ["f:1:1:", "f:1:5:", "f:1:13"]


def test_yaml_that_multiplies_itself_ends() -> None:
    laughs = "a: &a [1]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20))
    assert len(faults(laughs)) == 61


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{a: " * 100_000, "- " * 100_000, "".join(f"{' ' * i}a:\n" for i in range(500)), "? " * 9000]
)
def test_deep_yaml_is_refused(text: str) -> None:
    assert f"at most {MAX_DEPTH} levels" in faults(text)[0]


def test_depth_up_to_the_bound_is_read() -> None:
    assert not faults("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert faults("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


def test_size_and_count_are_bounded() -> None:
    assert f"at most {MAX_BYTES} are allowed" in faults(b"a" * (MAX_BYTES + 1))[0]
    assert f"at most {MAX_VALUES} are allowed" in faults("[" + "1," * MAX_VALUES + "]")[0]


def test_values_are_described_in_the_words_of_yaml() -> None:
    assert [describe(value) for value in (None, True, 3, "a\nb", [], {})] == [
        "nothing",
        "`true`",
        "`3`",
        "the text `a b`",
        "a list",
        "a mapping",
    ]
    assert len(describe("x" * 1000)) < 60


def test_what_was_read_is_kept_by_its_bytes_and_its_name() -> None:
    data = b"a: [1, 2]\n"
    assert read_yaml(data, "kept.yaml") is read_yaml(bytes(bytearray(data)), "kept.yaml")
    assert read_yaml(data, "other.yaml").fault(("a",), "odd").file == "other.yaml"
    assert read_yaml(b"a: [1, 3]\n", "kept.yaml").data == {"a": [1, 3]}
