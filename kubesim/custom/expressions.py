"""What is wrong with the CEL rules of a schema before any object is asked: their types, and what they may cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.cel.estimate import UNBOUNDED, estimated
from kubesim.cel.literals import unfoldable
from kubesim.cel.program import CelError, compiled
from kubesim.cel.syntax import mentions
from kubesim.cel.types import UNKNOWN, Checked, checked, optional
from kubesim.custom.declared import REQUEST_SIZE, Declared, declared
from kubesim.custom.rules import MAP_TYPE, RULES
from kubesim.custom.structural import EMBEDDED, LIST_TYPE
from kubesim.errors import Obj

RULE = (
    ("Rule", "rule", ""), ("Message", "message", ""), ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None), ("FieldPath", "fieldPath", ""), ("OptionalOldSelf", "optionalOldSelf", None),
)  # fmt: skip
"""A rule as upstream shows it: the names in Go and in JSON, and what stands for nothing."""
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
NOT_EMPTY, ONE_LINE = "must be non-empty if specified", "must not contain line breaks"
BREAK = re.compile(r"[\n\r]")
STEP = re.compile(r"\.([^.\[\]'\s]+)|\['((?:\\.|[^'])+)'\]")
"""A step of the path to a field: a property, or a key of a map."""
LIMIT, LIMIT_OF_ALL = 10_000_000, 100_000_000
"""What a rule, and what all rules of a version, may cost at most."""
MOST_SHOWN = 4
CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
OF_ALL = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"


@dataclass(frozen=True, slots=True)
class Level:
    """A schema within another: where it is, how often values of it may be in an object (None: nobody knows), and
    within what nobody can tell which value one was before."""

    schema: Obj
    path: str
    often: int | None = 1
    lost: str = ""
    whole: bool = False

    def inside(self) -> Iterator[Level]:
        """Yield the schemas directly in this one."""
        extra, items = self.schema.get("additionalProperties"), self.schema.get("items")
        if isinstance(extra, dict):
            yield self._at(extra, "additionalProperties", self.schema.get("maxProperties"), self.lost)
        lost = self.lost or (self.path if self.schema.get(MAP_TYPE) == "atomic" else "")
        for name, inner in sorted((self.schema.get("properties") or {}).items()):
            yield self._at(inner, f"properties[{name}]", 1, lost)
        if isinstance(items, dict):
            lost = self.lost or ("" if self.schema.get(LIST_TYPE) == "map" else self.path)
            yield self._at(items, "items", self.schema.get("maxItems"), lost)

    def _at(self, schema: Obj, step: str, most: int | None, lost: str) -> Level:
        often = None if self.often is None or most is None else self.often * max(most, 0)
        return Level(schema, f"{self.path}.{step}", often, lost, bool(schema.get(EMBEDDED)))


@dataclass(slots=True)
class _Found:
    """What has been found of all rules of a schema."""

    wrong: list[str]
    errors: list[FieldError] = field(default_factory=list)
    costs: list[tuple[int, str]] = field(default_factory=list)


def written_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with how the rules of one schema are written."""
    for at, entry in enumerate(schema.get(RULES, ())):
        yield from _written_errors(entry, f"{path}.{RULES}[{at}]", schema)


def _written_errors(entry: Obj, where: str, schema: Obj) -> Iterator[FieldError]:
    rule, message, says, reason, leads = (
        entry.get(name) or "" for name in ("rule", "message", "messageExpression", "reason", "fieldPath")
    )
    if not rule.strip():
        yield required(f"{where}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{where}.message", message, NOT_EMPTY)
    elif BREAK.search(message.strip()):
        yield invalid_value(f"{where}.message", message, ONE_LINE)
    elif BREAK.search(rule.strip()) and not message:
        yield required(f"{where}.message", "message must be specified if rule contains line breaks")
    if says and not says.strip():
        yield required(f"{where}.messageExpression", f"messageExpression {NOT_EMPTY}")
    if reason and reason not in REASONS:
        yield unsupported(f"{where}.reason", reason, REASONS)
    if leads and not leads.strip():
        yield invalid_value(f"{where}.fieldPath", leads, NOT_EMPTY)
    if BREAK.search(leads):
        yield invalid_value(f"{where}.fieldPath", leads, ONE_LINE)
    if leads and not _leads(schema, leads):
        yield invalid_value(f"{where}.fieldPath", leads, "must be a valid path")


def _leads(schema: Obj, path: str) -> bool:
    """Tell whether a path leads to something within a schema."""
    at, inner = 0, schema
    while at < len(path):
        step = STEP.match(path, at)
        if step is None:
            return False
        known, extra = inner.get("properties") or {}, inner.get("additionalProperties")
        name = step[1] or step[2]
        found = known.get(name, extra if step[2] else None)
        if not isinstance(found, dict):
            return False
        at, inner = step.end(), found
    return True


def errors(schema: Obj, path: str, wrong: list[str]) -> list[FieldError]:
    """Return what is wrong with the rules of a schema of whole objects; those around a ``wrong`` place are let be."""
    found = _Found(wrong)
    _visit(Level(schema, path, whole=True), found)
    total = min(UNBOUNDED, sum(cost for cost, _ in found.costs))
    if total > LIMIT_OF_ALL:
        dear = sorted(
            (entry for entry in found.costs if entry[0] >= LIMIT_OF_ALL // 100), key=lambda entry: -entry[0]
        )
        found.errors += [forbidden_field(where, CONTRIBUTED) for _, where in dear[:MOST_SHOWN]]
        found.errors.append(forbidden_field(path, _too_dear(OF_ALL, total, LIMIT_OF_ALL)))
    return found.errors


def _visit(level: Level, found: _Found) -> None:
    """Look at the rules of a schema, those within it first."""
    for inner in level.inside():
        _visit(inner, found)
    if not level.schema.get(RULES) or any(where.startswith(f"{level.path}.") for where in found.wrong):
        return
    known = declared(level.schema, whole=level.whole, name="selfType")
    for at, entry in enumerate(level.schema[RULES]):
        where = f"{level.path}.{RULES}[{at}]"
        found.errors += _entry_errors(entry, where, level, known, found.costs)


def _entry_errors(
    entry: Obj, where: str, level: Level, known: Declared | None, costs: list[tuple[int, str]]
) -> Iterator[FieldError]:
    text, says = entry.get("rule") or "", entry.get("messageExpression") or ""
    if not text.strip() or known is None:
        return
    shown = {go: entry.get(name, empty) for go, name, empty in RULE}
    of_old = optional(known.type) if entry.get("optionalOldSelf") else known.type
    names = {"self": known.type, "oldSelf": of_old}
    wrong, found = _compiled(text, names, "bool", "cel expression must evaluate to a bool", "compilation failed")
    if wrong:
        yield invalid_value(f"{where}.rule", shown, wrong)
    else:
        often = level.often if level.often is not None else REQUEST_SIZE // (known.least + 1)
        cost = min(UNBOUNDED, estimated(found, {"self": known, "oldSelf": known}) * often)
        yield from _cost_errors(cost, f"{where}.rule", "estimated rule cost", costs)
    if says.strip() and not wrong:
        must = "messageExpression must evaluate to a string"
        unsaid, found = _compiled(says, names, "string", must, "messageExpression compilation failed")
        if unsaid:
            yield invalid_value(f"{where}.messageExpression", shown, unsaid)
        else:
            cost = min(UNBOUNDED, estimated(found, {"self": known, "oldSelf": known}))
            yield from _cost_errors(cost, f"{where}.messageExpression", "estimated messageExpression cost", costs)
    yield from _transition_errors(entry, where, level, wrong=bool(wrong))


def _transition_errors(entry: Obj, where: str, level: Level, *, wrong: bool) -> Iterator[FieldError]:
    """Yield what is wrong with how a rule speaks of the value before a change."""
    uses = not wrong and mentions(compiled(entry["rule"]).tree, "oldSelf")
    if uses and level.lost:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {level.lost}"
        yield invalid_value(f"{where}.rule", entry["rule"], why)
    if not uses and entry.get("optionalOldSelf") is not None:
        why = "may not be set if oldSelf is not used in rule"
        yield invalid_value(f"{where}.optionalOldSelf", entry["optionalOldSelf"], why)


def _compiled(text: str, names: Obj, kind: str, must: str, failed: str) -> tuple[str, Checked]:
    """Return what is wrong with an expression, and what is known of it."""
    try:
        compiled(text)
    except CelError as error:
        return f"{failed}: {error}", Checked()
    found = checked(text, names)
    if found.faults:
        return f"{failed}: {found.text(text)}", found
    if found.tree is not None and (why := unfoldable(found.tree)):
        return why, found
    return ("" if found.type in (kind, UNKNOWN) else must), found


def _cost_errors(cost: int, where: str, what: str, costs: list[tuple[int, str]]) -> Iterator[FieldError]:
    costs.append((cost, where))
    if cost > LIMIT:
        yield forbidden_field(where, _too_dear(what, cost, LIMIT))


def _too_dear(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {ADVICE}"
