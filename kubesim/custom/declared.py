"""What CEL rules see of a schema: the types of its values, and the values themselves."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubesim.cel.types import Type
from kubesim.cel.values import CelError, Unordered, duration, timestamp
from kubesim.custom.structural import EMBEDDED, INT_OR_STRING, LIST_TYPE, OWN
from kubesim.errors import Obj

RESERVED = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import")
    + ("let", "loop", "package", "namespace", "return", "var", "void", "while")
)
ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
SPECIAL = re.compile(r"__|[-./]")
NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
FORMATS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
TEXT: Obj = {"type": "string"}
META: Obj = {"type": "object", "properties": {"name": TEXT, "generateName": TEXT}}


def escaped(name: str) -> str | None:
    """Return how expressions call a property; None for one of which they cannot speak."""
    if name in RESERVED:
        return f"__{name}__"
    return SPECIAL.sub(lambda found: ESCAPES[found[0]], name) if NAME.fullmatch(name) else None


def declared(schema: Obj, *, whole: bool = False, name: str = "object") -> Type | None:
    """Return the type of a schema's values; None for one that expressions do not see. ``whole``: of the API."""
    if schema.get(INT_OR_STRING):
        return "dyn"
    match schema.get("type"):
        case "array":
            items = schema.get("items") or {}
            item = declared(items, whole=bool(items.get(EMBEDDED)), name=f"{name}.@idx")
            return None if item is None else ("list", item)
        case "object":
            return _object(schema, whole=whole, name=name)
        case "string":
            return FORMATS.get(schema.get("format", ""), "string")
        case kind:
            return SCALARS.get(str(kind))


def _object(schema: Obj, *, whole: bool, name: str) -> Type | None:
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict) and not whole:
        item = declared(extra, whole=bool(extra.get(EMBEDDED)), name=f"{name}.@elem")
        return None if item is None else ("map", "string", item)
    kinds = {}
    for key, inner in properties(schema, whole=whole).items():
        called = escaped(key)
        found = declared(inner, whole=bool(inner.get(EMBEDDED)), name=f"{name}.{called}")
        if called is not None and found is not None:
            kinds[called] = found
    return ("object", kinds.get, name)


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


def _date(text: str) -> datetime:
    return timestamp(f"{text}T00:00:00Z")


_READ: dict[str, Callable[[str], Any]] = {
    "date-time": timestamp, "date": _date, "duration": duration, "byte": base64.b64decode,
}  # fmt: skip
