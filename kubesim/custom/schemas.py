"""What is wrong with the schema of a CustomResourceDefinition: its structure, its defaults and its rules."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.custom import expressions, values
from kubesim.custom.structural import INT_OR_STRING, LIST_TYPE, MAP_KEYS, PRESERVE
from kubesim.errors import Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.types import shape_of

TYPES = ("array", "boolean", "integer", "number", "object", "string")
UNIQUE = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
NO_KEY = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
LIST_TYPES = ("atomic", "set", "map")


def schema_errors(schema: Obj, path: str, *, with_status: bool = False) -> list[FieldError]:
    """Return what is wrong with the schema of whole objects, whose status may be written by itself."""
    everything = list(_walk(schema, path))
    found = list(_status_errors(schema, path)) if with_status else []
    found += _root_errors(schema, path)
    found += [error for where, inner in everything for error in _structural_errors(inner, where, root=where == path)]
    found = found or [error for where, inner in everything for error in _default_errors(inner, where)]
    others = [error for where, inner in everything for error in _other_errors(inner, where)]
    rules = [] if found else expressions.errors(schema, path, [error.field for error in others])
    return found + others + rules


def _walk(schema: Obj, path: str) -> Iterator[tuple[str, Obj]]:
    """Yield every schema inside one, itself included, with its path."""
    yield path, schema
    inner = [(f"properties[{name}]", found) for name, found in sorted((schema.get("properties") or {}).items())]
    for step in ("items", "additionalProperties"):
        inner.append((step, schema.get(step)))
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
    yield from expressions.written_errors(schema, path)


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
