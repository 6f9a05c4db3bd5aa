"""Solutions and wrong turns as lines of a shell, and the pack's files that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from faults.packs.errors import PackError
from faults.packs.model import Obj

DOCUMENT = "scenario.yaml"
_FILE = re.compile(r"(?<![\w./-])(?:manifests|solutions|wrong-turns)/[a-z0-9-]+\.yaml")


def check(document: Obj) -> None:
    """Raise ``PackError`` for a solution or wrong turn without anything to type, and for one in both forms."""
    for list_name in ("solutions", "wrong_turns"):
        for number, route in enumerate(document.get(list_name, [])):
            where = f"{list_name}.{number}"
            if "lines" in route and "steps" in route:
                raise PackError(DOCUMENT, f"{where}.steps", "cannot stand beside lines, which are all that one types")
            if "lines" not in route and "steps" not in route:
                raise PackError(DOCUMENT, f"{where}.lines", "is needed: what somebody types in the toolbox, in order")


def check_new(document: Obj) -> None:
    """Raise ``PackError`` for the form of stored versions in a pack that is taken in."""
    for list_name in ("solutions", "wrong_turns"):
        for number, route in enumerate(document.get(list_name, [])):
            if "steps" in route:
                where = f"{list_name}.{number}.steps"
                raise PackError(DOCUMENT, where, "is a form that is only read; write lines, as one types them")


def commands(route: Obj) -> list[str]:
    """Return what a person types for a solution or wrong turn, in either form."""
    return [*route.get("lines", []), *(step["command"] for step in route.get("steps", []))]


def files_named(route: Obj) -> Iterator[str]:
    """Yield the pack's files that the lines name, each once."""
    yield from dict.fromkeys(name for line in route.get("lines", []) for name in _FILE.findall(line))


def files_of(route: Obj, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files that the lines name, by path."""
    return {name: texts[name] for name in files_named(route)}
