"""Server-side apply: a manager says all that it wants of an object, and what it no longer wants is taken away.

Fields that others own and that would change are conflicts (409) unless forced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from kubesim.api import status
from kubesim.api.managed import Fields, fields_of, item_key, key_fields, said, set_key
from kubesim.api.options import Options
from kubesim.errors import ApiError, Obj
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind
from kubesim.schema.types import FieldType, Shape

KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Pair = tuple[Any, Any]
"""An item that is there and one that is wanted; either may be None."""


def applied(kind: Kind, current: Obj, wanted: Obj, subresource: str, options: Options) -> Obj:
    """Return the object as the manager wants it. Raises 409 with every conflict."""
    shape = kind.shape
    new = merged(current, wanted, shape)
    if not options.force:
        _check_conflicts(kind, current, new, shape, subresource, options)
    given_up = _given_up(current, said(wanted, shape), subresource, options)
    return _without(new, given_up, shape)


def note_applied(new: Obj, options: Options) -> None:
    """Keep kubectl's note of what it applied last up to date in place, where client-side apply has left one.

    This changes no owner, so it comes after the owners are known.
    """
    annotations = new["metadata"].get("annotations") or {}
    if options.wanted is not None and options.field_manager == KUBECTL and LAST_APPLIED in annotations:
        text = orjson.dumps(options.wanted, option=orjson.OPT_SORT_KEYS).decode()
        new["metadata"]["annotations"] = {**annotations, LAST_APPLIED: f"{text}\n"}


def is_mine(entry: Obj, subresource: str, options: Options) -> bool:
    """Tell whether an entry of managedFields is the applying manager's own."""
    own = (entry.get("manager"), entry.get("operation"), entry.get("subresource", ""))
    return own == (options.field_manager, "Apply", subresource)


def _given_up(current: Obj, wanted: Fields, subresource: str, options: Options) -> Fields:
    """Return the fields that the manager applied before, wants no longer, and that nobody else owns."""
    entries = current["metadata"].get("managedFields", ())
    mine: Fields = next((entry["fieldsV1"] for entry in entries if is_mine(entry, subresource, options)), {})
    left = _minus(mine, wanted)
    for entry in entries:
        if not is_mine(entry, subresource, options):
            left = _minus(left, entry["fieldsV1"])
    return left


def _minus(fields: Fields, other: Fields) -> Fields:
    """Return the leaves of ``fields`` that are not in ``other``."""
    kept: Fields = {}
    for name, inner in fields.items():
        if name == ".":
            continue
        if name not in other:
            kept[name] = inner
        elif rest := _minus(inner, other[name]):
            kept[name] = rest
    return kept


def _check_conflicts(
    kind: Kind, current: Obj, new: Obj, shape: Shape | None, subresource: str, options: Options
) -> None:
    changed = fields_of(new, shape, old=current)
    conflicts = []
    for entry in current["metadata"].get("managedFields", ()):
        if is_mine(entry, subresource, options):
            continue
        who = f'conflict with "{entry["manager"]}"'
        if below := entry.get("subresource"):
            who += f' with subresource "{below}"'
        if entry.get("operation") == "Update":
            who += f" using {entry['apiVersion']}"
        conflicts += [(who, path) for path in _shared(changed, entry["fieldsV1"], "")]
    if conflicts and options.field_manager == KUBECTL:
        upgraded = _applied_before(current, shape)
        conflicts = [(who, path) for who, path in conflicts if path not in upgraded]
    if conflicts:
        raise _conflict(conflicts)


def check_unowned_scale(current: Obj, wanted: Obj, path: tuple[str, ...]) -> None:
    """Raise 409 for an apply that changes a size that nobody owns: it was so before anybody applied a Scale."""
    size = dig(wanted, path)
    if size is None or size == dig(current, path):
        return
    owned = tuple(f"f:{name}" for name in path)
    if all(dig(entry["fieldsV1"], owned) is None for entry in current["metadata"].get("managedFields", ())):
        who = 'conflict with "before-first-apply" with subresource "scale" using autoscaling/v1'
        raise _conflict([(who, ".spec.replicas")])


def _applied_before(current: Obj, shape: Shape | None) -> set[str]:
    """Return the paths that kubectl's client-side apply set and nobody changed since: they are its own."""
    note = (current["metadata"].get("annotations") or {}).get(LAST_APPLIED, "")
    try:
        before = orjson.loads(note)
    except orjson.JSONDecodeError:
        return set()
    if not isinstance(before, dict):
        return set()
    said_then, changed_since = fields_of(before, shape), fields_of(before, shape, old=current)
    return {*_shared(said_then, said_then, "")} - {*_shared(changed_since, changed_since, "")}


def _shared(changed: Fields, owned: Fields, path: str) -> list[str]:
    """Return the paths of the changed leaves that another manager owns."""
    found: list[str] = []
    for name, inner in changed.items():
        if name == "." or name not in owned:
            continue
        here = path + _shown(name)
        deeper = [key for key in inner if key != "."]
        found += _shared(inner, owned[name], here) if deeper and owned[name] else [] if deeper else [here]
    return found


def _shown(name: str) -> str:
    """``f:spec`` is shown as ``.spec`` and ``k:{"name":"c"}`` as ``[name="c"]``."""
    if name.startswith("f:"):
        return f".{name[2:]}"
    shown = ",".join(f"{key}={status.show(value)}" for key, value in key_fields(name).items())
    return f"[{shown}]"


def _conflict(conflicts: list[tuple[str, str]]) -> ApiError:
    plural = "s" if len(conflicts) > 1 else ""
    by_owner: dict[str, list[str]] = {}
    for who, path in conflicts:
        by_owner.setdefault(who, []).append(path)
    if len(conflicts) == 1:
        shown = f"{conflicts[0][0]}: {conflicts[0][1]}"
    else:
        shown = "\n".join(
            f"{who.replace('conflict with', 'conflicts with')}:\n" + "\n".join(f"- {path}" for path in paths)
            for who, paths in sorted(by_owner.items())
        )
    causes = [{"reason": "FieldManagerConflict", "message": who, "field": path} for who, path in conflicts]
    message = f"Apply failed with {len(conflicts)} conflict{plural}: {shown}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def _without(obj: Obj, fields: Fields, shape: Shape | None) -> Obj:
    """Return an object without the given fields."""
    kept = dict(obj)
    for name, inner in fields.items():
        key = name[2:]
        if not name.startswith("f:") or key not in kept:
            continue
        if not inner:
            del kept[key]
            continue
        field = shape.field(key) if shape else None
        kept[key] = _pruned(kept[key], inner, field)
    return kept


def _pruned(value: Any, fields: Fields, field: FieldType | None) -> Any:
    if isinstance(value, dict):
        return _without(value, fields, field.shape if field else None)
    if not isinstance(value, list) or field is None:
        return value
    if field.list_type == "set":
        return [item for item in value if set_key(item) not in fields]
    if field.list_type != "map":
        return value
    kept = []
    for item in value:
        key = item_key(item, field)
        if key not in fields:
            kept.append(item)
        elif fields[key] and f"f:{field.keys[0]}" not in fields[key]:
            kept.append(_without(item, fields[key], field.shape))
    return kept


def merged(current: Obj, wanted: Obj, shape: Shape | None) -> Obj:
    """Return an object with what is wanted; a null takes a field away."""
    found = dict(current)
    for name, value in wanted.items():
        new = _value(found.get(name), value, shape.field(name) if shape else None)
        if new is None:
            found.pop(name, None)
        else:
            found[name] = new
    return found


def _value(current: Any, wanted: Any, field: FieldType | None) -> Any:
    if isinstance(wanted, dict):
        if not isinstance(current, dict) or (field is not None and field.atomic):
            current = {}
        return merged(current, wanted, field.shape if field is not None and field.form == "object" else None)
    if not isinstance(wanted, list) or not isinstance(current, list) or field is None:
        return wanted
    if field.list_type == "set":
        return [new if old is None else old for old, new in _paired(current, wanted, set_key)]
    if field.list_type == "map" and all(isinstance(item, dict) for item in (*current, *wanted)):
        return [_entry(old, new, field) for old, new in _paired(current, wanted, lambda item: item_key(item, field))]
    return wanted


def _entry(old: Obj | None, new: Obj | None, field: FieldType) -> Obj:
    if old is None or new is None or field.atomic:
        return new or old or {}
    return merged(old, new, field.shape)


def _paired(current: list[Any], wanted: list[Any], key: Callable[[Any], str]) -> Iterator[Pair]:
    """Yield each item of a merged list as what it is and what it should be."""
    there, asked = {key(item): item for item in current}, {key(item): item for item in wanted}
    left, right = deque(there), deque(asked)
    shared = deque(name for name in right if name in there)
    while left or right:
        if left and right and left[0] == right[0]:
            name = left.popleft()
            right.popleft()
            yield there[name], asked[name]
        elif left and right and left[0] in asked and left[0] != next(iter(shared), ""):
            left.popleft()  # its turn comes where it is wanted
            continue
        elif left and left[0] not in asked:
            yield there[left.popleft()], None
            continue
        elif not right:
            left.popleft()  # it has had its turn
            continue
        else:
            name = right.popleft()
            yield there.get(name), asked[name]
        if shared and shared[0] == name:
            shared.popleft()
