"""Printer columns of custom kinds: JSONPath, and cells by the column's type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Any

import orjson

from kubesim.api.durations import parse_time, since
from kubesim.api.status import TEXTS
from kubesim.errors import Obj
from kubesim.schema.cells import Cell
from kubesim.schema.columns import NAME, Column

AGE_PATH = ".metadata.creationTimestamp"
NAME_TEXT = TEXTS["column of names"]
AGE_TEXT = TEXTS["column of ages"]
DEFAULT = ({"name": "Age", "type": "date", "jsonPath": AGE_PATH, "description": AGE_TEXT},)


def columns_of(entries: list[Obj] | None) -> tuple[Column, ...]:
    """Return the columns of a version: the name first, and the age where none is defined."""
    return (replace(NAME, about=NAME_TEXT), *(_column(entry) for entry in entries or DEFAULT))


def _column(entry: Obj) -> Column:
    path = entry["jsonPath"]
    about = entry.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        entry["name"], _value(path, entry["type"]), bool(entry.get("priority")), entry["type"],
        entry.get("format", ""), about,
    )  # fmt: skip


def _value(path: str, form: str) -> Callable[[Obj, datetime], Cell]:
    def value(obj: Obj, now: datetime) -> Cell:
        found = values_at(path, obj)
        if not found:
            return None
        return " ".join(map(_text, found)) if form == "string" else _cell(found[0], form, now)

    return value


def values_at(path: str, obj: Obj) -> list[Any]:
    """Return what a JSONPath finds in an object; nothing where it cannot be followed."""
    jsonpath = _kubectls_jsonpath()
    try:
        found: list[Any] = jsonpath.values(path.strip("{}"), obj)
    except jsonpath.KubectlError:
        return []
    return found


@cache
def _kubectls_jsonpath() -> Any:
    """Import the reader with the first column: a cluster starts without kubectl."""
    return import_module("kubesim.shell.kubectl.jsonpath")


def _cell(value: Any, form: str, now: datetime) -> Cell:
    match form, value:
        case "date", str():
            return since(value, now) if parse_time(value) else "<invalid>"
        case "boolean", bool():
            return value
        case (("integer" | "number"), bool()):
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return value
        case _:
            return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
