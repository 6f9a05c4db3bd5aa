"""What the tables in ``rules/`` say is wrong with an object, by kind and in the order in which it is said.

A rule is a field and what is asked of it, wherever the object that holds it is there; every word after a field is a
function with that name in checks.py or beside it::

    spec.volumeMode: {one of: [Block, Filesystem]}   asked wherever the object above the field's last word is there
    spec.tls[].hosts[]: subdomain                    [] goes through the entries of a list
    spec.containers[]: {is: Container}               the rules of a type are asked of what lies there
    "": budget                                       asked of the whole object

Most checks say nothing of a field that is missing. Beside a check may stand: "text", the words of the answer ({} is
the field's value); "missing", what a missing field is taken for; "shown", the field whose value the answer shows, or
"value", what it shows; and "if", what must hold of fields of the kind's or type's object: a word (given, missing,
filled, empty, blank, worded), a value or several of which it is one, {not: those}, {like: REGEX}, {unlike: REGEX},
{all: those that a list must have}, {above: NUMBER}. Types are shared by all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.api.status import FieldError
from kubesim.errors import Obj
from kubesim.schema.conditions import condition
from kubesim.schema.paths import dig, walk

TABLES = Path(__file__).with_suffix("")
ABSENT = object()


@dataclass(slots=True)
class Place:
    """An object of which rules are asked: where it lies, and the place of the object whose rules led here."""

    value: Obj
    path: str = ""
    above: Place | None = None

    def at(self, name: str) -> str:
        """Return the full path of a field."""
        if not self.path or not name:
            return self.path or name
        return f"{self.path}.{name}"


Check = Callable[..., Iterable[FieldError]]
"""Yields what is wrong with (value, full path, the place that holds it), and what the rule says beside."""
CHECKS: dict[str, Check] = {}
ASKED_OF_NOTHING: set[Check] = set()


def check(function: Check) -> Check:
    """Make a function a word of the table; fields that are missing need no check."""
    CHECKS[function.__name__.strip("_").replace("_", " ")] = function
    return function


def check_of_missing(function: Check) -> Check:
    """Make a function a word of the table that is asked about missing fields too, with None."""
    ASKED_OF_NOTHING.add(function)
    return check(function)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    path: str
    check: Check
    arguments: tuple[Any, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    conditions: tuple[Callable[[Obj], bool], ...] = ()
    missing: Any = None
    shown: str = ""
    value: Any = ABSENT
    name: str = ""
    """The first word of the path."""
    plain: bool = False
    """Whether the field lies in the object itself."""
    optional: bool = False
    """Whether nothing is asked where the field, or the first one on the way to it, is missing."""

    def ask(self, place: Place, found: list[FieldError]) -> None:
        """Add what is wrong with an object."""
        name = self.name
        value: Any = place.value.get(name) if name else place.value
        for holds in self.conditions:
            if not holds(place.value):
                return
        fields = ((place.at(name), value),) if self.plain else walk(place.value, self.path, place.path)
        for where, inner in fields:
            asked = self.missing if inner is None else inner
            if asked is None and self.check not in ASKED_OF_NOTHING:
                continue
            if self.conditions:
                asked = self._shown(asked, place)
            found += self.check(asked, where, place, *self.arguments, **self.more)

    def _shown(self, asked: Any, place: Place) -> Any:
        """Return what the answer shows as the field's value."""
        if self.shown:
            return dig(place.value, self.shown)
        if self.value is not ABSENT:
            return self.value
        return "" if asked is None else asked


@cache
def _table() -> dict[str, dict[str, list[dict[str, Any]]]]:
    parts: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for path in sorted(TABLES.glob("*.yaml")):
        for part, entries in data.read(path).items():
            parts.setdefault(part, {}).update(entries)
    return parts


@cache
def rules_of(part: str, name: str) -> tuple[Rule, ...]:
    """Return the rules of a kind (part ``kinds``) or of a type (``types``)."""
    lines = _table()[part].get(name, [])
    return tuple(_rule(path, asked) for line in lines for path, asked in line.items())


def errors_of(part: str, name: str, place: Place) -> list[FieldError]:
    """Return what is wrong with an object by the rules of its kind or type."""
    found: list[FieldError] = []
    for rule in rules_of(part, name):
        if not rule.optional or place.value.get(rule.name) is not None:
            rule.ask(place, found)
    return found


def _rule(path: str, asked: str | dict[str, Any]) -> Rule:
    """Read a line: a field, and a word or a word with what it needs."""
    more: dict[str, Any] = {asked: None} if isinstance(asked, str) else dict(asked)
    word = next(iter(more))
    argument, function = more.pop(word), CHECKS[word.replace("_", " ")]
    conditions = tuple(condition(*given) for given in more.pop("if", {}).items())
    beside: dict[str, Any] = {name: more.pop(name) for name in ("missing", "shown", "value") if name in more}
    if word == "required" and conditions:
        beside["value"] = None
    if isinstance(argument, dict):
        more |= argument
        argument = None
    first, *rest = path.split(".")
    optional = path != "" and (bool(rest) or (function not in ASKED_OF_NOTHING and "missing" not in beside))
    arguments = () if argument is None else (argument,)
    name, plain = first.removesuffix("[]"), not rest and not first.endswith("[]")
    return Rule(path, function, arguments, more, conditions, **beside, name=name, plain=plain, optional=optional)
