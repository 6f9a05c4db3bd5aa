"""Printer columns of custom kinds: JSONPath, and cells by the column's type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from kubesim.api.durations import parse_time, since
from kubesim.errors import Obj
from kubesim.schema.cells import Cell
from kubesim.schema.columns import NAME, Column

AGE_PATH = ".metadata.creationTimestamp"
NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow "
    "a client to request the generation of an appropriate name automatically. Name is primarily intended for "
    "creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
AGE_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is "
    "represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
DEFAULT = ({"name": "Age", "type": "date", "jsonPath": AGE_PATH, "description": AGE_TEXT},)
STEP = re.compile(
    r"\.\.(?P<deep>[\w-]+)|\.(?P<name>(?:\\.|[\w/-])+)|\[(?P<index>-?\d+)\]|(?P<all>\.?\[?\*\]?)"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]|\[\?\((?P<filter>.*?)\)\]"
)
CONDITION = re.compile(r"""@\.([\w.-]+)\s*(==|!=)\s*(?:'(.*?)'|"(.*?)"|(\S+))\s*""")
Finder = Callable[[Any], Iterator[Any]]


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
    find = finder(path)

    def value(obj: Obj, now: datetime) -> Cell:
        found = list(find(obj))
        if not found:
            return None
        return " ".join(map(_text, found)) if form == "string" else _cell(found[0], form, now)

    return value


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


def finder(path: str) -> Finder:
    """Return what finds the values at a JSONPath (``.a.b[0]``, ``[*]``, ``['k']``, ``[?(@.type=="x")]``, ``..a``)."""
    steps = [_step(found) for found in STEP.finditer(path.strip("{}"))]

    def find(obj: Any) -> Iterator[Any]:
        values = [obj]
        for step in steps:
            values = [deeper for value in values for deeper in step(value)]
        yield from values

    return find


def _step(found: re.Match[str]) -> Finder:
    if found["index"] is not None:
        at = int(found["index"])
        return lambda value: iter(value[at:][:1] if isinstance(value, list) else ())
    if found["all"]:
        return _children
    if found["filter"] is not None:
        return _filter(found["filter"])
    if found["deep"]:
        return lambda value: _deep(value, found["deep"])
    name = found["quoted"] if found["quoted"] is not None else found["name"].replace("\\.", ".").replace("\\", "")
    return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else ())


def _children(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _deep(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for child in _children(value):
        yield from _deep(child, name)


def _filter(text: str) -> Finder:
    found = CONDITION.fullmatch(text.strip())
    if found is None:
        return lambda value: iter(())
    path, operator = found[1].split("."), found[2]
    wanted = next((group for group in found.groups()[2:] if group is not None), "")

    def matching(value: Any) -> Iterator[Any]:
        for child in _children(value):
            here: Any = child
            for name in path:
                here = here.get(name) if isinstance(here, dict) else None
            shown = None if here is None else _text(here)
            if (shown == wanted) == (operator == "=="):
                yield child

    return matching
