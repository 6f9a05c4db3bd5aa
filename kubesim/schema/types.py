"""The types of the API as a compact table: which fields an object has, of what type, and how its lists merge.

``deploy/testcluster/tables/generate_types.py`` writes ``types.json`` from the ``kubernetes`` client's models, so that
serving a cluster neither imports that client (0.2 s, 40 MB) nor carries upstream's schemas (22 MB). Merge keys and
quantities, which the models do not tell, are in ``facts.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import orjson

from kubesim.schema import facts

_ZEROS: dict[str, Any] = {"string": "", "int": 0, "bool": False}
_KEY_DEFAULTS = {"protocol": "TCP"}
TYPES = Path(__file__).with_name("types.json")


@dataclass(slots=True)
class FieldType:
    """The type of one field.

    ``form`` is object, list, map, or a scalar: string, int, bool, float, time, quantity, int-or-string, bytes, any.
    ``item`` is the scalar form of a list's or map's items where those are scalars; ``shape`` their type.
    ``list_type`` says who owns a list: atomic (one owner), set (each item), map (each entry, known by ``keys``). A
    strategic merge goes by ``merge_key``, or ``primitive`` for a list of scalars.
    """

    name: str
    form: str
    item: str = ""
    type_name: str = ""
    required: bool = False
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    merge_key: str = ""
    primitive: bool = False
    atomic: bool = False
    """Whether the object, the map, or each entry of the list has one owner for all that is in it."""

    @property
    def shape(self) -> Shape | None:
        """The type of the object, or of a list's or map's items."""
        return shape_of(self.type_name) if self.type_name else None

    @property
    def key_defaults(self) -> dict[str, Any]:
        """What the key of a list's entry is where the entry does not say so: Go's zero values, but for protocols."""
        fields = self.shape.fields if self.shape is not None else {}
        return {key: _KEY_DEFAULTS.get(key, _ZEROS.get(fields[key].form)) for key in self.keys if key in fields}


class Shape:
    """A named type: its fields by their names in JSON."""

    open = False
    """Whether it takes more fields than it names."""

    def __init__(self, name: str, fields: dict[str, FieldType]) -> None:
        self.name = name
        self.fields = fields
        self.structs = [f for f in fields.values() if f.form == "object" and (name, f.name) in facts.STRUCTS]
        """Objects that are always there: Go structs that are no pointers."""
        self.zeros = {
            f.name: _ZEROS[f.form]
            for f in fields.values()
            if f.form in _ZEROS
            and (f.required or (name, f.name) in facts.WRITTEN)
            and (name, f.name) not in facts.POINTERS
        }
        """Scalars that are always written, with their zero values where nobody has set them."""

    @cached_property
    def nulls(self) -> dict[str, Any]:
        """The fields that are written even where they are null."""
        return {field: None for owner, field in facts.NULLS if owner == self.name}

    @cached_property
    def empty(self) -> dict[str, Any]:
        """The object of which nothing is set yet, as Go writes it: structs, and lists that are always written."""
        structs = {field.name: field.shape.empty for field in self.structs if field.shape is not None}
        lists = [f.name for f in self.fields.values() if f.required and f.form in ("list", "map")]
        return dict.fromkeys(lists) | structs

    def field(self, name: str) -> FieldType | None:
        """Return a field's type, or None for a field that the type does not have."""
        return self.fields.get(name)


@cache
def shape_of(name: str) -> Shape | None:
    """Return a type of the table by name (``V1PodSpec``), or None."""
    entry = _table().get(name)
    return None if entry is None else Shape(name, {field: _field(name, field, text) for field, text in entry.items()})


@cache
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = orjson.loads(TYPES.read_bytes())
    return table


def _field(owner: str, name: str, text: str) -> FieldType:
    """Read an entry: ``string``, ``int!`` (required), ``[V1Container]`` (list), ``{string}`` (map)."""
    required = text.endswith("!")
    text = text.removesuffix("!")
    form = {"[": "list", "{": "map"}.get(text[0], "")
    inner = text[1:-1] if form else text
    is_type = inner[0].isupper()
    field = FieldType(name, form or ("object" if is_type else inner), required=required)
    field.type_name = inner if is_type else ""
    field.item = "" if is_type or not form else inner
    if (owner, name) in facts.QUANTITIES:
        field.form, field.item = (form, "quantity") if form else ("quantity", "")
    field.atomic = (owner, name) in facts.ATOMIC
    if form == "list":
        _set_merging(owner, field)
    return field


def _set_merging(owner: str, field: FieldType) -> None:
    place = (owner, field.name)
    key = facts.MERGE_KEYS.get(place, "")
    field.primitive = key == facts.PRIMITIVE
    field.merge_key = "" if field.primitive else key
    field.keys = facts.KEYS.get(place, ())
    field.list_type = "map" if field.keys else "set" if place in facts.SETS else "atomic"
