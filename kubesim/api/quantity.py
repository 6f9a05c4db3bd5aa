"""Quantities (``500m``, ``1Gi``, ``2e3``): exact values, and the one way in which upstream writes each.

A canonical quantity has no fraction and the largest suffix that allows it: ``1000m`` is ``1``, ``1024Mi`` is ``1Gi``,
``1.5Gi`` is ``1536Mi``. The suffix family of the input (binary, decimal, exponent) is kept.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

Format = Literal["decimal", "binary", "exponent"]

_SHAPE = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_EXPONENT = re.compile(r"[eE]([-+]?\d+)")
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in DECIMAL.items()}
_BINARY_SUFFIX = {power: suffix for suffix, power in BINARY.items()}
NANO = Fraction(1, 10**9)
MOST_DIGITS = 1000
"""Longer numbers are refused: to work with them takes the square of their length."""
REGEX_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)  # fmt: skip


class QuantityError(ValueError):
    """A text that is no quantity; the message is upstream's."""


@lru_cache(maxsize=8192)
def parse(text: str) -> Fraction:
    """Return the exact value of a quantity, rounded up to 10^-9 as upstream does. Raises ``QuantityError``."""
    return _read(text)[0]


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """Return a quantity as the API server writes it. Raises ``QuantityError``."""
    return write(*_read(text))


def from_json(value: object) -> str:
    """Return the canonical text of a quantity given as a JSON string or number. Raises ``QuantityError``."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(REGEX_ERROR)
    if isinstance(value, str):
        return canonical(value.strip())
    return canonical(str(value) if isinstance(value, int) else format(Decimal(repr(value)), "f"))


def write(value: Fraction, form: Format = "decimal") -> str:
    """Return the canonical text of a value in a suffix family."""
    if form == "binary" and abs(value) >= 1024 and value.denominator == 1:
        return _binary(value.numerator)
    nanos = value / NANO
    whole, power = int(nanos), -9
    while whole and whole % 1000 == 0 and power < 18:
        whole, power = whole // 1000, power + 3
    if not whole:
        return "0"
    if form == "exponent":
        return f"{whole}e{power}" if power else str(whole)
    return f"{whole}{_DECIMAL_SUFFIX[power]}"


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < 6:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY_SUFFIX.get(power, '')}"


def _read(text: str) -> tuple[Fraction, Format]:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise QuantityError(REGEX_ERROR)
    number, suffix = found.groups()
    if _NUMBER.fullmatch(number) is None:
        raise QuantityError(REGEX_ERROR)
    if len(number) > MOST_DIGITS:
        raise QuantityError("unable to parse numeric part of quantity")
    scale, form = _scale(suffix)
    nanos = Fraction(Decimal(number)) * scale / NANO
    rounded = -(-abs(nanos.numerator) // nanos.denominator)
    return (rounded if nanos >= 0 else -rounded) * NANO, form


def _scale(suffix: str) -> tuple[Fraction, Format]:
    if suffix in DECIMAL:
        return Fraction(10) ** DECIMAL[suffix], "decimal"
    if suffix in BINARY:
        return Fraction(1024) ** BINARY[suffix], "binary"
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None or len(exponent[1]) > 5:
        raise QuantityError("unable to parse quantity's suffix")
    return Fraction(10) ** max(-30, min(int(exponent[1]), 30)), "exponent"
