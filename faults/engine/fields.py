"""Before-images of exactly the fields that a merge patch changes, and patches that put them back.

A field is a dict: ``path`` (list of keys; lists of Kubernetes are values, never walked into), ``before`` and
``after`` (absent where the field is not there), ``prune`` (how many leading keys of the path existed before: parents
that the patch made are removed again once they are empty).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Obj = dict[str, Any]
_ABSENT = object()


def images(patch: Obj, before: Obj, after: Obj) -> list[Obj]:
    """Return the fields that ``patch`` changes, as they are in the object before it and after it."""
    return [_image(path, before, after) for path in _leaves(patch, [])]


def holds(field: Obj, side: str, obj: Obj) -> bool:
    """Return whether the object's field has its ``before`` or ``after`` value."""
    value = _get(obj, field["path"])
    if side not in field:
        return value is _ABSENT
    return value is not _ABSENT and bool(value == field[side])


def changed(field: Obj) -> bool:
    """Return whether the patch makes a difference to the field."""
    return ("before" in field) != ("after" in field) or field.get("before") != field.get("after")


def restoring(fields: Sequence[Obj], obj: Obj) -> Obj:
    """Return the merge patch that gives back every field that still has its injected value; {} where none has."""
    patch: Obj = {}
    for field in fields:
        if changed(field) and holds(field, "after", obj):
            _set(patch, field["path"], _replacement(field, obj))
    _prune(fields, obj, patch)
    return patch


def hand_on(older: Sequence[Obj], newer: Obj) -> Obj:
    """Return a newer change's field with the before-image of the older change whose value it took for the original.

    Whichever of two changes of one field is taken back first, the last one then gives back the original.
    """
    for field in older:
        same = field["path"] == newer["path"] and changed(field)
        if same and ("before" in newer, newer.get("before")) == ("after" in field, field.get("after")):
            inherited = {key: value for key, value in newer.items() if key != "before"}
            inherited["prune"] = min(field["prune"], newer["prune"])
            return inherited | ({"before": field["before"]} if "before" in field else {})
    return newer


def before_images(fields: Sequence[Obj]) -> Obj:
    """Return the merge patch that writes every before-image, whatever the object holds now."""
    patch: Obj = {}
    for field in fields:
        if changed(field):
            _set(patch, field["path"], field.get("before"))
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


def _leaves(patch: Obj, path: list[str]) -> Iterator[list[str]]:
    for key, value in patch.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, [*path, key])
        else:
            yield [*path, key]


def _image(path: list[str], before: Obj, after: Obj) -> Obj:
    image: Obj = {"path": path, "prune": _depth(before, path)}
    for side, obj in (("before", before), ("after", after)):
        value = _get(obj, path)
        if value is not _ABSENT:
            image[side] = value
    return image


def _replacement(field: Obj, obj: Obj) -> Any:
    """Return what a merge patch must say to give the before-image back."""
    before = field.get("before")
    current = _get(obj, field["path"])
    if isinstance(before, dict) and isinstance(current, dict):  # merging would keep the keys that were added
        return {**dict.fromkeys(current.keys() - before.keys()), **before}
    return before


def _prune(fields: Sequence[Obj], obj: Obj, patch: Obj) -> None:
    """Remove parents that did not exist before and would be left empty."""
    result = merge(obj, patch)
    for field in fields:
        path = field["path"]
        for depth in range(len(path) - 1, field["prune"], -1):
            parent = path[:depth]
            if _get(result, parent) == {} and _get(patch, parent) is not _ABSENT:
                _set(patch, parent, None)
                result = merge(obj, patch)


def _depth(obj: Any, path: Sequence[str]) -> int:
    for depth, key in enumerate(path):
        if not isinstance(obj, dict) or key not in obj:
            return depth
        obj = obj[key]
    return len(path)


def _get(obj: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(obj, dict) or key not in obj:
            return _ABSENT
        obj = obj[key]
    return obj


def _set(patch: Obj, path: Sequence[str], value: Any) -> None:
    for key in path[:-1]:
        inner = patch.setdefault(key, {})
        if inner is None:  # a parent is removed as a whole already
            return
        patch = inner
    patch[path[-1]] = value
