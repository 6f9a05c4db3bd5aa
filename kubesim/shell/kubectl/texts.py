"""Objects as text: YAML and JSON as Go's libraries write them."""

from __future__ import annotations

import json
from typing import Any

from kubesim.goyaml import to_yaml

__all__ = ["to_yaml"]


def to_json(value: Any, indent: int = 4, *, sort: bool = True) -> str:
    """Return a value as JSON over several lines."""
    return escaped(json.dumps(value, indent=indent, sort_keys=sort, ensure_ascii=False)) + "\n"


def compact(value: Any) -> str:
    """Return JSON in one line without blanks."""
    return escaped(json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False))


def escaped(text: str) -> str:
    """Return JSON with what HTML knows escaped."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
