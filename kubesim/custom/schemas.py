"""Mistakes in the schema of a CustomResourceDefinition: in its structure, its defaults and its CEL rules.

Rules are looked at before any object is asked: how they are written, and whether they compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import re2

from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.cel.program import CelError, compiled
from kubesim.cel.syntax import mentions
from kubesim.custom import values
from kubesim.custom.rules import MAP_TYPE, RULES
from kubesim.custom.values import EMBEDDED, INT_OR_STRING, LIST_TYPE, MAP_KEYS, PRESERVE
from kubesim.errors import Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.types import shape_of

TYPES = ("array", "boolean", "integer", "number", "object", "string")
UNIQUE = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
NO_KEY = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
LIST_TYPES = ("atomic", "set", "map")
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


def schema_errors(schema: Obj, path: str, *, with_status: bool = False) -> list[FieldError]:
    """Return what is wrong with the schema of whole objects, whose status may be written by itself."""
    everything = list(_walk(schema, path))
    found = list(_status_errors(schema, path)) if with_status else []
    found += _root_errors(schema, path)
    found += [error for where, inner in everything for error in _structural_errors(inner, where, root=where == path)]
    found = found or [error for where, inner in everything for error in _default_errors(inner, where)]
    others = [error for where, inner in everything for error in _other_errors(inner, where)]
    rules = [] if found else errors(schema, path, [error.field for error in others])
    return found + others + rules


def _walk(schema: Obj, path: str) -> Iterator[tuple[str, Obj]]:
    """Yield every schema inside one, itself included, with its path."""
    yield path, schema
    inner = [(f"properties[{name}]", found) for name, found in sorted((schema.get("properties") or {}).items())]
    inner += [(step, schema.get(step)) for step in ("items", "additionalProperties")]
    for step, found in inner:
        if isinstance(found, dict):
            yield from _walk(found, f"{path}.{step}")


def _status_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind != "object":
        why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid_value(f"{path}.type", kind, why)


def _root_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    if not kind:
        yield required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")
    if schema.get("nullable"):
        yield forbidden_field(f"{path}.nullable", "nullable cannot be true at the root")


def _structural_errors(schema: Obj, path: str, *, root: bool) -> Iterator[FieldError]:
    """Yield where a schema does not say of what type a value is."""
    shape = shape_of("V1JSONSchemaProps")
    try:
        schema = Decoder().object(shape, schema) if shape is not None else schema
    except DecodeError as error:
        yield invalid_value(path, "", str(error))
        return
    if not root and not schema.get("type") and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        what = "array items" if path.endswith(".items") else "object fields"
        yield required(f"{path}.type", f"must not be empty for specified {what}")
    if schema.get("type") == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")


def _other_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    kind, extra = schema.get("type"), schema.get("additionalProperties")
    if kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    if (pattern := schema.get("pattern")) and (why := _pattern_error(pattern)):
        text = f"must be a valid regular expression, but isn't: error parsing regexp: {why}"
        yield invalid_value(f"{path}.pattern", pattern, text)
    if schema.get("uniqueItems"):
        yield forbidden_field(f"{path}.uniqueItems", UNIQUE)
    if schema.get("properties") and (isinstance(extra, dict) or extra is False):
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", why)
    yield from _list_type_errors(schema, path)
    yield from written_errors(schema, path)


_QUIET = re2.Options()
_QUIET.log_errors = False


_GO = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
"""What Go calls what its sister calls otherwise."""


def _pattern_error(pattern: str) -> str:
    """Return what Go says of a regular expression that is none."""
    try:
        re2.compile(pattern, _QUIET)
    except re2.error as error:
        name, _, part = error.args[0].decode("utf-8", "replace").partition(": ")
        return f"{_GO.get(name, name)}: `{part}`"
    return ""


def _list_type_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    form, kind, keys = schema.get("type"), schema.get(LIST_TYPE), schema.get(MAP_KEYS)
    if kind and form != "array":
        why = f"must be array if {LIST_TYPE} is specified"
        yield invalid_value(f"{path}.type", form, why) if form else required(f"{path}.type", why)
    if kind is not None and kind not in LIST_TYPES:
        yield unsupported(f"{path}.{LIST_TYPE}", kind, LIST_TYPES)
    if keys and kind != "map":
        why = f"must be map if {MAP_KEYS} is non-empty"
        yield invalid_value(f"{path}.{LIST_TYPE}", kind, why) if kind else required(f"{path}.{LIST_TYPE}", why)
    if kind == "map":
        yield from _key_errors(keys or [], schema.get("items") or {}, path)


def _key_errors(keys: list[str], items: Obj, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with what tells the entries of a list apart."""
    where, known = f"{path}.{MAP_KEYS}", items.get("properties") or {}
    if not keys:
        yield required(where, f"must not be empty if {LIST_TYPE} is map")
    if items.get("type") != "object":
        why = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid_value(f"{path}.items.type", items.get("type", ""), why)
        return
    for at, key in enumerate(keys):
        if key not in known:
            yield invalid_value(where, keys, "entries must all be names of item properties")
        elif known[key].get("type") in ("array", "object"):
            why = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid_value(f"{path}.items.properties[{key}].type", "object", why)
        if key in keys[:at]:
            yield invalid_value(where, keys, "must not contain duplicate entries")
    for key in keys:
        if key in known and "default" not in known[key] and key not in (items.get("required") or ()):
            yield required(f"{path}.items.properties[{key}].default", NO_KEY)


def _default_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    if "default" not in schema:
        return
    for error in values.errors_of(schema["default"], schema):
        place = "" if error.field == values.ROOT else f".{error.field}"
        yield FieldError(f"{path}.default{place}", error.reason, error.detail)


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
