"""Values of a schema as its CEL rules see them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubesim.cel.values import CelError, Unordered, duration, timestamp
from kubesim.custom.structural import EMBEDDED, LIST_TYPE, OWN
from kubesim.errors import Obj

RESERVED = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import")
    + ("let", "loop", "package", "namespace", "return", "var", "void", "while")
)
ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
SPECIAL = re.compile(r"__|[-./]")
NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
TEXT: Obj = {"type": "string"}
META: Obj = {"type": "object", "properties": {"name": TEXT, "generateName": TEXT}}


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


def _date(text: str) -> datetime:
    return timestamp(f"{text}T00:00:00Z")


_READ: dict[str, Callable[[str], Any]] = {
    "date-time": timestamp, "date": _date, "duration": duration, "byte": base64.b64decode,
}  # fmt: skip
