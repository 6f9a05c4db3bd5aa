"""What CEL rules see of a schema: the types of its values, how large they may be, and the values themselves."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubesim.cel.types import Type
from kubesim.cel.values import CelError, Unordered, duration, timestamp
from kubesim.custom.structural import EMBEDDED, INT_OR_STRING, LIST_TYPE, OWN
from kubesim.errors import Obj

REQUEST_SIZE = 3 * 1024 * 1024
"""The size of the largest request."""
RESERVED = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import")
    + ("let", "loop", "package", "namespace", "return", "var", "void", "while")
)
ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
SPECIAL = re.compile(r"__|[-./]")
NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
LONGEST = {"duration": 32, "date": 12, "date-time": 32}
SHORTEST = {"duration": 3, "date": 12, "date-time": 21}
FORMATS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
TEXT: Obj = {"type": "string"}
META: Obj = {"type": "object", "properties": {"name": TEXT, "generateName": TEXT}}


@dataclass(frozen=True, slots=True)
class Declared:
    """A type: how many elements a value of it has at most, and how short it is at least when it is written."""

    type: Type
    most: int = 0
    least: int = 2
    fields: dict[str, Declared] = field(default_factory=dict)
    item: Declared | None = None


def escaped(name: str) -> str | None:
    """Return how expressions call a property; None for one of which they cannot speak."""
    if name in RESERVED:
        return f"__{name}__"
    return SPECIAL.sub(lambda found: ESCAPES[found[0]], name) if NAME.fullmatch(name) else None


def declared(schema: Obj, *, whole: bool = False, name: str = "object") -> Declared | None:
    """Return the type of a schema's values; None for one that expressions do not see. ``whole``: of the API."""
    if schema.get(INT_OR_STRING):
        return Declared("dyn", _most_text(schema), 1)
    match schema.get("type"):
        case "array":
            return _list(schema, name)
        case "object":
            return _object(schema, whole=whole, name=name)
        case "string":
            return _text(schema)
        case kind:
            scalars = {
                "boolean": Declared("bool", 0, 4),
                "number": Declared("double", 0, 1),
                "integer": Declared("int", 0, 1),
            }
            return scalars.get(str(kind))


def _text(schema: Obj) -> Declared:
    form = schema.get("format", "")
    return Declared(FORMATS.get(form, "string"), _most_text(schema), SHORTEST.get(form, 2))


def _most_text(schema: Obj) -> int:
    form, longest, choices = schema.get("format", ""), schema.get("maxLength"), schema.get("enum")
    if form in LONGEST:
        return LONGEST[form]
    if longest is not None:
        return int(max(longest, 0)) * (1 if form == "byte" else 4)
    if choices and form != "byte" and not schema.get(INT_OR_STRING):
        return max((len(choice.encode()) for choice in choices if isinstance(choice, str)), default=0)
    return REQUEST_SIZE - 2


def _list(schema: Obj, name: str) -> Declared | None:
    items = schema.get("items") or {}
    item = declared(items, whole=bool(items.get(EMBEDDED)), name=f"{name}.@idx")
    if item is None:
        return None
    most = schema.get("maxItems")
    return Declared(
        ("list", item.type), (REQUEST_SIZE - 2) // (item.least + 1) if most is None else max(most, 0), item=item
    )


def _object(schema: Obj, *, whole: bool, name: str) -> Declared | None:
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict) and not whole:
        item = declared(extra, whole=bool(extra.get(EMBEDDED)), name=f"{name}.@elem")
        most = schema.get("maxProperties")
        if item is None:
            return None
        count = (REQUEST_SIZE - 2) // (item.least + 6) if most is None else max(most, 0)
        return Declared(("map", "string", item.type), count, item=item)
    known, least = {}, 2
    for key, inner in properties(schema, whole=whole).items():
        called = escaped(key)
        found = declared(inner, whole=bool(inner.get(EMBEDDED)), name=f"{name}.{called}")
        if found is None:
            continue
        if called is not None:
            known[called] = found
        if key in (schema.get("required") or ()) and "default" not in inner:
            least += len(key.encode()) + found.least + 4
    kinds = {key: found.type for key, found in known.items()}
    return Declared(("object", kinds.get, name), 0, least, known)


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
