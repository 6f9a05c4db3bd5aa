"""Mistakes in the CEL rules of a schema, before any object is asked: of form, and rules that do not compile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kubesim.api.status import FieldError, invalid_value, required, unsupported
from kubesim.cel.program import CelError, compiled
from kubesim.cel.syntax import mentions
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


@dataclass(frozen=True, slots=True)
class Level:
    """A schema within another: where it is, and within what nobody can tell which value one was before."""

    schema: Obj
    path: str
    lost: str = ""
    whole: bool = False

    def inside(self) -> Iterator[Level]:
        """Yield the schemas directly in this one."""
        extra, items = self.schema.get("additionalProperties"), self.schema.get("items")
        if isinstance(extra, dict):
            yield self._at(extra, "additionalProperties", self.lost)
        lost = self.lost or (self.path if self.schema.get(MAP_TYPE) == "atomic" else "")
        for name, inner in sorted((self.schema.get("properties") or {}).items()):
            yield self._at(inner, f"properties[{name}]", lost)
        if isinstance(items, dict):
            lost = self.lost or ("" if self.schema.get(LIST_TYPE) == "map" else self.path)
            yield self._at(items, "items", lost)

    def _at(self, schema: Obj, step: str, lost: str) -> Level:
        return Level(schema, f"{self.path}.{step}", lost, bool(schema.get(EMBEDDED)))


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
    return list(_errors_of(Level(schema, path, whole=True), wrong))


def _errors_of(level: Level, wrong: list[str]) -> Iterator[FieldError]:
    """Yield what is wrong with the rules of a schema, those within it first."""
    for inner in level.inside():
        yield from _errors_of(inner, wrong)
    if not level.schema.get(RULES) or any(where.startswith(f"{level.path}.") for where in wrong):
        return
    for at, entry in enumerate(level.schema[RULES]):
        yield from _entry_errors(entry, f"{level.path}.{RULES}[{at}]", level)


def _entry_errors(entry: Obj, where: str, level: Level) -> Iterator[FieldError]:
    text, says = entry.get("rule") or "", entry.get("messageExpression") or ""
    if not text.strip():
        return
    shown = {go: entry.get(name, empty) for go, name, empty in RULE}
    wrong = _complaint(text, "compilation failed")
    if wrong:
        yield invalid_value(f"{where}.rule", shown, wrong)
    if says.strip() and not wrong:
        unsaid = _complaint(says, "messageExpression compilation failed")
        if unsaid:
            yield invalid_value(f"{where}.messageExpression", shown, unsaid)
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


def _complaint(text: str, failed: str) -> str:
    """Return what is wrong with an expression; nothing where it compiles."""
    try:
        compiled(text)
    except CelError as error:
        return f"{failed}: {error}"
    return ""
