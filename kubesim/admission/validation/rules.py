"""The tables in ``rules/``: everything that is wrong with an object, by kind and in the order in which it is said.

A rule is a field and what is asked of it, wherever the object that holds it is there; every word after a field is a
function with that name in checks.py or beside it::

    spec.volumeMode: {one of: [Block, Filesystem]}   asked wherever the object above the field's last word is there
    spec.tls[].hosts[]: subdomain                    [] goes through the entries of a list
    spec.containers[]: {is: Container}               the rules of a type are asked of what lies there
    "": budget                                       asked of the whole object
    "": {is: Selector}                               the rules of another type as well

Most checks say nothing of a field that is missing. Beside a check may stand: "text", the words of the answer ({} is
the field's value); "missing", what a missing field is taken for; "shown", the field whose value the answer shows,
"value", what it shows, or "as", the type in whose form it shows it; "at", the field that it names, where upstream
names another; and "if", what must hold of fields of the kind's or type's object: a word (given, missing, filled,
empty, single, blank, worded), a value or several of which it is one, {not: those}, {like: REGEX}, {unlike: REGEX},
{all: those that a list must have}, {above: NUMBER}. Types are shared by all tables. The rules of "kinds" are asked
of every object that is written, those of "created" of new ones as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.api.status import FieldError
from kubesim.errors import Obj
from kubesim.schema.internal import internal
from kubesim.schema.paths import condition, dig, walk

TABLES = Path(__file__).with_suffix("")
ABSENT = object()


@dataclass(slots=True)
class Place:
    """An object of which rules are asked: where it lies, and the place of the object whose rules led here."""

    value: Obj
    path: str = ""
    above: Place | None = None
    facts: Obj | None = None
    """What a check of this object has found out for those that come after it."""

    def at(self, name: str) -> str:
        """Return the full path of a field."""
        if not self.path or not name:
            return self.path or name
        return f"{self.path}.{name}"

    def known(self, key: str, find: Callable[[], Any]) -> Any:
        """Return what is known of this object by a key; it is found once for all checks, however many entries ask."""
        if self.facts is None:
            self.facts = {}
        if key not in self.facts:
            self.facts[key] = find()
        return self.facts[key]


Check = Callable[..., Iterable[FieldError]]
"""Yields what is wrong with (value, full path, the place that holds it), and what the rule says beside."""
CHECKS: dict[str, Check] = {}
ASKED_OF_NOTHING: set[Check] = set()
PASSING: dict[Check, Callable[..., Callable[[Obj], object]]] = {}
"""By check: takes a field and what the rule says beside, and returns what tells at once that nothing is wrong."""


def check(function: Check) -> Check:
    """Make a function a word of the table; fields that are missing need no check. Raises ValueError for a second."""
    word = function.__name__.strip("_").replace("_", " ")
    if word in CHECKS:
        raise ValueError(f"two checks are called {word}")
    CHECKS[word] = function
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
    conditions: tuple[tuple[str, Callable[[Obj], bool]], ...] = ()
    """Each with the first word of the path that it looks at."""
    missing: Any = None
    shown: str = ""
    value: Any = ABSENT
    at: str | None = None
    form: str = ""
    """The type of which the answer shows the value as the API server has it in memory."""
    name: str = ""
    """The first word of the path."""
    plain: bool = False
    """Whether the field lies in the object itself."""
    each: bool = False
    """Whether it is the entries of a list that lies there."""
    passes: Callable[[Obj], object] | None = None
    optional: bool = False
    """Whether nothing is asked where the field, or the first one on the way to it, is missing."""

    def may_speak(self, fields: Collection[str]) -> bool:
        """Tell whether an object with these fields, and no others, may have something wrong by this rule."""
        if self.optional and self.name not in fields:
            return False
        return all(first in fields or holds({}) for first, holds in self.conditions)

    def ask(self, place: Place, found: list[FieldError]) -> None:
        """Add what is wrong with an object."""
        obj, name = place.value, self.name
        for _, holds in self.conditions:
            if not holds(obj):
                return
        if not self.plain and not self.each:
            for where, inner in walk(obj, self.path, place.path):
                self._ask(inner, where, place, found)
            return
        value: Any = obj.get(name) if name else obj
        if self.plain:
            self._ask(value, place.at(name), place, found)
        elif value:
            path = place.at(name)
            for at, inner in enumerate(value):
                self._ask(inner, f"{path}[{at}]", place, found)

    def _ask(self, value: Any, where: str, place: Place, found: list[FieldError]) -> None:
        """Add what is wrong with a field."""
        if value is None:
            value = self.missing
            if value is None and self.check not in ASKED_OF_NOTHING:
                return
        if self.at is not None:
            where = place.at(self.at)
        if self.conditions:
            value = self._shown(value, place)
        found += self.check(value, where, place, *self.arguments, **self.more)

    def _shown(self, asked: Any, place: Place) -> Any:
        """Return what the answer shows as the field's value."""
        if self.shown:
            return dig(place.value, self.shown)
        if self.value is not ABSENT:
            return self.value
        if self.form:
            return internal(self.form, asked)
        return "" if asked is None else asked


@cache
def _texts() -> tuple[tuple[Path, bytes], ...]:
    return tuple((path, path.read_bytes()) for path in sorted(TABLES.glob("*.yaml")))


@cache
def _table(path: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    table: dict[str, dict[str, list[dict[str, Any]]]] = data.read(path)
    return table


def _lines(part: str, name: str) -> list[dict[str, Any]]:
    """Return the lines of a kind or type. A table is parsed only when it has the name: a cluster starts with few."""
    heading = f"\n  {name}:".encode()
    tables = (_table(path).get(part, {}) for path, text in _texts() if heading in text)
    return next((table[name] for table in tables if name in table), [])


@cache
def rules_of(part: str, name: str) -> tuple[Rule, ...]:
    """Return the rules of a kind (part ``kinds``) or of a type (``types``)."""
    return tuple(rule for line in _lines(part, name) for path, asked in line.items() for rule in _rules(path, asked))


def errors_of(part: str, name: str, place: Place) -> list[FieldError]:
    """Return what is wrong with an object by the rules of its kind or type."""
    found: list[FieldError] = []
    obj = place.value
    for rule in _asked(part, name, tuple(obj)):
        if rule.passes is None or not rule.passes(obj):
            rule.ask(place, found)
    return found


@lru_cache(maxsize=8192)
def _asked(part: str, name: str, fields: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules that may have something to say of an object with some fields: few of many."""
    return tuple(rule for rule in rules_of(part, name) if rule.may_speak(fields))


def _rules(path: str, asked: str | dict[str, Any]) -> tuple[Rule, ...]:
    """Read a line; one that asks the rules of a type of the whole object stands for them."""
    if path == "" and isinstance(asked, dict) and list(asked) == ["is"]:
        return rules_of("types", asked["is"])
    return (_rule(path, asked),)


def _rule(path: str, asked: str | dict[str, Any]) -> Rule:
    """Read a line: a field, and a word or a word with what it needs."""
    more: dict[str, Any] = {asked: None} if isinstance(asked, str) else dict(asked)
    word = next(iter(more))
    argument, function = more.pop(word), CHECKS[word.replace("_", " ")]
    given = more.pop("if", {}).items()
    conditions = tuple((at.partition(".")[0].removesuffix("[]"), condition(at, wanted)) for at, wanted in given)
    beside: dict[str, Any] = {name: more.pop(name) for name in ("missing", "shown", "value", "at") if name in more}
    beside["form"] = more.pop("as", "")
    if word == "required" and conditions:
        beside["value"] = None
    if isinstance(argument, dict):
        more |= argument
        argument = None
    first, *rest = path.split(".")
    optional = path != "" and (bool(rest) or (function not in ASKED_OF_NOTHING and "missing" not in beside))
    arguments = () if argument is None else (argument,)
    name, many = first.removesuffix("[]"), first.endswith("[]")
    beside |= {"plain": not rest and not many, "each": not rest and many and name.find("[") < 0}
    if function in PASSING and beside["plain"] and not conditions:
        beside["passes"] = PASSING[function](name, *arguments, **more)
    return Rule(path, function, arguments, more, conditions, **beside, name=name, optional=optional)
