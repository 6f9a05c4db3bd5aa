"""Mistakes in the schema of a CustomResourceDefinition: in its structure, its defaults and its CEL rules.

Rules are looked at before any object is asked: how they are written, and whether they compile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.cel.program import CelError, compiled
from kubesim.custom import values
from kubesim.custom.rules import RULES
from kubesim.custom.values import INT_OR_STRING, LIST_TYPE, MAP_KEYS, PRESERVE
from kubesim.errors import Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.types import shape_of

TYPES = ("array", "boolean", "integer", "number", "object", "string")
UNIQUE = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
RULE = (
    ("Rule", "rule", ""), ("Message", "message", ""), ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None), ("FieldPath", "fieldPath", ""), ("OptionalOldSelf", "optionalOldSelf", None),
)  # fmt: skip
"""A rule as upstream shows it: the names in Go and in JSON, and what stands for nothing."""


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
    if schema.get(LIST_TYPE) == "map":
        yield from _key_errors(schema.get(MAP_KEYS) or (), schema.get("items") or {}, path)


_QUIET = re2.Options()
_QUIET.log_errors = False


def _pattern_error(pattern: str) -> str:
    """Return what Go says of a regular expression that is none."""
    try:
        re2.compile(pattern, _QUIET)
    except re2.error as error:
        name, _, part = error.args[0].decode("utf-8", "replace").partition(": ")
        return f"{name}: `{part}`"
    return ""


def _key_errors(keys: Sequence[str], items: Obj, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with what tells the entries of a list apart."""
    if not keys:
        yield required(f"{path}.{MAP_KEYS}", f"must not be empty if {LIST_TYPE} is map")
    for key in keys:
        if (items.get("properties") or {}).get(key, {}).get("type") in ("array", "object"):
            why = f"must be a scalar type if parent array's {LIST_TYPE} is map"
            yield invalid_value(f"{path}.items.properties[{key}].type", "object", why)


def _default_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    if "default" not in schema:
        return
    for error in values.errors_of(schema["default"], schema):
        place = "" if error.field == values.ROOT else f".{error.field}"
        yield FieldError(f"{path}.default{place}", error.reason, error.detail)


def errors(schema: Obj, path: str, wrong: list[str]) -> list[FieldError]:
    """Return what is wrong with the rules of a schema of whole objects; those around a ``wrong`` place are let be."""
    found: list[FieldError] = []
    for where, inner in _walk(schema, path):
        if not any(other.startswith(f"{where}.") for other in wrong):
            for at, entry in enumerate(inner.get(RULES) or ()):
                found += _entry_errors(entry, f"{where}.{RULES}[{at}]")
    return found


def _entry_errors(entry: Obj, where: str) -> Iterator[FieldError]:
    text, says = entry.get("rule") or "", entry.get("messageExpression") or ""
    if not text.strip():
        yield required(f"{where}.rule", "rule is not specified")
        return
    shown = {go: entry.get(name, empty) for go, name, empty in RULE}
    wrong = _complaint(text, "compilation failed")
    if wrong:
        yield invalid_value(f"{where}.rule", shown, wrong)
    if says.strip() and not wrong:
        unsaid = _complaint(says, "messageExpression compilation failed")
        if unsaid:
            yield invalid_value(f"{where}.messageExpression", shown, unsaid)


def _complaint(text: str, failed: str) -> str:
    """Return what is wrong with an expression; nothing where it compiles."""
    try:
        compiled(text)
    except CelError as error:
        return f"{failed}: {error}"
    return ""
