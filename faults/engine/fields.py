"""Before- and after-images of exactly the fields that a patch changes, and the ways from one to the other.

A field is a dict: ``path``, ``before`` and ``after`` (missing where the field is absent) and ``prune`` (how many
leading steps of the path existed before: parents that the patch made are removed again once they are empty).
A step of a path is a key of a map, or a map of the keys that name one entry of a list (``{"name": "web"}``). A field
with ``entry`` is an entry of the list at ``path`` that only its value tells. ``behind`` is the entry in front of one
that was added or removed.

Both ways, to the patch's values and back, are edits of a copy of the live object, sent as a JSON merge patch with the
resourceVersion that was read: no other entry of a list is touched, whatever the kind and the type of patch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from faults.engine import list_entries
from faults.engine.list_entries import EntryChange

Obj = dict[str, Any]
Path = list[Any]
_ABSENT: Any = object()
_SERVER_OWNED = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def without_server_fields(obj: Obj) -> Obj:
    """Return an object without its status and the metadata that the API server writes."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_OWNED}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}


def images(before: Obj, after: Obj) -> list[Obj]:
    """Return the fields in which an object differs from what a patch makes of it."""
    old, new = without_server_fields(before), without_server_fields(after)
    return [{**field, "prune": _depth(before, field["path"])} for field in _differences([], old, new)]


def holds(field: Obj, side: str, obj: Obj) -> bool:
    """Return whether the object's field has its ``before`` or ``after`` value."""
    if field.get("entry"):
        return _holds_entry(field, side, obj)
    value = _get(obj, field["path"])
    if side not in field:
        return value is _ABSENT and _has_owners(obj, field["path"])
    return value is not _ABSENT and bool(value == field[side])


def changed(field: Obj) -> bool:
    """Return whether the patch makes a difference to the field."""
    return ("before" in field) != ("after" in field) or field.get("before") != field.get("after")


def moved(fields: Iterable[Obj], obj: Obj, source: str, target: str) -> Obj:
    """Return the object with every field that has its ``source`` value at its ``target`` value instead."""
    result = copy.deepcopy(obj)
    due = [field for field in fields if changed(field) and holds(field, source, obj)]
    for field in due:
        _write(result, field, source, target)
    if target == "before":
        _prune(due, result)
    return result


def injecting(fields: Sequence[Obj], obj: Obj) -> Obj:
    """Return the merge patch that gives every field its injected value."""
    return difference(obj, moved(fields, obj, "before", "after"))


def restoring(fields: Sequence[Obj], obj: Obj) -> Obj:
    """Return the merge patch that gives back every field that still has its injected value; {} where none has."""
    return difference(obj, moved(fields, obj, "after", "before"))


def in_lists(fields: Sequence[Obj]) -> bool:
    """Return whether a field is inside a list, so that only the live list tells how a patch gives it back."""
    return any(field.get("entry") or any(isinstance(step, dict) for step in field["path"]) for field in fields)


def before_images(fields: Sequence[Obj]) -> Obj:
    """Return the merge patch that writes every before-image outside of lists, whatever the object holds now."""
    patch: Obj = {}
    for field in fields:
        if changed(field) and not in_lists([field]):
            parent = patch
            for key in field["path"][:-1]:
                parent = parent.setdefault(key, {})
            parent[field["path"][-1]] = field.get("before")
    return patch


def hand_on(older: Sequence[Obj], newer: Sequence[Obj]) -> tuple[list[Obj], list[Obj]]:
    """Return what is left of an older change once a newer one has taken over what it changed as well, and the newer.

    The newer change took the older one's values for the original ones. Whichever of the two is taken back first, the
    last one then gives back the original. A field of one may contain that of the other: an entry, and a field of it.
    """
    left, result = [], list(newer)
    for field in filter(changed, older):
        result = [_in_order(field, other) for other in result]
        taken_over = _taken_over(field, result)
        if taken_over is None:
            left.append(field)
        else:
            result = taken_over
    return left, result


def difference(old: Obj, new: Obj) -> Obj:
    """Return the JSON merge patch (RFC 7386) that makes the second of the first."""
    patch: Obj = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            both = isinstance(old[key], dict) and isinstance(value, dict)
            patch[key] = difference(old[key], value) if both else value
    return patch


def merge(obj: Obj, patch: Obj) -> Obj:
    """Return the object after a JSON merge patch (RFC 7386)."""
    result = dict(obj)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            inner = result.get(key)
            result[key] = merge(inner if isinstance(inner, dict) else {}, value)
        else:
            result[key] = value
    return result


def _differences(path: Path, before: Any, after: Any) -> Iterator[Obj]:
    if before is not _ABSENT and after is not _ABSENT and before == after:
        return
    if isinstance(after, dict) and (isinstance(before, dict) or (before is _ABSENT and after)):
        old = {} if before is _ABSENT else before
        for key in [*old, *(key for key in after if key not in old)]:
            yield from _differences([*path, key], old.get(key, _ABSENT), after.get(key, _ABSENT))
        return
    entries = _entry_changes(path, before, after)
    if not entries:
        yield {"path": path, **_sides(before, after)}
    for entry in entries:
        yield from _entry_fields(path, entry)


def _entry_changes(path: Path, before: Any, after: Any) -> list[EntryChange]:
    """Return the entries that differ between two lists, of which one may be absent; [] for anything else."""
    old, new = ([] if side is _ABSENT else side for side in (before, after))
    if not (isinstance(old, list) and isinstance(new, list) and path and isinstance(path[-1], str)):
        return []
    return list_entries.compare(path[-1], old, new) or []


def _entry_fields(path: Path, change: EntryChange) -> Iterator[Obj]:
    if change.step is None:
        yield {"path": path, "entry": True, "behind": change.behind, **change.sides}
    elif len(change.sides) == 2 and path[-1] in list_entries.RECURSED:
        yield from _differences([*path, change.step], change.sides["before"], change.sides["after"])
    else:
        yield {"path": [*path, change.step], "behind": change.behind, **change.sides}


def _sides(before: Any, after: Any) -> Obj:
    return {side: value for side, value in (("before", before), ("after", after)) if value is not _ABSENT}


def _holds_entry(field: Obj, side: str, obj: Obj) -> bool:
    """Return the same for an entry by its value: absent is the side on which the other side's value is not there."""
    entries = _get(obj, field["path"])
    there = entries if isinstance(entries, list) else []
    if side in field:
        return field[side] in there
    other = field["after" if side == "before" else "before"]
    return other not in there and _has_owners(obj, [*field["path"], ""])


def _has_owners(obj: Obj, path: Path) -> bool:
    """Return whether the entries of lists that a field is in are there: none is made anew for one of its fields."""
    owners = [depth for depth, step in enumerate(path[:-1], 1) if isinstance(step, dict)]
    return not owners or _get(obj, path[: owners[-1]]) is not _ABSENT


def _write(obj: Obj, field: Obj, source: str, target: str) -> None:
    path, is_value = field["path"], bool(field.get("entry"))
    if is_value or isinstance(path[-1], dict):
        entries = _container(obj, path if is_value else path[:-1], list)
        identity = field.get(source, field.get(target)) if is_value else path[-1]
        _write_entry(entries, list_entries.find(entries, identity, by_value=is_value), field, target)
        return
    parent = _container(obj, path[:-1], dict)
    if target in field:
        parent[path[-1]] = copy.deepcopy(field[target])
    else:
        parent.pop(path[-1], None)


def _write_entry(entries: list[Any], index: int, field: Obj, target: str) -> None:
    if target not in field:
        del entries[index]
    elif index >= 0:
        entries[index] = copy.deepcopy(field[target])
    else:
        entries.insert(_place(entries, field), copy.deepcopy(field[target]))


def _place(entries: list[Any], field: Obj) -> int:
    """Return where an entry belongs: behind the one that it followed, or at the end if that has gone."""
    if field.get("behind") is None:
        return 0
    index = list_entries.find(entries, field["behind"], by_value=bool(field.get("entry")))
    return len(entries) if index < 0 else index + 1


def _container(obj: Any, path: Path, kind: type) -> Any:
    """Return the map or list at a path, made where it is missing."""
    for step, following in zip(path, [*path, {} if kind is list else ""][1:], strict=True):
        wanted: Any = [] if isinstance(following, dict) else {}
        if isinstance(step, dict):
            obj = obj[list_entries.find(obj, step, by_value=False)]
            continue
        if not isinstance(obj.get(step), type(wanted)):
            obj[step] = wanted
        obj = obj[step]
    return obj


def _prune(fields: Iterable[Obj], obj: Obj) -> None:
    """Remove parents that did not exist before and have been left empty."""
    for field in fields:
        path = field["path"]
        for depth in range(len(path) if field.get("entry") else len(path) - 1, field["prune"], -1):
            if isinstance(path[depth - 1], str) and _get(obj, path[:depth]) in ({}, []):
                del _get(obj, path[: depth - 1])[path[depth - 1]]


def _contains(outer: Obj, inner: Obj) -> bool:
    """Return whether the whole value that one field has includes the place of another."""
    if outer.get("entry"):
        return False
    shorter, longer = outer["path"], inner["path"]
    deeper = len(longer) > len(shorter) or (len(longer) == len(shorter) and bool(inner.get("entry")))
    return deeper and bool(longer[: len(shorter)] == shorter)


def _taken_over(older: Obj, newer: list[Obj]) -> list[Obj] | None:
    """Return a newer change's fields after one of them has taken an older field over; None where none has to."""
    inside = [field for field in newer if _begins_inside(field, older)]
    if inside:
        rest = [field for field in newer if field not in inside]
        return [*rest, _applied_inside(older, "after", inside, "before", "after")]
    for take_over in (_containing, _continuing, _reverting):
        for index, field in enumerate(newer):
            if (changed_field := take_over(older, field)) is not None:
                return _joined([*newer[:index], changed_field, *newer[index + 1 :]])
    return None


def _joined(fields: list[Obj]) -> list[Obj]:
    """Join fields of which one takes away and another puts back the same entry, which so is left as it is."""
    for away in fields:
        for back in fields:
            if away is not back and (joined := _reverting(away, back)) is not None and changed(away):
                return _joined([joined, *(field for field in fields if field is not away and field is not back)])
    return fields


def _begins_inside(newer: Obj, older: Obj) -> bool:
    """Return whether a field changes a part of the value that the older change wrote, or made where it left none."""
    return _contains(older, newer) and holds(_shifted(newer, len(older["path"])), "before", _alone(older, "after"))


def _containing(older: Obj, newer: Obj) -> Obj | None:
    if not _contains(newer, older):
        return None
    return _applied_inside(newer, "before", [older], "after", "before") if "before" in newer else newer


def _continuing(older: Obj, newer: Obj) -> Obj | None:
    """Return a newer field that began at what the older one ended with."""
    if not _are_same_place(older, newer) or ("before" in newer) != ("after" in older):
        return None
    is_same_entry = "before" in newer or older.get("before") == newer.get("after")  # only the value of one tells
    if newer.get("before") != older.get("after") or (newer.get("entry") and not is_same_entry):
        return None
    return _with_side(newer, "before", older) | {"prune": min(older["prune"], newer["prune"])}


def _reverting(older: Obj, newer: Obj) -> Obj | None:
    """Return a newer field that put the entry back which the older one took away."""
    if not (_are_same_place(older, newer) and newer.get("entry") and "after" in newer):
        return None
    return _with_side(newer, "after", older) if newer["after"] == older.get("before") else None


def _in_order(older: Obj, newer: Obj) -> Obj:
    """Return a newer field of an entry behind the one that it will follow once the older field is taken back."""
    if "behind" not in newer or _list_of(older) != _list_of(newer):
        return newer
    before, after = ((older.get(side) if older.get("entry") else older["path"][-1]) for side in ("before", "after"))
    if "after" not in older and newer["behind"] == older.get("behind"):
        return {**newer, "behind": before}
    if "after" in older and newer["behind"] == after:
        return {**newer, "behind": before if "before" in older else older.get("behind")}
    return newer


def _list_of(field: Obj) -> tuple[bool, Path] | None:
    """Return the list that a field is an entry of, and how its entries are known."""
    if field.get("entry"):
        return True, field["path"]
    return (False, field["path"][:-1]) if isinstance(field["path"][-1], dict) else None


def _are_same_place(one: Obj, other: Obj) -> bool:
    return bool(one["path"] == other["path"] and bool(one.get("entry")) == bool(other.get("entry")))


def _with_side(field: Obj, side: str, other: Obj) -> Obj:
    """Return a field with another field's value, or absence, on one of its sides."""
    rest = {key: value for key, value in field.items() if key != side}
    return rest | ({side: other[side]} if side in other else {})


def _applied_inside(outer: Obj, side: str, inner: Sequence[Obj], source: str, target: str) -> Obj:
    """Return the outer field after fields inside it have moved, on one of its sides, from one side to the other."""
    shifted = [_shifted(field, len(outer["path"])) for field in inner]
    value = moved(shifted, _alone(outer, side), source, target)
    return {key: item for key, item in outer.items() if key != side} | ({side: value[""]} if value else {})


def _alone(field: Obj, side: str) -> Obj:
    """Return a map with nothing but a side's value, at the key ""."""
    return {"": field[side]} if side in field else {}


def _shifted(field: Obj, depth: int) -> Obj:
    """Return a field with its path from another value's place on, which is the key "" of a map."""
    return {**field, "path": ["", *field["path"][depth:]], "prune": max(1, field["prune"] - depth + 1)}


def _depth(obj: Any, path: Path) -> int:
    return next((depth for depth in range(len(path)) if _get(obj, path[: depth + 1]) is _ABSENT), len(path))


def _get(obj: Any, path: Path) -> Any:
    for step in path:
        if isinstance(step, dict):
            index = list_entries.find(obj, step, by_value=False) if isinstance(obj, list) else -1
            obj = obj[index] if index >= 0 else _ABSENT
        else:
            obj = obj.get(step, _ABSENT) if isinstance(obj, dict) else _ABSENT
        if obj is _ABSENT:
            break
    return obj
