"""Evaluates the small expressions of specs and manifests, such as `ceildiv(cols, 8) * unroll`, within fixed bounds.

The text comes from people and models, so it is parsed into Python's syntax tree, checked against a list of what is allowed, and
evaluated by simpleeval with bounded operators: no attributes, no subscripts, no comprehensions, no text arithmetic, no large numbers.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from simpleeval import InvalidExpression, NameNotDefined, SimpleEval

from runner.errors import FactoryError

Value = int | float | bool | str
Number = int | float

MAX_LENGTH = 400
MAX_NODES = 200
MAX_DEPTH = 40
MAX_MAGNITUDE = 2**127
MAX_SHIFT = 64
MAX_EXPONENT = 64

CONSTANTS: dict[str, bool] = {"true": True, "false": False, "True": True, "False": False}

_LEAVES = (ast.Name, ast.Constant, ast.Load)
_BRANCHES = (ast.Expression, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call)


def _numbers(*values: object) -> None:
    """Refuse text where only numbers make sense: `'a' * 1000000` and `'%99d' % 1` are how text explodes."""
    for value in values:
        if not isinstance(value, (int, float)):
            raise InvalidExpression(f"arithmetic works on numbers only, not on the text `{value}`")


def _bounded(value: Any) -> Value:
    """The value, when it is a real number of sensible size (or text or a truth value)."""
    if isinstance(value, (bool, str)):
        return value
    if not isinstance(value, (int, float)):
        raise InvalidExpression("the value is not a real number")
    if not -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE:  # also false for NaN
        raise InvalidExpression("a value is too large, or not a number")
    return value


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Value]:
    def bounded(left: Any, right: Any) -> Value:
        _numbers(left, right)
        return _bounded(operation(left, right))

    return bounded


def _compared(operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str):
            raise InvalidExpression(f"cannot compare text with a number: `{left}` and `{right}`")
        return bool(operation(left, right))

    return compared


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > MAX_EXPONENT:
        raise InvalidExpression(f"an exponent lies between {-MAX_EXPONENT} and {MAX_EXPONENT}")
    return base**exponent


def _shift(operation: Callable[[int, int], int]) -> Callable[[Any, Any], int]:
    def shifted(value: Any, count: Any) -> int:
        if not isinstance(value, int) or not isinstance(count, int) or not 0 <= count <= MAX_SHIFT:
            raise InvalidExpression(f"a shift works on whole numbers, by 0 to {MAX_SHIFT} places")
        return operation(value, count)

    return shifted


def _negative(value: Any) -> Value:
    _numbers(value)
    return _bounded(-value)


def _positive(value: Any) -> Value:
    _numbers(value)
    return _bounded(+value)


_OPERATORS: dict[type[ast.AST], Callable[..., Value]] = {
    ast.Add: _arithmetic(lambda a, b: a + b),
    ast.Sub: _arithmetic(lambda a, b: a - b),
    ast.Mult: _arithmetic(lambda a, b: a * b),
    ast.Div: _arithmetic(lambda a, b: a / b),
    ast.FloorDiv: _arithmetic(lambda a, b: a // b),
    ast.Mod: _arithmetic(lambda a, b: a % b),
    ast.Pow: _arithmetic(_power),
    ast.LShift: _arithmetic(_shift(lambda a, b: a << b)),
    ast.RShift: _arithmetic(_shift(lambda a, b: a >> b)),
    ast.Eq: _compared(lambda a, b: a == b),
    ast.NotEq: _compared(lambda a, b: a != b),
    ast.Lt: _compared(lambda a, b: a < b),
    ast.LtE: _compared(lambda a, b: a <= b),
    ast.Gt: _compared(lambda a, b: a > b),
    ast.GtE: _compared(lambda a, b: a >= b),
    ast.Not: lambda a: not a,
    ast.USub: _negative,
    ast.UAdd: _positive,
}


def ceildiv(value: Number, divisor: Number) -> Number:
    """`value / divisor`, rounded up to a whole number."""
    _numbers(value, divisor)
    return -(-value // divisor)


def log2(value: Number) -> float:
    """The logarithm to base 2 of a number above 0."""
    _numbers(value)
    if value <= 0:
        raise InvalidExpression(f"log2 needs a number above 0, not `{value}`")
    return math.log2(value)


def next_pow2(value: Number) -> int:
    """The smallest power of two that is at least `value`, and at least 1."""
    _numbers(value)
    return 1 << max(0, math.ceil(value) - 1).bit_length()


def _extreme(name: str, choose: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(*values: Number) -> Number:
        _numbers(*values)
        if len(values) < 2:
            raise InvalidExpression(f"{name} needs at least two numbers")
        result: Number = choose(values)
        return result

    return extreme


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceildiv": ceildiv,
    "min": _extreme("min", min),
    "max": _extreme("max", max),
    "log2": log2,
    "next_pow2": next_pow2,
}

ALLOWED = f"numbers, text in quotes, + - * / // % ** << >>, comparisons, and, or, not, a if b else c, {', '.join(FUNCTIONS)}"


Functions = Mapping[str, Callable[..., Any]]


def evaluate(text: str, names: Mapping[str, Value], functions: Functions = MappingProxyType({})) -> Value:
    """The value of an expression where `names` gives each name's value, and `functions` what it may call besides `FUNCTIONS`.

    Raises `FactoryError` with the expression and the reason."""
    tree = _parse(text, frozenset(functions))
    evaluator = SimpleEval(operators=_OPERATORS, functions={**FUNCTIONS, **functions}, names={**CONSTANTS, **names})
    try:
        return _bounded(evaluator.eval(text, previously_parsed=tree.body))
    except NameNotDefined as error:
        known = ", ".join(sorted(names)) or "nothing"
        raise FactoryError(f"`{shown(text)}`: the name `{error.name}` is not known here; known: {known}") from None
    except InvalidExpression as error:
        raise FactoryError(f"`{shown(text)}`: {error}") from None
    except ZeroDivisionError:
        raise FactoryError(f"`{shown(text)}`: division by zero") from None
    except (ArithmeticError, TypeError, ValueError) as error:
        # What is left of Python's own complaints: overflow, a function with the wrong number of arguments.
        raise FactoryError(f"`{shown(text)}`: {error}") from None


def shown(text: str) -> str:
    """An expression as a message quotes it: one line, printable, not too long."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return line if len(line) <= 80 else line[:79] + "…"


def names(text: str, functions: Iterable[str] = ()) -> set[str]:
    """The names that an expression uses (axes, scalars, knobs), without functions and constants. `functions` are those that it may call
    besides `FUNCTIONS`. Raises `FactoryError`."""
    tree = _parse(text, frozenset(functions))
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}
    return found - set(CONSTANTS)


def texts(text: str, functions: Iterable[str] = ()) -> set[str]:
    """The pieces of text in quotes within an expression. Raises `FactoryError`."""
    return {
        node.value
        for node in ast.walk(_parse(text, frozenset(functions)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@lru_cache(maxsize=4096)
def _parse(text: str, functions: frozenset[str]) -> ast.Expression:
    """Parse within the bounds. Raises `FactoryError` that says what is allowed."""
    if len(text) > MAX_LENGTH:
        raise FactoryError(f"an expression has at most {MAX_LENGTH} characters, this one {len(text)}")
    allowed = ALLOWED + "".join(f", {name}" for name in sorted(functions))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # `1 is 1`, refused below in our own words
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FactoryError(f"`{shown(text)}` is not an expression; allowed: {allowed}") from None
    _check(tree, text, functions, allowed)
    return tree


def _check(tree: ast.Expression, text: str, functions: Collection[str], allowed: str) -> None:
    """Refuse whatever is not on the list of allowed syntax, level by level so that depth is bounded without recursion."""
    level: list[ast.AST] = [tree]
    count = 0
    for _depth in range(MAX_DEPTH):
        if not level:
            return
        count += len(level)
        if count > MAX_NODES:
            break
        for node in level:
            problem = _problem(node, functions)
            if problem:
                raise FactoryError(f"`{shown(text)}`: {problem}; allowed: {allowed}")
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    raise FactoryError(f"`{shown(text)}`: the expression is too large: at most {MAX_NODES} parts, nested at most {MAX_DEPTH} deep")


def _problem(node: ast.AST, functions: Collection[str]) -> str:
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or (node.func.id not in FUNCTIONS and node.func.id not in functions):
            return f"no function is called `{ast.unparse(node.func)[:40]}`"
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            return "functions take plain arguments"
    elif isinstance(node, ast.Constant):
        if not isinstance(node.value, (int, float, str)):
            return f"`{node.value!r}` is not a number or a text"
        try:
            _bounded(node.value)
        except InvalidExpression as error:
            return str(error)
    elif isinstance(node, (ast.operator, ast.cmpop, ast.unaryop)):
        if type(node) not in _OPERATORS:
            return f"the operator `{type(node).__name__}` is not allowed"
    elif not isinstance(node, (*_LEAVES, *_BRANCHES, ast.boolop)):
        return f"`{type(node).__name__}` is not allowed"
    return ""
