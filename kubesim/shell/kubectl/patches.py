"""What a patch says to make one object of another: strategic where merge keys are known, else a merge."""

from __future__ import annotations

from typing import Any

from kubesim.api.patch import go_print
from kubesim.schema.kinds import registry
from kubesim.schema.types import FieldType, Shape
from kubesim.shell.kubectl.client import KubectlError, Obj, Resource

ORDER, DROPPED = "$setElementOrder/", "$deleteFromPrimitiveList/"


def shape_of(kind: Resource) -> Shape | None:
    """Return the type of a kind; None for one that this client has no type of."""
    found = registry.by_kind(kind.api_version, kind.kind) if _known(kind) else None
    return found.shape if found is not None else None


def _known(kind: Resource) -> bool:
    return any((each.api_version, each.kind) == (kind.api_version, kind.kind) for each in registry.all())


def difference(before: Obj, after: Obj, shape: Shape | None, *, removals: bool = True, additions: bool = True) -> Obj:
    """Return the patch that makes ``after`` of ``before``, or only what it takes away, or only what it brings."""
    patch: Obj = {}
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if key not in after:
            if removals:
                patch[key] = None
        elif key not in before:
            if additions:
                patch[key] = new
        elif old != new:
            patch |= _changed(key, old, new, shape, removals, additions)
    return patch


def _changed(key: str, old: Any, new: Any, shape: Shape | None, removals: bool, additions: bool) -> Obj:
    field = shape.field(key) if shape is not None else None
    if isinstance(old, dict) and isinstance(new, dict):
        inner = field.shape if field is not None and field.form == "object" else None
        found = difference(old, new, inner, removals=removals, additions=additions)
        return {key: found} if found else {}
    if isinstance(old, list) and isinstance(new, list) and field is not None:
        if field.merge_key and all(isinstance(item, dict) for item in [*old, *new]):
            _check_keys([*old, *new], field.merge_key)
            return _keyed(key, old, new, field, removals, additions)
        if field.primitive:
            return _primitive(key, old, new, removals, additions)
    return {key: new} if additions else {}


def _check_keys(items: list[Obj], key: str) -> None:
    for item in items:
        if key not in item:
            raise KubectlError(f"error: map: {go_print(item)} does not contain declared merge key: {key}")


def _keyed(key: str, old: list[Obj], new: list[Obj], field: FieldType, removals: bool, additions: bool) -> Obj:
    name = field.merge_key
    there = {item[name]: item for item in old}
    wanted = {item[name]: item for item in new}
    items: list[Obj] = []
    for known, item in wanted.items():
        if known not in there:
            items += [item] if additions else []
        else:
            found = difference(there[known], item, field.shape, removals=removals, additions=additions)
            items += [{**found, name: known}] if found else []
    if removals:
        items += [{"$patch": "delete", name: known} for known in there if known not in wanted]
    order = [{name: known} for known in wanted]
    moved = additions and [known for known in there if known in wanted] != [
        known for known in wanted if known in there
    ]
    return {ORDER + key: order, **({key: items} if items else {})} if items or moved else {}


def _primitive(key: str, old: list[Any], new: list[Any], removals: bool, additions: bool) -> Obj:
    found: Obj = {}
    if removals and (gone := [item for item in old if item not in new]):
        found[DROPPED + key] = gone
    if additions and (fresh := [item for item in new if item not in old]):
        found[key] = fresh
    return {ORDER + key: new, **found} if found else {}


def three_way(original: Obj, modified: Obj, current: Obj, shape: Shape | None) -> Obj:
    """Return the patch to ``current`` that brings what is ``modified`` and takes what only the ``original`` had."""
    brought = difference(current, modified, shape, removals=False)
    taken = difference(original, modified, shape, additions=False)
    return _joined(taken, brought, shape)


def _joined(one: Obj, other: Obj, shape: Shape | None) -> Obj:
    joined = dict(one)
    for key, value in other.items():
        mine = joined.get(key)
        field = shape.field(key) if shape is not None else None
        if isinstance(mine, dict) and isinstance(value, dict):
            joined[key] = _joined(mine, value, field.shape if field is not None and field.form == "object" else None)
        elif isinstance(mine, list) and isinstance(value, list) and field is not None and field.merge_key:
            joined[key] = _joined_items(mine, value, field)
        else:
            joined[key] = value
    return joined


def _joined_items(one: list[Obj], other: list[Obj], field: FieldType) -> list[Obj]:
    name = field.merge_key
    found = {item[name]: item for item in one}
    for item in other:
        mine = found.get(item[name])
        found[item[name]] = _joined(mine, item, field.shape) if mine is not None else item
    return [*found.values()]
