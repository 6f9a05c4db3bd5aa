"""A column of what ``kubectl get`` prints: a name and where its value comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kubesim.errors import Obj
from kubesim.schema.cells import Cell, Value, age, dig


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

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
        found = dig(obj, self.value)
        if self.type == "integer":
            return int(found or 0)
        return "" if found is None else found if isinstance(found, bool) else str(found)


NAME = Column("Name", "metadata.name", format="name")
AGE = Column("Age", age)


def kind_columns(*columns: Column, wide: Iterable[Column] = ()) -> tuple[Column, ...]:
    """Return name, the given columns, age, and what -o wide adds."""
    return (NAME, *columns, AGE, *wide)
