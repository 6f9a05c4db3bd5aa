"""The three ways to change part of an object: JSON patch, merge patch, strategic merge patch.

All are pure: they return a new tree (parts of it shared with the old one) and change nothing that they are given.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import jsonpatch
import orjson
from jsonpointer import JsonPointerException, resolve_pointer

from kubesim.api.status import bad_request
from kubesim.errors import ApiError, Obj
from kubesim.schema.types import Shape

DIRECTIVE = "$patch"
ORDER = "$setElementOrder/"
DELETE_PRIMITIVE = "$deleteFromPrimitiveList/"
RETAIN = "$retainKeys"
MAX_COPIED = 30_000_000
MAX_DEPTH = 200
MISSING = object()


def json_patch(obj: Obj, operations: Any) -> Obj:
    """Apply RFC 6902 operations. Raises 422 where an operation cannot be applied, 400 where it is none."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > 10_000:
        most = f"The allowed maximum operations in a JSON patch is 10000, got {len(operations)}"
        message = f"Request entity too large: {most}"
        raise ApiError(413, "RequestEntityTooLarge", message)
    patched, copied = orjson.loads(orjson.dumps(obj)), 0
    try:
        for operation in operations:
            plain, size = _without_copy(patched, _as_upstream(patched, operation))
            copied += size
            if copied > MAX_COPIED:
                raise _too_much_copied(copied)
            patched = jsonpatch.JsonPatch([plain]).apply(patched, in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException, KeyError, TypeError, AttributeError) as exc:
        raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {}) from exc
    if not isinstance(patched, dict):
        raise bad_request("the patched document is not an object")
    return patched


def _as_upstream(obj: Any, operation: Any) -> Any:
    """Return what upstream's library takes an operation for.

    It ignores what stands before the first slash of a path, and replaces what an object has not got.
    """
    if not isinstance(operation, dict):
        return operation
    paths = {name: operation[name] for name in ("path", "from") if "/" in str(operation.get(name, ""))}
    rooted = operation | {name: "/" + str(path).partition("/")[2] for name, path in paths.items()}
    parent = resolve_pointer(obj, str(rooted.get("path", "")).rpartition("/")[0], None)
    return rooted | {"op": "add"} if rooted.get("op") == "replace" and isinstance(parent, dict) else rooted


def _without_copy(obj: Any, operation: Any) -> tuple[Any, int]:
    """Return a copy as an addition, and its bytes: repeated copies of the whole double the object with each."""
    if not isinstance(operation, dict) or operation.get("op") != "copy" or not operation.get("path"):
        return operation, 0
    source = operation.get("from")
    value = resolve_pointer(obj, source, MISSING) if isinstance(source, str) else MISSING
    if value is MISSING:
        return operation, 0
    raw = orjson.dumps(value)
    if len(raw) > MAX_COPIED:
        return operation, len(raw)
    return {"op": "add", "path": operation["path"], "value": orjson.loads(raw)}, len(raw)


def _too_much_copied(size: int) -> ApiError:
    message = f"Unable to complete, the accumulated size increase of copy is {size}, exceeding the limit {MAX_COPIED}"
    return ApiError(413, "RequestEntityTooLarge", message)


def check_depth(patch: Any) -> None:
    """Raise 400 for a patch that nests deeper than any object does."""
    level, depth = [patch], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise bad_request("error decoding patch: exceeded max depth")
        level = [item for node in level for item in _items_of(node) if isinstance(item, dict | list)]


def _items_of(node: Any) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply RFC 7386: objects merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_patch(target: Obj, patch: Obj, shape: Shape | None) -> Obj:
    """Apply a strategic merge patch; ``shape`` knows the merge keys. Raises 400 for directives that make no sense."""
    if not isinstance(patch, dict):
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    merged = _merge_map(target, patch, shape)
    assert isinstance(merged, dict)
    return merged


def _merge_map(target: Obj, patch: Obj, shape: Shape | None) -> Obj | None:
    """Merge one object; None means that the patch deletes it."""
    if "$" not in "".join(patch):
        return _merge_plain(target, patch, shape)
    directive = patch.get(DIRECTIVE)
    if directive == "delete":
        return None
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE and value is not None}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type: {directive} in map: {go_print(patch)}")
    _check_directives(patch)
    merged = _retained(target, patch.get(RETAIN))
    for key in dict.fromkeys(map(_plain_key, patch)):
        if key:
            _merge_field(merged, key, patch, shape)
    return merged


def _merge_plain(target: Obj, patch: Obj, shape: Shape | None) -> Obj:
    """Merge one object by a patch without directives."""
    merged = dict(target)
    for key, value in patch.items():
        if key and isinstance(value, str):
            merged[key] = value
        elif key:
            _merge_field(merged, key, patch, shape)
    return merged


def _check_directives(patch: Obj) -> None:
    for key, value in patch.items():
        if (key == RETAIN or key.startswith((ORDER, DELETE_PRIMITIVE))) and not isinstance(value, list):
            raise bad_request(f"error decoding patch: {key} is not a list")


def _plain_key(key: str) -> str:
    """Return the field that a key of a patch speaks of, or "" for a directive on the whole map."""
    if key in (DIRECTIVE, RETAIN):
        return ""
    return key.removeprefix(ORDER).removeprefix(DELETE_PRIMITIVE)


def _retained(target: Obj, keys: Any) -> Obj:
    """Copy a map, dropping what a ``$retainKeys`` list does not name."""
    if keys is None:
        return dict(target)
    kept = _identities(keys)
    return {key: value for key, value in target.items() if key in kept}


def _merge_field(merged: Obj, key: str, patch: Obj, shape: Shape | None) -> None:
    field = shape.field(key) if shape else None
    value, present = patch.get(key), key in patch
    order, dropped = patch.get(ORDER + key), patch.get(DELETE_PRIMITIVE + key)
    old = merged.get(key)
    if present and value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        new = _merge_map(old if isinstance(old, dict) else {}, value, field.shape if field else None)
        if new is None:
            merged.pop(key, None)
        else:
            merged[key] = new
    elif isinstance(value, list) or order is not None or dropped is not None:
        merged[key] = _merge_list(old, value, order, dropped, field)
    else:
        merged[key] = value


def _merge_list(old: Any, value: Any, order: Any, dropped: Any, field: Any) -> list[Any]:
    existing = old if isinstance(old, list) else []
    if field is not None and field.merge_key and not _primitive(existing, value):
        return _merge_keyed(existing, value or [], order, field.merge_key, field.shape)
    if field is not None and field.primitive:
        gone = _identities(dropped or ())
        kept = [item for item in existing if _identity(item) not in gone]
        known = _identities(kept)
        fresh = [item for item in value or () if _identity(item) not in known]
        return _ordered([*kept, *fresh], order or value or [], existing, lambda item: item)
    return existing if value is None else value


def _primitive(existing: list[Any], value: Any) -> bool:
    return any(not isinstance(item, dict) for item in (*existing, *(value or ())))


def _identities(items: Iterable[Any]) -> set[Any]:
    return set(map(_identity, items))


def _identity(value: Any) -> Any:
    """Return a hashable stand-in that is equal exactly for equal values of JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, dict | list) else value


def _merge_keyed(existing: list[Obj], value: list[Obj], order: Any, key: str, shape: Shape | None) -> list[Obj]:
    """Merge lists whose entries are known by ``key``, honouring ``$patch: replace`` and ``$patch: delete``."""
    if any(entry.get(DIRECTIVE) == "replace" and key not in entry for entry in value):
        return [entry for entry in value if entry.get(DIRECTIVE) != "replace"]
    merged: list[Obj | None] = [*existing]
    places: dict[Any, deque[int]] = defaultdict(deque)
    for at, item in enumerate(existing):
        places[_identity(item.get(key))].append(at)
    for entry in value:
        if key not in entry:
            raise bad_request(f"map: {go_print(entry)} does not contain declared merge key: {key}")
        same = places[_identity(entry[key])]
        new = _merge_map((merged[same[0]] if same else None) or {}, entry, shape)
        if same:
            merged[same[0] if new is not None else same.popleft()] = new
        elif new is not None:
            same.append(len(merged))
            merged.append(new)
    order = value if order is None else order
    names = [item[key] for item in order if isinstance(item, dict) and key in item]
    return _ordered([item for item in merged if item is not None], names, existing, lambda item: item.get(key))


def _ordered(items: list[Any], order: list[Any], before: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Merge what ``order`` names, in that order, with the rest: before the rest unless both were there before."""

    def name_of(item: Any) -> Any:
        name = key(item)
        return name if isinstance(name, str | int) else None

    places = {name_of(item): place for place, item in enumerate(before)}
    rank = {name: place for place, name in enumerate(order) if isinstance(name, str | int)}
    named = sorted((item for item in items if name_of(item) in rank), key=lambda item: rank[name_of(item)])
    rest = deque(item for item in items if name_of(item) not in rank)
    merged: list[Any] = []
    for item in named:
        right = places.get(name_of(item))
        while rest and right is not None and (left := places.get(name_of(rest[0]))) is not None and left < right:
            merged.append(rest.popleft())
        merged.append(item)
    return [*merged, *rest]


def go_print(value: Any) -> str:
    """Print a value of a patch as Go's %v does."""
    match value:
        case dict():
            return "map[" + " ".join(f"{key}:{go_print(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(go_print, value)) + "]"
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
