"""What is wrong with the schema of a CustomResourceDefinition: its structure, its defaults and its rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.cel import CelError, compiled
from kubesim.custom import values
from kubesim.custom.rules import RULES
from kubesim.custom.structural import INT_OR_STRING, LIST_TYPE, MAP_KEYS, PRESERVE
from kubesim.errors import Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.types import shape_of

TYPES = ("array", "boolean", "integer", "number", "object", "string")
EMPTY_TYPE = "must not be empty for specified object fields"
LIST_TYPES = ("atomic", "set", "map")


def schema_errors(schema: Obj, path: str) -> list[FieldError]:
    """Return what is wrong with the schema of whole objects."""
    root = []
    if schema.get("type") != "object":
        root.append(required(f"{path}.type", "must not be empty at the root") if not schema.get("type") else
                    invalid_value(f"{path}.type", schema["type"], "must be object at the root"))  # fmt: skip
    if schema.get("nullable"):
        root.append(forbidden_field(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = root + list(_inner_errors(schema, path))
    return structural or [error for where, inner in _walk(schema, path) for error in _content_errors(inner, where)]


def _walk(schema: Obj, path: str) -> Iterator[tuple[str, Obj]]:
    """Yield every schema inside one, itself included, with its path."""
    yield path, schema
    inner = [(f"properties[{name}]", found) for name, found in sorted(schema.get("properties", {}).items())]
    for step, found in (
        *inner,
        ("items", schema.get("items")),
        ("additionalProperties", schema.get("additionalProperties")),
    ):
        if isinstance(found, dict):
            yield from _walk(found, f"{path}.{step}")


def _content_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    yield from _default_errors(schema, path)
    yield from _rule_errors(schema, path)


def _inner_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    """Yield what is wrong below a schema whose own type is known to be right."""
    yield from _list_type_errors(schema, path)
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    for name, inner in sorted(schema.get("properties", {}).items()):
        yield from _field_errors(inner, f"{path}.properties[{name}]", EMPTY_TYPE)
    items = schema.get("items")
    if schema.get("type") == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _field_errors(items, f"{path}.items", "must not be empty for specified array items")
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        words = "must not be empty for specified object fields"
        yield from _field_errors(extra, f"{path}.additionalProperties", words)


def _field_errors(schema: Obj, path: str, empty: str) -> Iterator[FieldError]:
    """Yield what is wrong with the schema of a field, its type first."""
    shape = shape_of("V1JSONSchemaProps")
    try:
        schema = Decoder().object(shape, schema) if shape is not None else schema
    except DecodeError as error:
        yield invalid_value(path, "", str(error))
        return
    kind = schema.get("type")
    if not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(f"{path}.type", empty)
    elif kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    if (pattern := schema.get("pattern")) and not _compiles(pattern):
        yield invalid_value(f"{path}.pattern", pattern, "must be a valid regular expression, but isn't")
    yield from _inner_errors(schema, path)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern.replace(r"\z", r"\Z"))
    except re.error:
        return False
    return True


def _list_type_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    kind, keys = schema.get(LIST_TYPE), schema.get(MAP_KEYS)
    if kind and kind not in LIST_TYPES:
        yield unsupported(f"{path}.{LIST_TYPE}", kind, LIST_TYPES)
    if kind == "map" and not keys:
        yield required(f"{path}.{MAP_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    if keys and kind != "map":
        yield forbidden_field(f"{path}.{MAP_KEYS}", "must not be specified if x-kubernetes-list-type is not map")


def _default_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    if "default" not in schema:
        return
    yield from values.errors_of(schema["default"], schema, f"{path}.default")


def _rule_errors(schema: Obj, path: str) -> Iterator[FieldError]:
    for at, entry in enumerate(schema.get(RULES, ())):
        here = f"{path}.{RULES}[{at}]"
        yield from _expression_errors(entry.get("rule", ""), f"{here}.rule")
        if expression := entry.get("messageExpression"):
            yield from _expression_errors(expression, f"{here}.messageExpression")


def _expression_errors(text: str, path: str) -> Iterator[FieldError]:
    if not text.strip():
        yield required(path, "rule is not specified")
        return
    try:
        compiled(text)
    except CelError as error:
        yield invalid_value(path, text, f"compilation failed: {error}")
