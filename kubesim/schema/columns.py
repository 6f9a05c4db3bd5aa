"""What ``kubectl get`` prints: a column is a title and where its cells come from; ``columns.yaml`` has those of a kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.errors import Obj
from kubesim.schema import cells, platform_cells
from kubesim.schema.cells import Cell
from kubesim.schema.paths import each, first

Value = str | Callable[[Obj, datetime], Cell]
TABLE = Path(__file__).with_suffix(".yaml")
TYPES = ("integer", "boolean")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: ``value`` is a path, or a function of the object and the time."""

    name: str
    value: Value
    wide: bool = False
    type: str = "string"
    format: str = ""
    about: str = ""

    def definition(self) -> Obj:
        """Return the columnDefinition that the Table carries."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.about,
            "priority": int(self.wide),
        }

    def cell(self, obj: Obj, now: datetime) -> Cell:
        """Return the column's value for one object."""
        if callable(self.value):
            return self.value(obj, now)
        found = first(obj, self.value)
        if self.type == "integer":
            return int(found or 0)
        return "" if found is None else found if isinstance(found, bool) else str(found)


NAME = Column("Name", "metadata.name", format="name")


@cache
def columns_of(resource: str) -> tuple[Column, ...]:
    """Return the columns of a kind; those of which the table says nothing show their creation time."""
    table = _table()
    columns = tuple(read(title, source) for title, source in table.get(resource, table["default"]).items())
    return columns if any(column.name == "Name" for column in columns) else (NAME, *columns)


@cache
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = data.read(TABLE)
    return table


def read(title: str, source: str) -> Column:
    """Return the column that a line of the table means."""
    words = source.split()
    wide, kind, form = False, "string", ""
    while words[0] in ("wide", "name", *TYPES):
        word = words.pop(0)
        wide, kind = wide or word == "wide", word if word in TYPES else kind
        form = word if word == "name" else form
    return Column(title, _value(" ".join(words)), wide, kind, form)


def _value(source: str) -> Value:
    """Return the value that a source without its marks means."""
    word, _, rest = source.partition(" ")
    if "{" in source:
        return partial(_filled, source)
    if not word.startswith("."):
        function = getattr(cells, word, None) or getattr(platform_cells, word)
        return partial(_given, function, *_choices(rest)) if rest else function  # type: ignore[no-any-return]
    return partial(_found, *_choices(source)) if rest else word[1:]


def _choices(source: str) -> tuple[list[str], str | None, bool]:
    """Return the paths of a source, what stands for a missing value, and whether zero is one."""
    *paths, last = re.split(r" (?:or|else)(?: |$)", source)
    if last.startswith("."):
        return [path[1:] for path in (*paths, last)], None, False
    return [path[1:] for path in paths], last, " else " in source


def _look(obj: Obj, paths: list[str], zero: bool) -> Any:
    """Return the first value of those at the paths; with ``zero``, an empty one too."""
    return next((found for path in paths if (found := first(obj, path)) or (zero and found is not None)), None)


def _found(paths: list[str], none: str | None, zero: bool, obj: Obj, now: datetime) -> Cell:
    found: Cell = _look(obj, paths, zero)
    return none if found is None else found


def _given(
    function: Callable[[Any, datetime], Cell], paths: list[str], none: str | None, zero: bool, obj: Obj, now: datetime
) -> Cell:
    """Return what a function makes of the value at a path; of all values, where the path means several."""
    found = list(each(obj, paths[0])) if "[" in paths[0] else _look(obj, paths, zero)
    return none if none is not None and (found is None or found == []) else function(found, now)


def _filled(text: str, obj: Obj, now: datetime) -> str:
    """Return a text with the values of its paths filled in."""

    def fill(found: re.Match[str]) -> str:
        paths, none, zero = _choices(found[1])
        value = _look(obj, paths, zero)
        return str(("" if none is None else none) if value is None else value)

    return re.sub(r"\{(.*?)\}", fill, text)
