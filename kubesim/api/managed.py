"""managedFields: who set what. A write owns the fields that it changed, and nobody owns what is gone.

A field set is written as fieldsV1: ``{"f:spec": {"f:replicas": {}}}``, entries of keyed lists as ``k:{"name":"c"}``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from kubesim.api.meta import rfc3339
from kubesim.api.options import Options
from kubesim.errors import Obj
from kubesim.schema.registry import Kind
from kubesim.schema.types import FieldType, Shape, shape_of

Fields = dict[str, Any]
SYSTEM = frozenset(
    ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "name", "namespace")
    + ("deletionTimestamp", "deletionGracePeriodSeconds")
)
MISSING: Any = object()
DEFAULT_MANAGER = "unknown"
UNOWNED = ("kind", "apiVersion", "metadata")
"""What nobody owns, or only parts of."""
LONE = b'{".":{}}'


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone inside a field that is there still. ``leaf`` says that it has no fields inside any longer."""

    inside: Lost
    leaf: bool = False


Lost = dict[str, Loss | None]
"""What an object has lost, by the names of a field set; None for what is gone as a whole."""
NOTHING = Loss({})


def record_new(kind: Kind, new: Obj, options: Options, now: datetime) -> None:
    """Write ``metadata.managedFields`` of a new object in place: its maker owns what was sent and defaulted."""
    if options.disowned:
        new["metadata"].pop("managedFields", None)
        return
    sent = {name: value for name, value in new.items() if name != "status"} if kind.has_status else new
    mine = _entry_of([], kind, "", options)
    shape = kind.shape
    wanted, nothing = options.wanted, shape.nulls | shape.zeros | shape.empty if shape and kind.custom is None else {}
    mine["fieldsV1"] = _changed(nothing, sent, shape) if wanted is None else said(_above(kind, wanted, ""), shape)
    mine["time"] = rfc3339(now)
    if mine["fieldsV1"]:
        new["metadata"]["managedFields"] = [mine]


def record(kind: Kind, old: Obj, new: Obj, subresource: str, options: Options, now: datetime) -> None:
    """Write ``metadata.managedFields`` of a changed object in place, carrying over those of ``old``."""
    if options.disowned or not (options.wanted is not None or old["metadata"].get("managedFields")):
        new["metadata"].pop("managedFields", None)  # nobody is noted until somebody applies
        return
    shape = kind.shape
    parts = [name for name in {**old, **new} if name == "metadata" or old.get(name) != new.get(name)]
    was, now_is = ({name: obj[name] for name in parts if name in obj} for obj in (old, new))
    # what is the same in both has the owners that it had
    changed, lost = _changed(was, now_is, shape), _lost_of_object(was, now_is, shape)
    given, known = new["metadata"].get("managedFields") or (), old["metadata"].get("managedFields", ())
    found = given if given and given != known and all(map(_is_entry, given)) else known
    entries = [{"fieldsV1": {}, **entry} for entry in found]
    if options.wanted is not None:
        if not entries:
            entries.append(_before_first(kind, old, now))
        mine = _entry_of(entries, kind, subresource, options)
        before, mine["fieldsV1"] = mine.get("fieldsV1"), said(_above(kind, options.wanted, subresource), shape)
        if changed or (mine["fieldsV1"] != before and not _has(old, options.wanted, shape)):
            mine["time"] = rfc3339(now)
        for entry in entries:
            if entry is not mine:
                entry["fieldsV1"] = _without(entry.get("fieldsV1", {}), changed)
    elif changed:
        mine = _entry_of(entries, kind, subresource, options)
        for entry in entries:
            if entry is not mine:
                entry["fieldsV1"] = _without(entry.get("fieldsV1", {}), changed)
        mine["fieldsV1"] = {} if _to_none(kind, new, subresource) else _union(mine.get("fieldsV1", {}), changed)
        mine["time"] = rfc3339(now)
        if options.through:
            del mine["time"]
    for entry in entries:
        entry["fieldsV1"] = _plain(_within(entry["fieldsV1"], lost) if lost else entry["fieldsV1"])
    kept = [entry for entry in entries if entry["fieldsV1"]]
    if kept:
        new["metadata"]["managedFields"] = sorted(kept, key=_rank)
    else:
        new["metadata"].pop("managedFields", None)


def _has(found: Any, wanted: Any, shape: Shape | None, field: FieldType | None = None) -> bool:
    """Tell whether an object has all that is wanted: also what is written and then left out, as empty labels are."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        fields = shape.fields if shape is not None and (field is None or field.form != "map") else {}
        return all(
            name in found and _has(found[name], value, inner.shape if (inner := fields.get(name)) else None, inner)
            for name, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list) and field is not None and field.list_type != "atomic":
        there = _by_key(found, field)
        return all(key in there and _has(there[key], item, shape) for key, item in _by_key(wanted, field).items())
    return bool(found == wanted)


def _to_none(kind: Kind, new: Obj, subresource: str) -> bool:
    """Tell whether something was scaled to nothing: a Scale leaves out a zero, and nobody owns what is left out."""
    value: Any = new
    for name in kind.scale.spec if kind.scale is not None and subresource == "scale" else ():
        value = value.get(name) if isinstance(value, dict) else None
    return bool(value == 0)


def _before_first(kind: Kind, old: Obj, now: datetime) -> Obj:
    """Return the entry of everybody who wrote an object of which nobody was noted."""
    options = Options(field_manager="before-first-apply")
    return {**_entry_of([], kind, "", options), "time": rfc3339(now), "fieldsV1": _changed({}, old, kind.shape)}


def _above(kind: Kind, wanted: Obj, subresource: str) -> Obj:
    """Return what of a wanted object counts: its status only where it is written as such."""
    return {name: value for name, value in wanted.items() if subresource or name != "status" or not kind.has_status}


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and _is_set(entry.get("fieldsV1", {}))


def _is_set(fields: Any) -> bool:
    """Tell whether a client sent a field set; what it sends else is not taken."""
    return isinstance(fields, dict) and all(map(_is_set, fields.values()))


def _rank(entry: Obj) -> tuple[str, ...]:
    """The order of the entries: what was applied before what was updated, then the older ones first."""
    return tuple(entry.get(name, "") for name in ("operation", "time", "manager", "apiVersion", "subresource"))


def said(wanted: Obj, shape: Shape | None) -> Fields:
    """Return the fields that an apply speaks of; only entries of keyed lists are owned beside what is in them."""
    return _undotted(_changed({}, wanted, shape))


def _undotted(fields: Fields, *, entry: bool = False) -> Fields:
    kept = {name: inner for name, inner in fields.items() if (entry or name != ".") and not _empty_list(name, inner)}
    inside = {name: _undotted(inner, entry=name.startswith("k:")) for name, inner in kept.items()}
    return {name: inner for name, inner in inside.items() if inner or not kept[name] or name == "."}


def _empty_list(name: str, inner: Fields) -> bool:
    """Tell whether a field is a list whose entries have owners, of which there are none."""
    return name.startswith("f:") and inner == {".": {}}


def _entry_of(entries: list[Obj], kind: Kind, subresource: str, options: Options) -> Obj:
    """Return the entry of the one who writes, made if there is none."""
    manager = options.field_manager or options.user or DEFAULT_MANAGER
    operation = "Apply" if options.wanted is not None else "Update"
    wanted = {"manager": manager, "operation": operation, "apiVersion": kind.api_version}
    for entry in entries:
        same = all(entry.get(name) == value for name, value in wanted.items())
        if same and entry.get("subresource", "") == subresource:
            return entry
    made = {**wanted, "fieldsType": "FieldsV1"}
    if subresource:
        made["subresource"] = subresource
    entries.append(made)
    return made


def _changed(old: Any, new: Obj, shape: Shape | None, *, top: bool = True) -> Fields:
    """Return the fields whose values differ from the old object's; ``MISSING`` stands for no old object."""
    found: Fields = {}
    for name, value in new.items():
        before = old.get(name, MISSING) if isinstance(old, dict) else MISSING
        if value == before or (top and name in ("kind", "apiVersion")):
            continue
        fields: Fields = {}
        if isinstance(value, dict | list):
            field = shape.field(name) if shape else None
            if top and name == "metadata" and isinstance(value, dict):
                before = {} if before is MISSING else before
                fields = _changed(before, _ownable(value), shape_of("V1ObjectMeta"), top=False)
            else:
                fields = _field(before, value, field)
            if not fields and _only_lost(before, value, field):
                continue
        found[f"f:{name}"] = fields
    return found


def _only_lost(before: Any, value: Any, field: FieldType | None) -> bool:
    """Tell whether a structure in which nothing was set has merely lost something."""
    if isinstance(value, list) and isinstance(before, list):
        return field is not None and field.list_type != "atomic"
    return isinstance(value, dict) and isinstance(before, dict) and not _is_leaf(field)


def _is_leaf(field: FieldType | None) -> bool:
    """Tell whether a structure has one owner for all that is in it."""
    return field is not None and (field.form == "any" or field.atomic)


def _field(before: Any, value: Any, field: FieldType | None) -> Fields:
    """Return the fields inside one; "." says that the structure itself is new."""
    dot: Fields = {".": {}} if before is MISSING else {}
    if isinstance(value, dict) and value and not _is_leaf(field):
        return dot | _changed(before, value, field.shape if field and field.form == "object" else None, top=False)
    if isinstance(value, list) and field is not None and field.list_type == "map":
        return dot | _items(before, value, field)
    if isinstance(value, list) and field is not None and field.list_type == "set":
        known = Counter(map(set_key, before if isinstance(before, list) else ()))
        fresh: Fields = {".": {}} if before is None else dot
        return fresh | {key: {} for key, often in Counter(map(set_key, value)).items() if often != known[key]}
    return {}


def _items(before: Any, value: list[Any], field: FieldType) -> Fields:
    old = {item_key(item, field): item for item in before} if isinstance(before, list) else {}
    fields: Fields = {}
    for item in value:
        key = item_key(item, field)
        if old.get(key) == item:
            continue
        inner = {} if field.atomic else _changed(old.get(key, MISSING), item, field.shape, top=False)
        if key in old:
            fields |= {key: inner} if inner else {}
        else:
            fields[key] = inner if field.atomic else {".": {}, **inner}
    return fields


def fields_of(obj: Obj, shape: Shape | None, old: Obj | None = None) -> Fields:
    """Return the field set of an object, or of what it changes of ``old``."""
    return _changed(old or {}, obj, shape)


def key_fields(key: str) -> Obj:
    """Return what identifies an entry of a keyed list: the inverse of ``item_key``."""
    fields: Obj = orjson.loads(key.removeprefix("k:"))
    return fields


def item_key(item: Obj, field: FieldType) -> str:
    """Return how a field set names an entry of a keyed list."""
    return f"k:{orjson.dumps(entry_key(item, field), option=orjson.OPT_SORT_KEYS).decode()}"


def entry_key(item: Obj, field: FieldType) -> Obj:
    """Return the key of an entry of a keyed list, with what it is by default."""
    key = {name: item[name] for name in field.keys if name in item}
    return key if len(key) == len(field.keys) else field.key_defaults | key


def set_key(item: Any) -> str:
    """Return how a field set names an item of a set."""
    return f"v:{orjson.dumps(item).decode()}"


def _union(one: Fields, other: Fields) -> Fields:
    merged = dict(one)
    for name, fields in other.items():
        merged[name] = _both(merged[name], fields) if name in merged else fields
    return merged


def _both(one: Fields, other: Fields) -> Fields:
    """Return two field sets of one field; what was owned as an empty whole still is when there is more in it."""
    whole: Fields = {".": {}} if bool(one) != bool(other) else {}
    return whole | _union(one, other)


def _without(fields: Fields, taken: Fields) -> Fields:
    """Return the fields that nobody else has taken."""
    kept: Fields = {}
    for name, inner in fields.items():
        if name not in taken or (not inner and taken[name] and "." not in taken[name]):
            kept[name] = inner  # nobody took it, or only what is in it
        elif inner and taken[name] and (rest := _without(inner, taken[name])):
            kept[name] = rest
    return kept


def _within(fields: Fields, lost: Lost) -> Fields:
    """Return the fields that the object has not lost; what it never had, because it was applied empty, stays."""
    kept: Fields = {}
    for name, inner in fields.items():
        gone = lost.get(name, NOTHING)
        if gone is None:
            continue
        rest = _within(inner, gone.inside) if gone.inside else inner
        if rest or not inner or gone.leaf:
            kept[name] = rest
    return kept


def _plain(fields: Fields) -> Fields:
    """Return a field set in which "." stands only beside others."""
    if LONE not in orjson.dumps(fields):
        return fields
    return {name: _without_lone(inner) for name, inner in fields.items()}


def _without_lone(fields: Fields) -> Fields:
    return {} if fields.keys() == {"."} else {name: _without_lone(inner) for name, inner in fields.items()}


def _lost_of_object(old: Obj, new: Obj, shape: Shape | None) -> Lost:
    """Return what an object has lost; its kind and what the system sets nobody owns."""
    was, now_is = ({name: obj[name] for name in obj if name not in UNOWNED} for obj in (old, new))
    lost = _lost(was, now_is, shape)
    before, after = (_ownable(obj["metadata"]) for obj in (old, new))
    if inside := _lost(before, after, shape_of("V1ObjectMeta")):
        lost["f:metadata"] = Loss(inside) if after else None
    return lost


def _ownable(metadata: Obj) -> Obj:
    return {name: value for name, value in metadata.items() if name not in SYSTEM}


def _lost(old: Obj, new: Obj, shape: Shape | None) -> Lost:
    lost: Lost = {}
    for name, before in old.items():
        value = new.get(name, MISSING)
        if value is MISSING:
            lost[f"f:{name}"] = None
        elif value is not before and value != before:
            field = shape.field(name) if shape else None
            if inside := _lost_inside(before, value, field):
                lost[f"f:{name}"] = Loss(inside, not _has_parts(value, field))
    return lost


def _has_parts(value: Any, field: FieldType | None) -> bool:
    """Tell whether what is in a value is owned apart from it."""
    if isinstance(value, list):
        return field is not None and field.list_type != "atomic"
    return isinstance(value, dict) and bool(value) and not _is_leaf(field)


def _lost_inside(before: Any, value: Any, field: FieldType | None) -> Lost:
    if not _has_parts(before, field):
        return {}
    if isinstance(before, dict):
        shape = field.shape if field and field.form == "object" else None
        return _lost(before, value if isinstance(value, dict) else {}, shape)
    assert field is not None
    old, new = (_by_key(items, field) for items in (before, value))
    return {key: loss for key in old if (loss := _lost_item(old[key], new.get(key, MISSING), field)) is not NOTHING}


def _by_key(items: Any, field: FieldType) -> Obj:
    """Return the entries of a list that have owners of their own, by their names in a field set."""
    key_of = set_key if field.list_type == "set" else partial(item_key, field=field)
    return {key_of(item): item for item in items} if isinstance(items, list) else {}


def _lost_item(before: Any, value: Any, field: FieldType) -> Loss | None:
    if value is MISSING:
        return None
    apart = field.list_type == "map" and not field.atomic and value != before
    inside = _lost(before, value, field.shape) if apart else None
    return Loss(inside) if inside else NOTHING
