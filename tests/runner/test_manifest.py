"""`launch.yaml`: its form, its meaning for a spec, and the choice of a table row."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.candidate import Candidate, candidate_from_files
from runner.errors import FactoryError, FaultsError
from runner.manifest import Manifest, choose_row, row_knobs, space_size
from runner.manifest_check import check_manifest, define_texts
from runner.spec.load import load_spec

SPEC = load_spec(Path(__file__).parents[1] / "data" / "specs" / "good-spec").spec
HEAD = "sources: [k.cpp]\n"
LAUNCH = "launches: [{function: k, args: [x, out, {i64: rows}]}]\n"


def candidate(text: str) -> Candidate:
    return candidate_from_files({"launch.yaml": text.encode(), "k.cpp": b""}, "K")


def manifest(text: str) -> Manifest:
    return candidate(text).manifest


def form_faults(text: str) -> list[str]:
    with pytest.raises(FaultsError) as error:
        candidate(text)
    return str(error.value).splitlines()


def faults(text: str) -> list[str]:
    return [str(fault) for fault in check_manifest(SPEC, candidate(text))]


def test_every_fault_of_form_is_shown_at_its_place() -> None:
    text = """sources: [../a.cpp, k.cpp]
build: {std: c++23, arch: 1, defines: {A: 1.5, 2B: x}, fast: true}
knobs: {a: [true, 1.5], b: 3, c: []}
table:
  - {when: true, a: ~}
scratch: {s: {dtype: f32, shape: [rows]}}
launches:
  - function: k
    args: [x, {i16: rows}, {i32: 1}, {i32: a, i64: b}, 1, [], 1a]
  - {function: "a-b", args: []}
"""
    assert form_faults(text) == [
        "K/launch.yaml:1:11: this item is the text `../a.cpp`; allowed: a file name without folders that ends in .cpp, .hpp, .cu or .cuh",
        "K/launch.yaml:2:14: `std` must be one of `c++17`, `c++20`, not the text `c++23`",
        "K/launch.yaml:2:27: `arch` must be text, not `1`; put it in quotes",
        "K/launch.yaml:2:43: `A` must be a whole number or text, not `1.5`",
        "K/launch.yaml:2:48: the name `2B` is not allowed; allowed: a letter or _, then up to 63 letters, digits or _",
        "K/launch.yaml:2:56: unknown key `fast` (did you mean `fast_math`?); allowed here: std, arch, fast_math, defines",
        "K/launch.yaml:3:13: this item must be a whole number or text, not `true`",
        "K/launch.yaml:3:19: this item must be a whole number or text, not `1.5`",
        "K/launch.yaml:3:28: `b` must be a list, not `3`",
        "K/launch.yaml:3:34: `c` must have at least 1 item(s)",
        "K/launch.yaml:5:12: `when` must be a whole number or text, not `true`",
        "K/launch.yaml:5:21: `a` must be a whole number or text, not nothing",
        "K/launch.yaml:6:22: `dtype` must be one of `float32`, `float64`, `float16`, `bfloat16`, `int32`, `int64`, not the text `f32`",
        "K/launch.yaml:9:15: an argument is a tensor's name, or one of {i32: …}, {i64: …}, {f32: …}, {f64: …}; not a mapping",
        "K/launch.yaml:9:34: `i32` must be text, not `1`; put it in quotes",
        "K/launch.yaml:9:38: an argument is a tensor's name, or one of {i32: …}, {i64: …}, {f32: …}, {f64: …}; not a mapping",
        "K/launch.yaml:9:56: an argument is a tensor's name, or one of {i32: …}, {i64: …}, {f32: …}, {f64: …}; not `1`",
        "K/launch.yaml:9:59: an argument is a tensor's name, or one of {i32: …}, {i64: …}, {f32: …}, {f64: …}; not a list",
        "K/launch.yaml:9:63: this item is the text `1a`; allowed: a letter or _, then up to 63 letters, digits or _",
        "K/launch.yaml:10:16: `function` is the text `a-b`; allowed: a letter or _, then up to 63 letters, digits or _",
        "K/launch.yaml:10:29: `args` must have at least 1 item(s)",
    ]


def test_a_sound_manifest_has_no_faults() -> None:
    assert not faults(HEAD + LAUNCH)
    assert not faults(HEAD + "knobs: {u: [1, 2]}\n" + LAUNCH)
    rich = """knobs: {u: [1, 2], isa: [x86-64, native]}
build: {arch: isa, defines: {U: u, V: "u * 2 if u > 1 else 7", W: 3, ISA: isa}}
table: [{when: "cols * rows < 9", u: 1, isa: native}, {when: "n < 0", u: 2, isa: x86-64}]
scratch: {s: {dtype: float64, shape: [rows, "ceildiv(cols, u)", 4]}}
launches: [{function: k, args: [x, s, bias, out, {i32: "lanes * u"}, {f64: scale / 2}, {i32: n}]}]
"""
    assert not faults(HEAD + rich)


@pytest.mark.parametrize("arch", ["native", "x86-64-v3", "armv8.2-a+sve", "\"'x86-64-v3'\""])
def test_an_architecture_may_be_named_as_it_is(arch: str) -> None:
    assert not faults(HEAD + f"build: {{arch: {arch}}}\n" + LAUNCH)


# Each: what comes after the sources, where the fault stands, and what it says.
FAULTS = [
    ("launches: [{function: k, args: [y]}]", "2:33", "`y` is not a tensor or scratch; allowed: x, bias, ids, out, count"),
    ("launches: [{function: k, args: [rows]}]", "2:33", "a number is passed as {i64: rows} or {f32: rows}"),
    ("launches: [{function: k, args: [{i64: row}]}]", "2:39", "`row` is not an axis, a scalar or a knob (did you mean `rows`?)"),
    ("launches: [{function: k, args: [{i64: rows +}]}]", "2:39", "`rows +` is not an expression"),
    ("launches: [{function: k, args: [{i64: rows / 3}]}]", "2:39", "`rows / 3` gives `5.333333333333333`; a whole number is expected"),
    ("launches: [{function: k, args: [{i32: rows * 1000000000}]}]", "2:39", "workload small: 16000000000 does not fit in i32"),
    ("launches: [{function: k, args: [{i32: -n}]}]", "2:39", "workload small: 2147483648 does not fit in i32"),
    ("launches: [{function: k, args: [{f32: rows > 1}]}]", "2:39", "`rows > 1` gives `true`; a number is expected"),
    ("launches: [{function: k, args: [{f32: 1 / (rows - 256)}]}]", "2:39", "workload no bias: `1 / (rows - 256)`: division by zero"),
    ("knobs: {rows: [1]}\n" + LAUNCH, "2:9", "`rows` is an axis already; choose another name"),
    ("knobs: {min: [1]}\n" + LAUNCH, "2:9", "`min` is a word of expressions or of the table"),
    ("knobs: {when: [1]}\n" + LAUNCH, "2:9", "`when` is a word of expressions or of the table"),
    ("knobs: {u: [1, 2, 1]}\n" + LAUNCH, "2:19", "the value `1` is here a second time"),
    ("knobs: {u: [1, a]}\n" + LAUNCH, "2:12", "the values of `u` must be all numbers or all text"),
    ("scratch: {x: {dtype: float32, shape: [4]}}\n" + LAUNCH, "2:11", "`x` is a tensor already"),
    ("scratch: {s: {dtype: float32, shape: [rows - 99]}}\n" + LAUNCH, "2:39", "workload small: `rows - 99` gives -83"),
    ("scratch: {s: {dtype: float32, shape: [depth]}}\n" + LAUNCH, "2:39", "`depth` is not an axis, a scalar or a knob"),
    ("build: {defines: {U: u}}\n" + LAUNCH, "2:22", "`u` is not a knob; allowed: none"),
    ("build: {defines: {U: rows}}\n" + LAUNCH, "2:22", "`rows` is not a knob"),
    ("build: {defines: {U: 1 / 2}}\n" + LAUNCH, "2:22", "`1 / 2` gives `0.5`; a whole number or text is expected"),
    ("build: {arch: a b}\n" + LAUNCH, "2:15", "`a b` is not an expression"),
    ("build: {arch: 2 + 2}\n" + LAUNCH, "2:15", "`2 + 2` gives `4`; text is expected"),
    ("table: [{when: 'true'}]\n" + LAUNCH, "2:1", "a table needs knobs"),
    ("knobs: {u: [1]}\ntable: [{u: 1}]\n" + LAUNCH, "3:9", "the row has no `when`; a row has `when` and every knob: u"),
    ("knobs: {u: [1], v: [1]}\ntable: [{when: 'true', u: 1}]\n" + LAUNCH, "3:9", "the row has no `v`"),
    ("knobs: {u: [1]}\ntable: [{when: 'true', u: 2}]\n" + LAUNCH, "3:27", "the knob `u` can't be `2`; allowed: 1"),
    ("knobs: {u: [1]}\ntable: [{when: 'true', u: '1'}]\n" + LAUNCH, "3:27", "the knob `u` can't be the text `1`; allowed: 1"),
    ("knobs: {u: [1]}\ntable: [{when: 'true', u: 1, w: 1}]\n" + LAUNCH, "3:30", "`w` is not a knob; allowed: u"),
    ("knobs: {u: [1]}\ntable: [{when: 1, u: 1}]\n" + LAUNCH, "3:16", "`when` must be a comparison in quotes"),
    ("knobs: {u: [1]}\ntable: [{when: 'u > 1', u: 1}]\n" + LAUNCH, "3:16", "`u` is not an axis or a scalar"),
    ("knobs: {u: [1]}\ntable: [{when: 'rows', u: 1}]\n" + LAUNCH, "3:1", "`when` of table row 1 gives 16"),
    (
        "knobs: {u: [1]}\ntable: [{when: 'rows < 99', u: 1}]\n" + LAUNCH,
        "3:1",
        "workload no bias: no row of the table holds for rows = 256, cols",
    ),
    ("knobs: {u: [0, 1]}\ntable: [{when: 'true', u: 0}]\nbuild: {defines: {U: 8 // u}}\n" + LAUNCH, "4:22", "`8 // u`: division by zero"),
]


@pytest.mark.parametrize(("text", "place", "message"), FAULTS)
def test_a_fault_of_meaning_stands_at_its_place(text: str, place: str, message: str) -> None:
    found = faults(HEAD + text)
    assert len(found) == 1
    assert found[0].startswith(f"launch.yaml:{place}: ")
    assert message in found[0]


def test_faults_of_meaning_show_together() -> None:
    text = "knobs: {u: [1, 1], rows: [1]}\ntable: [{u: 2}]\nlaunches: [{function: k, args: [y, {i64: q}]}]\n"
    assert len(faults(HEAD + text)) == 7


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "'a' * 99999999", "rows.__class__", "(" * 300, "1 << 9999"])
def test_hostile_expressions_are_faults(text: str) -> None:
    quoted = text.replace("'", "''")
    assert len(faults(HEAD + f"launches: [{{function: k, args: [{{i64: '{quoted}'}}]}}]\n")) == 1


ROWS = """knobs: {u: [1, 2, 4]}
table:
  - {when: "cols <= 128 and rows < 9", u: 1}
  - {when: "cols <= 1024", u: 2}
  - {when: "scale > 0", u: 4}
"""


def test_the_first_row_that_holds_is_chosen() -> None:
    chosen = manifest(HEAD + ROWS + LAUNCH)
    assert choose_row(chosen, {"rows": 1, "cols": 128}) == 0
    assert choose_row(chosen, {"rows": 9, "cols": 128}) == 1
    assert choose_row(chosen, {"rows": 9, "cols": 1025}, {"scale": 1.0}) == 2
    assert [row_knobs(chosen, index) for index in range(3)] == [{"u": 1}, {"u": 2}, {"u": 4}]
    with pytest.raises(FactoryError, match='no row of the table holds for rows = 9, cols = 1025; end the table with a row `when: "true"`'):
        choose_row(chosen, {"rows": 9, "cols": 1025}, {"scale": -1.0})
    with pytest.raises(FactoryError, match="the table has no row 4; it has 3"):
        row_knobs(chosen, 3)


def test_without_knobs_there_is_one_row() -> None:
    plain = manifest(HEAD + LAUNCH)
    assert choose_row(plain, {"rows": 1}) == 0
    assert row_knobs(plain, 0) == {}
    assert space_size(plain) == 1


def test_knobs_without_a_table_choose_nothing() -> None:
    space = manifest(HEAD + "knobs: {u: [1, 2, 4], v: [a, b]}\n" + LAUNCH)
    assert space_size(space) == 6
    with pytest.raises(FactoryError, match="no row of the table holds"):
        choose_row(space, {"rows": 1})
    with pytest.raises(FactoryError, match="the table has no row 1; it has 0"):
        row_knobs(space, 0)


def test_the_texts_that_a_define_can_become() -> None:
    text = "knobs: {t: [float, double], u: [1, 2]}\nbuild: {defines: {T: t, U: u, V: \"'a' if u > 1 else t\", W: 1}}\n"
    assert define_texts(manifest(HEAD + text + LAUNCH)) == {"T": {"float", "double"}, "U": set(), "V": {"a", "float", "double"}, "W": set()}
