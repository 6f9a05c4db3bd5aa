"""Rules of single fields, as data: where the field lies, and what its value must be.

A path names fields by dots; ``[]`` goes through the entries of a list. A rule is asked wherever the object above its
last word is there, with None for a field that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubesim.admission.validation.metadata import dns_errors
from kubesim.api.status import FieldError, invalid_value, required, unsupported
from kubesim.errors import Obj

Test = Callable[[str, Any], Iterator[FieldError]]
NOT_NEGATIVE = "must be greater than or equal to 0"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a field must fulfil; ``test`` takes the field's full path and its value."""

    path: str
    test: Test

    def errors(self, obj: Obj) -> Iterator[FieldError]:
        """Yield what is wrong."""
        for path, value in walk(obj, self.path):
            yield from self.test(path, value)


def walk(obj: Any, path: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (full path, value) of every field that a path means."""
    step, _, rest = path.partition(".")
    name, many = step.removesuffix("[]"), step.endswith("[]")
    if not isinstance(obj, dict):
        return
    value, where = obj.get(name), f"{prefix}.{name}" if prefix else name
    found = [(f"{where}[{at}]", item) for at, item in enumerate(value or ())] if many else [(where, value)]
    for inner, item in found:
        if rest:
            yield from walk(item, rest, inner)
        else:
            yield inner, item


def need(path: str, detail: str = "") -> Rule:
    """A field that must be there and not be empty."""

    def test(where: str, value: Any) -> Iterator[FieldError]:
        if value in (None, "", [], {}):
            yield required(where, detail)

    return Rule(path, test)


def one_of(path: str, *choices: str) -> Rule:
    """A field that, where it is set, has one of these values."""

    def test(where: str, value: Any) -> Iterator[FieldError]:
        if value not in (None, "", *choices):
            yield unsupported(where, value, choices)

    return Rule(path, test)


def each_of(path: str, *choices: str) -> Rule:
    """A list each of whose values is one of these; the error names the list."""

    def test(where: str, value: Any) -> Iterator[FieldError]:
        for item in value or ():
            if item not in choices:
                yield unsupported(where, item, choices)

    return Rule(path, test)


def least(path: str, low: int = 0, text: str = NOT_NEGATIVE) -> Rule:
    """A number that is not below ``low``."""
    return wrong(path, lambda value: isinstance(value, int) and value < low, text)


def dns(path: str, form: str = "subdomain") -> Rule:
    """A DNS name, where it is set."""

    def test(where: str, value: Any) -> Iterator[FieldError]:
        if value:
            yield from (invalid_value(where, value, why) for why in dns_errors(value, form))

    return Rule(path, test)


def wrong(path: str, is_wrong: Callable[[Any], object], text: str) -> Rule:
    """A field that is invalid where ``is_wrong`` says so of its value (never asked about a missing one)."""

    def test(where: str, value: Any) -> Iterator[FieldError]:
        if value is not None and is_wrong(value):
            yield invalid_value(where, value, text)

    return Rule(path, test)


def matches(path: str, pattern: str, text: str) -> Rule:
    """A text of a form, where it is set."""
    compiled = re.compile(pattern)
    return wrong(path, lambda value: value != "" and not compiled.fullmatch(value), text)


def all_errors(rules: tuple[Rule, ...], obj: Obj) -> list[FieldError]:
    """Return what is wrong by any of the rules."""
    return [error for rule in rules for error in rule.errors(obj)]
