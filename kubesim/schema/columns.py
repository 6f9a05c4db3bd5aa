"""The columns of ``kubectl get``: a column is a title and where its cells come from; ``columns.yaml`` has all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from kubesim import data
from kubesim.errors import Obj
from kubesim.schema import cells
from kubesim.schema.cells import Cell
from kubesim.schema.paths import each, first

Value = str | Callable[[Obj, datetime], Cell]
_table: data.Reader[dict[str, dict[str, str]]] = data.beside(__file__, "columns.yaml")
TYPES = ("integer", "boolean", "date")


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
        return _template(source)
    if word.startswith("."):
        return _Source.read(source).cell if rest else word[1:]
    if word in cells.PLAIN:
        plain = cells.PLAIN[word]
        return _applied(lambda value, now: plain(value), _Source.read(rest))
    function: Callable[[Any, datetime], Cell] = getattr(cells, word)
    return _applied(function, _Source.read(rest)) if rest else function


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a value is looked for: ``none`` is the text for a missing one and, without ``zero``, for an empty one."""

    paths: tuple[str, ...]
    none: str | None
    zero: bool

    @classmethod
    def read(cls, text: str) -> _Source:
        """Read ``.a or .b or <none>``."""
        choices = re.split(r" (?:or|else)(?: |$)", text)
        none = None if choices[-1].startswith(".") else choices.pop()
        return cls(tuple(path[1:] for path in choices), none, " or " not in text)

    def look(self, obj: Obj) -> Any:
        """Return what is found, or None; all values of a path that means several."""
        if "[" in self.paths[0]:
            return list(each(obj, self.paths[0])) or None
        found = (first(obj, path) for path in self.paths)
        return next((value for value in found if value or (self.zero and value is not None)), None)

    def cell(self, obj: Obj, now: datetime) -> Cell:
        """Return what is found as it is, the first of several."""
        found = self.look(obj)
        value: Cell = found[0] if isinstance(found, list) else found
        return self.none if value is None else value


def _applied(function: Callable[[Any, datetime], Cell], source: _Source) -> Value:
    def cell(obj: Obj, now: datetime) -> Cell:
        found = source.look(obj)
        return source.none if found is None and source.none is not None else function(found, now)

    return cell


def _template(text: str) -> Value:
    """Return what fills the braces of a text; what stands behind it is for objects that have nothing of that."""
    text, given, none = text.partition(" or else")
    form = re.sub(r"\{.*?\}", "{}", text)
    sources = [_Source.read(found) for found in re.findall(r"\{(.*?)\}", text)]

    def cell(obj: Obj, now: datetime) -> Cell:
        if given and all(source.look(obj) is None for source in sources):
            return none.strip()
        return form.format(*(source.cell(obj, now) or "" for source in sources))

    return cell
