"""Expressions compute what arithmetic says, and nothing that takes long, grows or reaches out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import FactoryError
from runner.spec.expressions import MAX_LENGTH, evaluate, names, shown, texts

NAMES = {"rows": 7, "cols": 24, "eps": 0.5, "isa": "x86-64-v3", "on": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4 * (2 * rows * cols + cols)", 1440),
        ("ceildiv(rows, 2)", 4),
        ("min(rows, cols, 3)", 3),
        ("max(rows, cols)", 24),
        ("log2(8)", 3.0),
        ("next_pow2(cols)", 32),
        ("next_pow2(32)", 32),
        ("next_pow2(0)", 1),
        ("cols // 5 % 3", 1),
        ("cols / 5", 4.8),
        ("2 ** 10", 1024),
        ("1 << 20 >> 2", 1 << 18),
        ("-rows + +1", -6),
        ("1 <= rows < 8 and not cols % 8", True),
        ("rows if cols > 30 else cols", 24),
        ("isa == 'x86-64-v3' or rows > 100", True),
        ("true", True),
        ("False", False),
        (" rows ", 7),
        ("isa", "x86-64-v3"),
    ],
)
def test_values(text: str, value: object) -> None:
    result = evaluate(text, NAMES)
    assert result == value
    assert type(result) is type(value)


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_functions_agree_with_their_definitions(value: int, divisor: int) -> None:
    known = {"a": value, "b": divisor}
    assert evaluate("ceildiv(a, b)", known) == (value + divisor - 1) // divisor
    power = evaluate("next_pow2(b)", known)
    assert isinstance(power, int)
    assert power >= divisor > power // 2 or power == divisor == 1
    assert evaluate("log2(b)", known) == math.log2(divisor)


HOSTILE = [
    "9 ** 9 ** 9",
    "2 ** 65",
    "(2 ** 64) ** 64",
    "2 ** -65",
    "1 << 65",
    "1 << -1",
    "1.5 << 1",
    "2 ** 64 * 2 ** 64",
    "10.0 ** 64 * 10.0 ** 64",
    "1e999",
    "1e400 - 1e400",
    "(-1) ** 0.5",
    "1j",
    "'a' * 1000000",
    "'%99999999d' % 1",
    "'a' + 'b'",
    "-'a'",
    "isa < 3",
    "isa.upper()",
    "rows.__class__",
    "().__class__.__bases__",
    "isa[0]",
    "[1]",
    "[x for x in (1, 2)]",
    "{1: 2}",
    "f'{rows:999999999}'",
    "lambda: 1",
    "(x := 3)",
    "rows; cols",
    "import os",
    "__import__('os')",
    "open('/etc/passwd')",
    "min(*rows)",
    "min(rows)",
    "min(a=1)",
    "ceildiv(1)",
    "ceildiv(1, 0)",
    "log2(0)",
    "log2('a')",
    "rows / 0",
    "rows is 7",
    "rows & 1",
    "~rows",
    "rows in cols",
    "None",
    "b'a'",
    "...",
    "",
    "rows +",
    "((((((",
    "a\0b",
    "unknown + 1",
    "min",
    "-" * 300 + "1",
    "not " * 90 + "1",
    "+".join(["1"] * 190),
    "1" * (MAX_LENGTH + 1),
    "1" * 300,
    "yield 1",
    "await x",
    "\u202erows",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_not_allowed_is_an_error_at_once(text: str) -> None:
    with pytest.raises(FactoryError) as error:
        evaluate(text, NAMES)
    assert len(str(error.value)) < 400
    assert str(error.value).isprintable()


@given(st.text(alphabet="ab1()*-+/%<>=!.,'\"[]{}:~^&| \n\\xé", max_size=60))
def test_any_text_gives_a_value_or_an_expected_error(text: str) -> None:
    try:
        value = evaluate(text, {"a": 3, "b": 2.5, "x": "t"})
    except FactoryError:
        return
    assert isinstance(value, int | float | str)


def test_names_and_texts() -> None:
    assert names("ceildiv(cols, vec) if isa == 'a' else min(rows, 3) and true") == {"cols", "vec", "isa", "rows"}
    assert texts("'a' if rows > 1 else 'b'") == {"a", "b"}


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(FactoryError, match="the name `row` is not known here; known: cols, rows"):
        evaluate("row * 2", {"rows": 1, "cols": 2})


def test_an_expression_is_shown_on_one_line() -> None:
    assert shown("a\n+\x00b") == "a +?b"
    assert len(shown("x" * 300)) == 80
