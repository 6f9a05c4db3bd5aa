"""CEL as Kubernetes has it: the language, and those functions of its libraries that the package lacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from kubesim.api.quantity import QuantityError, parse

CACHE = 2048


class CelError(ValueError):
    """A text that is no expression, or an expression that has no value; the message is CEL's."""


class Program:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        """Compile ``text``; raises CelError with the parser's complaint."""
        try:
            self._program = _package().compile(text)
        except ValueError as error:
            raise CelError(str(error).partition(": ")[2].replace("\n|", "\n |")) from error

    def run(self, variables: Mapping[str, Any]) -> Any:
        """Return the expression's value; raises CelError where it has none."""
        context = _package().Context(dict(variables), FUNCTIONS)
        try:
            return self._program.execute(context)
        except KeyError as error:
            raise CelError(f"no such key: {error.args[0]}") from error
        except (ValueError, RuntimeError, TypeError, ArithmeticError, LookupError) as error:
            raise CelError(str(error)) from error


@cache
def _package() -> Any:
    """Import the package with the first expression: it brings a command line that doubles the time of a start."""
    return import_module("cel")


@lru_cache(CACHE)
def compiled(text: str) -> Program:
    """Return an expression's program. Raises CelError."""
    return Program(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    return text[start : len(text) if end is None else end]


def _format(text: str, values: list[Any]) -> str:
    """Return a text with its %s, %d and %v filled in."""
    left = list(values)
    return re.sub(r"%(%|[a-z])", lambda found: "%" if found[1] == "%" else str(left.pop(0)), text)


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _number(text: str) -> float:
    """Return a quantity as a number, which compares as the quantity does."""
    value = Fraction(parse(text))
    return int(value) if value.denominator == 1 else float(value)


def _sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in zip(items, items[1:], strict=False))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "trim": str.strip,
    "split": lambda text, by, *most: text.split(by, *(n - 1 for n in most)) if by else list(text),
    "replace": lambda text, old, new, *most: text.replace(old, new, *most),
    "substring": _substring,
    "charAt": lambda text, at: text[at : at + 1],
    "indexOf": lambda whole, part: whole.find(part) if isinstance(whole, str) else _index(whole, part),
    "lastIndexOf": str.rfind,
    "join": lambda items, *by: (by[0] if by else "").join(items),
    "format": _format,
    "find": _find,
    "findAll": lambda text, pattern: [found[0] for found in re.finditer(pattern, text)],
    "isSorted": _sorted,
    "sum": lambda items: sum(items),
    "min": lambda *items: min(items[0] if len(items) == 1 else items),
    "max": lambda *items: max(items[0] if len(items) == 1 else items),
    "quantity": _number,
    "isQuantity": _is_quantity,
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
    "compareTo": lambda one, other: (one > other) - (one < other),
}


def _index(items: list[Any], wanted: Any) -> int:
    return items.index(wanted) if wanted in items else -1
