"""What server-side apply says of a patch that does not fit its kind's type: every error, by path.

Upstream owns up to it with a 500 that has no reason; a client's mistake is no mistake of ours, so here it is a 400.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from kubesim.api.managed import entry_key, item_key, set_key
from kubesim.api.patch import go_print
from kubesim.api.status import bad_request
from kubesim.errors import Obj
from kubesim.schema.registry import Kind
from kubesim.schema.types import FieldType, Shape

_GO = {str: "string", int: "int64", float: "float64", bool: "bool", list: "[]interface {}"}
DUPLICATE = "duplicate entries for key"
"""What is only found where everything else is right."""
_UNLIKE_ITEMS: dict[type, str] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}
"""What cannot be an item of a set, and how upstream says so."""
_WORDS = {"string": str, "bytes": str, "time": str, "bool": bool}


def check_typed(kind: Kind, wanted: Obj) -> None:
    """Raise where ``wanted`` has fields that the kind's type does not declare, or values of other types."""
    shape = kind.shape
    found = sorted(_object(shape, wanted, "")) if shape is not None else []
    if not found:
        return
    errors = [error for error in found if DUPLICATE not in error] or found
    metadata = wanted.get("metadata") if isinstance(wanted.get("metadata"), dict) else {}
    assert metadata is not None
    what = (
        f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind.group}/{kind.version}, Kind={kind.kind}"
    )
    listed = errors[0] if len(errors) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in errors)
    raise bad_request(f"failed to create typed patch object ({what}): {listed}")


def _object(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{_shown(value)}}}"
        return
    for name, item in value.items():
        field = shape.fields.get(name)
        if field is None and shape.open:
            continue
        if field is None:
            yield f"{path}.{name}: field not declared in schema"
        elif item is not None:
            yield from _value(field, item, f"{path}.{name}")


def _value(field: FieldType, value: Any, path: str) -> Iterator[str]:
    match field.form:
        case "object":
            if field.shape is not None:
                yield from _object(field.shape, value, path)
        case "list" if not isinstance(value, list):
            yield f"{path}: expected list, got &{{{_shown(value)}}}"
        case "list":
            yield from _repeated(field, value, path)
            for at, item in enumerate(value):
                if complaint := _unnamed(field, item):
                    yield f"{path}: element {at}: {complaint}"
                    return
                if item is not None:
                    where = path + _place(field, item, at)
                    yield from _object(field.shape, item, where) if field.shape else _scalar(field.item, item, where)
        case "map" if not isinstance(value, dict):
            yield f"{path}: expected map, got &{{{_shown(value)}}}"
        case "map":
            for name, item in value.items():
                if field.shape is None:
                    yield from _scalar(field.item, item, f"{path}.{name}")
        case form:
            yield from _scalar(form, value, path)


def _repeated(field: FieldType, items: list[Any], path: str) -> Iterator[str]:
    """Yield an error for each entry of a keyed list, or item of a set, that comes twice."""
    seen: dict[str, int] = {}
    for at, item in enumerate(items):
        if field.list_type == "map" and isinstance(item, dict):
            key = item_key(item, field)
        elif field.list_type == "set":
            key = set_key(item)
        else:
            continue
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            place = _place(field, item, at) if field.list_type == "map" else f"[={orjson.dumps(item).decode()}]"
            yield f"{path}: {DUPLICATE} {place}"


def _scalar(form: str, value: Any, path: str) -> Iterator[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if form in ("int", "float") and not number:
        yield f"{path}: expected numeric (int or float), got {_GO.get(type(value), 'map[string]interface {}')}"
    elif (wanted := _WORDS.get(form)) is not None and value is not None and type(value) is not wanted:
        shown = f'"{value}"' if isinstance(value, str) else _shown(value)
        word = "boolean" if wanted is bool else "string"
        yield f"{path}: expected {word}, got &value.valueUnstructured{{Value:{shown}}}"


def _unnamed(field: FieldType, item: Any) -> str:
    """Return why an entry of a list that is named by what it says has no name; upstream then goes no further."""
    if field.list_type == "map":
        if not isinstance(item, dict):
            return (
                f"associative list with keys may not have {'a null element' if item is None else 'non-map elements'}"
            )
        if not entry_key(item, field):
            keys = " ".join(f'"{key}"' for key in field.keys)
            omitted = f"associative list with keys has an element that omits all key fields [{keys}]"
            return f"{omitted} (and doesn't have default values for any key fields)"
    if field.list_type == "set":
        return _UNLIKE_ITEMS.get(type(item), "")
    return ""


def _place(field: FieldType, item: Any, at: int) -> str:
    """Return how an entry of a list is named: by its key where it has one."""
    if field.list_type != "map":
        return f"[{at}]"
    key = sorted(entry_key(item, field).items())
    return f"[{','.join(f'{name}={orjson.dumps(value).decode()}' for name, value in key)}]"


def _shown(value: Any) -> str:
    return go_print(value)
