"""The kinds of the API as ``kinds.yaml`` describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import data
from kubesim.errors import Obj
from kubesim.schema.registry import NO_LABEL, Field, Immutable, Kind, Registry, Scale, Subresource


def read_kinds() -> Iterator[Kind]:
    """Yield every kind of the table."""
    table = data.table(__file__, "kinds.yaml")
    for entry in table["kinds"]:
        yield _kind(entry, table["subresources"])


def _kind(entry: Obj, subresources: Obj) -> Kind:
    group, _, version = entry.pop("in").rpartition("/")
    name, below = entry.pop("kind"), entry.pop("subresources", ())
    usual: Obj = {"plural": f"{name.lower()}s", "schema": f"V1{name}"}
    if "fields" in entry:
        usual["field_error"] = NO_LABEL
    given: Obj = {key: tuple(value) if isinstance(value, list) else value for key, value in (usual | entry).items()}
    given["fields"] = tuple(map(_field, given.get("fields", ())))
    given["immutable"] = tuple(map(_immutable, given.get("immutable", ())))
    given["renames"] = tuple(given.get("renames", {}).items())
    given["subresources"] = tuple(_subresource(word, name, subresources.get(word, {})) for word in below)
    return Kind(group, version, name, scale=Scale() if "scale" in below else None, **given)


def _field(entry: str | Obj) -> Field:
    given: Obj = {"label": entry} if isinstance(entry, str) else entry
    label, instead = given["label"], given.get("instead")
    return Field(
        label, _words(given.get("path") or label), given.get("empty", ""), _words(instead) if instead else ()
    )


def _immutable(entry: str | Obj) -> Immutable:
    given: dict[str, Any] = {"path": entry} if isinstance(entry, str) else dict(entry)
    return Immutable(_words(given.pop("path")), type_name=given.pop("type", ""), **given)


def _subresource(word: str, kind: str, given: Obj) -> Subresource:
    more = {key: tuple(value) if isinstance(value, list) else value.format(kind=kind) for key, value in given.items()}
    return Subresource(word, **more)  # type: ignore[arg-type]


def _words(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


KINDS = tuple(read_kinds())
registry = Registry(KINDS)
