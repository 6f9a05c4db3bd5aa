"""Structural schemas: what they keep of an object, what they add, and how its lists merge."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from kubesim.errors import Obj
from kubesim.schema.types import FieldType, Shape, shape_of

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
MAP_KEYS = "x-kubernetes-list-map-keys"
OWN = ("apiVersion", "kind", "metadata")
FORMS = {"string": "string", "integer": "int", "number": "float", "boolean": "bool"}


class OpenShape(Shape):
    """A type that takes more fields than it names."""

    open = True


@dataclass(slots=True)
class CustomField(FieldType):
    """A field whose type is not in the table of types but hangs on the field itself."""

    own: Shape | None = None

    @property
    def shape(self) -> Shape | None:
        """The type of the object, or of a list's or map's items."""
        return shape_of(self.type_name) if self.type_name else self.own

    @property
    def key_defaults(self) -> dict[str, Any]:
        """What the key of a list's entry is where the entry does not say so: nothing, for schemas want it said."""
        return {}


def prune(value: Any, schema: Obj, path: str, unknown: list[str], *, whole: bool = False) -> Any:
    """Return a copy of a value with only what its schema knows; the paths of the rest go into ``unknown``.

    ``whole``: the value is an object of the API, whose apiVersion, kind and metadata no schema needs to name.
    """
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return copy.deepcopy(value)
        return [prune(item, items, f"{path}[{at}]", unknown) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    own = OWN if whole or schema.get(EMBEDDED) else ()
    kept = {}
    for name, item in sorted(value.items()):
        here = f"{path}.{name}" if path else name
        inner = _schema_of(schema, name)
        if inner is not None and name not in own:
            if item is not None or inner.get("nullable") or not inner:
                kept[name] = prune(item, inner, here, unknown)
            elif "default" in inner:
                kept[name] = copy.deepcopy(inner["default"])
        elif schema.get(PRESERVE) or name in own:
            kept[name] = copy.deepcopy(item)
        else:
            unknown.append(here)
    return kept


def _schema_of(schema: Obj, name: str) -> Obj | None:
    """Return the schema of a property, or None for one that the schema does not know."""
    found = schema.get("properties", {}).get(name)
    if found is not None:
        inner: Obj = found
        return inner
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return extra
    return {PRESERVE: True, "nullable": True} if extra is True else None


def add_defaults(value: Any, schema: Obj) -> None:
    """Set in place what the schema has a default for."""
    if isinstance(value, list):
        for item in value:
            add_defaults(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    for name, inner in schema.get("properties", {}).items():
        if name not in value and "default" in inner:
            value[name] = copy.deepcopy(inner["default"])
    for name, item in value.items():
        add_defaults(item, _schema_of(schema, name) or {})


def shape_from(schema: Obj, name: str, *, whole: bool = False) -> Shape:
    """Return how objects of a schema merge, as a type like those of the table."""
    fields = {key: _field(key, inner) for key, inner in schema.get("properties", {}).items()}
    if whole or schema.get(EMBEDDED):
        for own in ("apiVersion", "kind"):
            fields[own] = CustomField(own, "string")
        fields["metadata"] = CustomField("metadata", "object", type_name="V1ObjectMeta")
    return OpenShape(name, fields) if schema.get(PRESERVE) else Shape(name, fields)


def _field(name: str, schema: Obj) -> FieldType:
    match schema.get("type"):
        case "object" if schema.get("properties") or schema.get(EMBEDDED) or schema.get(PRESERVE):
            return CustomField(name, "object", own=shape_from(schema, ""))
        case "object":
            return _map(name, schema)
        case "array":
            return _list(name, schema)
        case form:
            return CustomField(name, FORMS.get(str(form), "any"))


def _map(name: str, schema: Obj) -> FieldType:
    extra = schema.get("additionalProperties")
    if not isinstance(extra, dict):
        return CustomField(name, "map", item="any")
    inner = _field("", extra)
    return CustomField(name, "map", item=inner.form, own=inner.shape)


def _list(name: str, schema: Obj) -> FieldType:
    inner = _field("", schema.get("items") or {})
    list_type = schema.get(LIST_TYPE, "atomic")
    keys = tuple(schema.get(MAP_KEYS) or ("",)) if list_type == "map" else ()
    return CustomField(
        name,
        "list",
        item=inner.form,
        list_type=list_type,
        keys=keys,
        merge_key=keys[0] if keys else "",
        primitive=list_type == "set",
        own=inner.shape,
    )
