"""CEL rules of schemas (x-kubernetes-validations): compiled once, run on every object that passed its schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from kubesim.api.status import FieldError
from kubesim.cel.program import Program, compiled
from kubesim.cel.run import Meter
from kubesim.cel.syntax import mentions
from kubesim.cel.values import NO_OVERLOAD, CelError, CostError, Optional, Unordered, duration, timestamp
from kubesim.custom.values import EMBEDDED, LIST_TYPE, OWN, ROOT, entries_before
from kubesim.errors import Obj

RULES = "x-kubernetes-validations"
MAP_TYPE = "x-kubernetes-map-type"
BUDGET = 10_000_000
"""The most that all rules of an object may cost together."""
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
UNFIT = "call arguments did not match a supported operator, function or macro signature for rule"
TOO_DEAR = "no further validation rules will be run due to call cost exceeds limit for"
LONGEST_MESSAGE = 5 * 1024
WORDS = {"FieldValueForbidden": "Forbidden: {said}", "FieldValueRequired": "Required value: {said}",
         "FieldValueDuplicate": "Duplicate value: {shown}"}  # fmt: skip
"""By a rule's reason: what is said where it does not hold; "Invalid value" for others."""
RESERVED = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import")
    + ("let", "loop", "package", "namespace", "return", "var", "void", "while")
)
ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
SPECIAL = re.compile(r"__|[-./]")
NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
TEXT: Obj = {"type": "string"}
META: Obj = {"type": "object", "properties": {"name": TEXT, "generateName": TEXT}}


class _Stop(Exception):
    """Nothing more is to be asked of an object; ``why`` is what is said."""

    def __init__(self, why: str) -> None:
        self.why = why


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, and what is said where it does not hold; a transition rule speaks of the value before a change."""

    program: Program
    named: str
    message: str
    expression: str
    transition: bool
    optional: bool
    reason: str
    field: str


@dataclass(frozen=True, slots=True)
class Spot:
    """A value of an object that rules are asked of."""

    value: Any
    old: Any
    schema: Obj
    path: str
    unchanged: bool
    """Whether it, or what holds it, is as it was before: then a rule that is new has nothing to say of it."""
    whole: bool = False

    def inside(self, value: Any, old: Any, schema: Obj, path: str) -> Spot:
        """Return a value in this one."""
        unchanged = self.unchanged if old is None else value == old
        return Spot(value, old, schema, path, unchanged, bool(schema.get(EMBEDDED)))


def has_rules(schema: Any) -> bool:
    """Tell whether a schema has any rule."""
    if isinstance(schema, dict):
        return RULES in schema or any(has_rules(value) for value in schema.values())
    return isinstance(schema, list) and any(has_rules(value) for value in schema)


def rule_errors(obj: Obj, old: Obj | None, schema: Obj, told: list[str]) -> Iterator[FieldError]:
    """Yield an error for every rule that does not hold for an object; ``old`` is what it was before a change.

    What is wrong with values that have not changed goes into ``told``.
    """
    judge, spot = _Judge(told), Spot(obj, old, schema, "", obj == old, whole=True)
    try:
        yield from judge.visit(spot)
    except _Stop as stop:
        yield FieldError(judge.where, "FieldValueInvalid", stop.why)


def _spots(spot: Spot) -> Iterator[Spot]:
    """Yield what is directly in a value."""
    value, old, schema = spot.value, spot.old, spot.schema
    if isinstance(value, dict):
        extra = schema.get("additionalProperties")
        before = old if isinstance(old, dict) and schema.get(MAP_TYPE) != "atomic" else {}
        for name, item in sorted(value.items()):
            known = schema.get("properties", {}).get(name)
            inner = known or (extra if isinstance(extra, dict) else None)
            path = f"{spot.path}.{name}" if spot.path else name
            if inner:
                yield spot.inside(item, before.get(name), inner, path if known else f"{spot.path}[{name}]")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        entry_of = entries_before(old, schema)
        for at, item in enumerate(value):
            yield spot.inside(item, entry_of(item), schema["items"], f"{spot.path}[{at}]")


@lru_cache(2048)
def _rule(written: bytes) -> Rule:
    entry = orjson.loads(written)
    text, message = entry["rule"], entry.get("message", "").strip()
    program = compiled(text)
    return Rule(
        program,
        message or text.strip(),
        message or f"failed rule: {text.strip()}",
        entry.get("messageExpression", ""),
        mentions(program.tree, "oldSelf"),
        bool(entry.get("optionalOldSelf")),
        entry.get("reason") or "FieldValueInvalid",
        entry.get("fieldPath", ""),
    )


class _Judge:
    """Asks the rules of one object until they have cost too much together."""

    def __init__(self, told: list[str]) -> None:
        self._told = told
        self._left = BUDGET
        self.where = ROOT

    def visit(self, spot: Spot) -> Iterator[FieldError]:
        """Yield an error for every rule that does not hold, of a value and of all that is in it. Raises _Stop."""
        if spot.value is None:
            return
        if entries := spot.schema.get(RULES):
            yield from self._ask(entries, spot)
        for inner in _spots(spot):
            yield from self.visit(inner)

    def _ask(self, entries: list[Obj], spot: Spot) -> Iterator[FieldError]:
        self.where = spot.path or ROOT
        value = seen(spot.value, spot.schema, whole=spot.whole)
        old = None if spot.old is None else seen(spot.old, spot.schema, whole=spot.whole)
        for entry in entries:
            rule = _rule(orjson.dumps(entry))
            if rule.transition and spot.old is None and not rule.optional:
                continue
            before = Optional(spot.old is not None, old) if rule.optional else old
            yield from self._check(rule, spot, {"self": value, "oldSelf": before})

    def _run(self, program: Program, names: Obj, spent: str) -> Any:
        """Return an expression's value. Raises CelError, and _Stop where it costs too much."""
        meter = Meter()
        try:
            return program.run(names, None, meter)
        finally:
            self._left -= meter.spent
            if self._left < 0:
                raise _Stop(spent)

    def _check(self, rule: Rule, spot: Spot, names: Obj) -> Iterator[FieldError]:
        where, shown = spot.path or ROOT, f'"{spot.schema.get("type", "")}"'
        invalid = f"Invalid value: {shown}: "
        try:
            if self._run(rule.program, names, invalid + SPENT) is True:
                return
        except CostError as error:
            raise _Stop(f"{invalid}'{error}': {TOO_DEAR} rule: {rule.named}") from error
        except CelError as error:
            unfit = str(error).startswith(NO_OVERLOAD)
            said = f"'{error}': {UNFIT}: {rule.named}" if unfit else f"{error} evaluating rule: {rule.named}"
            yield FieldError(where, "FieldValueInvalid", invalid + said)
            return
        said = self._said(rule, names, invalid)
        text = WORDS.get(rule.reason, invalid + "{said}").replace("{said}", said).replace("{shown}", shown)
        found = FieldError(f"{spot.path}{rule.field}".removeprefix(".") or ROOT, rule.reason, text)
        if rule.transition or not spot.unchanged:
            yield found
        else:
            self._told.append(found.text())

    def _said(self, rule: Rule, names: Obj, invalid: str) -> str:
        """Return what is said of a rule that does not hold; a message that cannot be made is replaced."""
        if not rule.expression:
            return rule.message
        try:
            found = self._run(compiled(rule.expression), names, f"{invalid}messageExpression evaluation {SPENT[11:]}")
        except CostError as error:
            raise _Stop(f'{invalid}{TOO_DEAR} messageExpression: "{rule.expression}"') from error
        except CelError:
            return rule.message
        text = found.strip() if isinstance(found, str) else ""
        return text if text and "\n" not in text and len(text.encode()) <= LONGEST_MESSAGE else rule.message


def escaped(name: str) -> str | None:
    """Return how expressions call a property; None for one of which they cannot speak."""
    if name in RESERVED:
        return f"__{name}__"
    return SPECIAL.sub(lambda found: ESCAPES[found[0]], name) if NAME.fullmatch(name) else None


def properties(schema: Obj, *, whole: bool) -> Obj:
    """Return the properties that expressions see; those of every object of the API need not be in its schema."""
    found: Obj = schema.get("properties") or {}
    return {**found, "kind": TEXT, "apiVersion": TEXT, "metadata": META} if whole else found


def seen(value: Any, schema: Obj, *, whole: bool = False) -> Any:
    """Return a value as expressions see it: times are times, and properties have the names that they can say."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        made = [seen(item, items, whole=bool(items.get(EMBEDDED))) for item in value]
        return Unordered(made) if schema.get(LIST_TYPE) in ("set", "map") else made
    if isinstance(value, dict):
        return _seen_object(value, schema, whole=whole)
    if isinstance(value, int) and not isinstance(value, bool) and schema.get("type") == "number":
        return float(value)
    read = _READ.get(schema.get("format", "")) if isinstance(value, str) and schema.get("type") == "string" else None
    try:
        return read(value) if read is not None else value
    except (CelError, ValueError):
        return value


def _seen_object(value: Obj, schema: Obj, *, whole: bool) -> Obj:
    extra = schema.get("additionalProperties")
    known = properties(schema, whole=whole)
    found = {}
    for name, item in value.items():
        inner = known.get(name)
        if inner is not None:
            if (called := escaped(name)) is not None:
                found[called] = seen(item, inner, whole=bool(inner.get(EMBEDDED)))
        elif isinstance(extra, dict):
            found[name] = seen(item, extra)
        elif name not in OWN:
            found[name] = item
    return found


_READ: dict[str, Callable[[str], Any]] = {
    "date-time": timestamp, "date": lambda text: timestamp(f"{text}T00:00:00Z"), "duration": duration,
}  # fmt: skip
