"""Server-side apply: a manager says all that it wants of an object, and what it no longer wants is taken away.

Fields that others own and that would change are conflicts (409) unless forced. Maps merge by key, sets by item, keyed
lists by all of their keys, the rest as a whole. The order of lists is that of sigs.k8s.io/structured-merge-diff: what
is wanted comes in its own order, and what is there already stays before or between, as far as the two do not
contradict each other. What does not fit its kind's type is told with every error, by path; upstream answers that with
a 500 that has no reason, but a client's mistake is no mistake of ours, so here it is a 400.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from kubesim.api import status
from kubesim.api.managed import Fields, entry_key, fields_of, item_key, key_fields, said, set_key
from kubesim.api.options import Options
from kubesim.api.patch import go_print
from kubesim.api.status import bad_request
from kubesim.errors import ApiError, Obj
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind
from kubesim.schema.types import FieldType, Shape

KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Pair = tuple[Any, Any]
"""An item that is there and one that is wanted; either may be None."""
_GO = {str: "string", int: "int64", float: "float64", bool: "bool", list: "[]interface {}"}
DUPLICATE = "duplicate entries for key"
"""Beginning of the fault that is only told where there is no other."""
_UNLIKE_ITEMS: dict[type, str] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}
"""Values that cannot be an item of a set, and upstream's words for them."""
_WORDS = {"string": str, "bytes": str, "time": str, "bool": bool}


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


def check_typed(kind: Kind, wanted: Obj) -> None:
    """Raise where ``wanted`` has fields that the kind's type does not declare, or values of other types."""
    shape = kind.shape
    found = sorted(_object_errors(shape, wanted, "")) if shape is not None else []
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


def _object_errors(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{_go_shown(value)}}}"
        return
    for name, item in value.items():
        field = shape.fields.get(name)
        if field is None and shape.open:
            continue
        if field is None:
            yield f"{path}.{name}: field not declared in schema"
        elif item is not None:
            yield from _value_errors(field, item, f"{path}.{name}")


def _value_errors(field: FieldType, value: Any, path: str) -> Iterator[str]:
    match field.form:
        case "object":
            if field.shape is not None:
                yield from _object_errors(field.shape, value, path)
        case "list" if not isinstance(value, list):
            yield f"{path}: expected list, got &{{{_go_shown(value)}}}"
        case "list":
            yield from _repeated(field, value, path)
            for at, item in enumerate(value):
                if complaint := _unnamed(field, item):
                    yield f"{path}: element {at}: {complaint}"
                    return
                if item is not None:
                    where = path + _place(field, item, at)
                    yield from (
                        _object_errors(field.shape, item, where) if field.shape else _scalar(field.item, item, where)
                    )
        case "map" if not isinstance(value, dict):
            yield f"{path}: expected map, got &{{{_go_shown(value)}}}"
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
        shown = f'"{value}"' if isinstance(value, str) else _go_shown(value)
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


def _go_shown(value: Any) -> str:
    return go_print(value)
