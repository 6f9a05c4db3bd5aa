"""Entries of Kubernetes' lists: the keys by which they are known, and the differences of two lists.

The API's own merge keys where it has them, and ``key`` and ``effect`` for taints, whose list it replaces as a whole.
Lists of objects without a key (rules of a role, tolerations) are compared by value; lists of plain values whose order
means something (``command``, ``args``) are one value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

Obj = dict[str, Any]
Keys = tuple[str, ...]
BY_VALUE: Keys = ()
RECURSED = frozenset({"containers", "initContainers", "ephemeralContainers"})
"""Lists whose entries are changed field by field. Entries of others are small, and some of their fields exclude each
other (``value`` and ``valueFrom``): they are given back as a whole."""
_KEYS: dict[str, tuple[Keys, ...]] = {
    "taints": (("key", "effect"),),
    "ports": (("name",), ("containerPort", "protocol"), ("port", "protocol"), ("containerPort",), ("port",)),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "hostAliases": (("ip",),),
    "ownerReferences": (("uid",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}
_BY_NAME: tuple[Keys, ...] = (("name",),)
_SETS = frozenset(
    {"apiGroups", "finalizers", "nonResourceURLs", "policyTypes", "resourceNames", "resources", "verbs"}
)
"""Lists of plain values whose order means nothing."""


@dataclass(frozen=True, slots=True)
class EntryChange:
    """One entry that differs. ``step`` is its place in a path (a map of its keys), None for an entry by value.

    ``sides`` has ``before``, ``after`` or both; ``behind`` is the identity of the entry in front of it.
    """

    step: Obj | None
    sides: Obj
    behind: Any = None


def compare(name: str, before: Sequence[Any], after: Sequence[Any]) -> list[EntryChange] | None:
    """Return how the entries of a list differ, given its field's name; None where only the whole can be compared."""
    keys = _keys(name, before, after)
    if keys is None or _is_reordered(keys, before, after) or _is_renumbered(name, keys, before, after):
        return None
    return list(_by_value(before, after) if keys == BY_VALUE else _by_key(keys, before, after))


def find(entries: Sequence[Any], identity: Any, *, by_value: bool) -> int:
    """Return the index of an entry by its keys or its value; -1 where there is none."""
    for index, entry in enumerate(entries):
        if entry == identity if by_value else _has(entry, identity):
            return index
    return -1


def _has(entry: Any, step: Obj) -> bool:
    return isinstance(entry, dict) and all(entry.get(key) == value for key, value in step.items())


def _keys(name: str, before: Sequence[Any], after: Sequence[Any]) -> Keys | None:
    entries = [*before, *after]
    if all(isinstance(entry, dict) for entry in entries):
        for keys in _KEYS.get(name, _BY_NAME):
            if _are_unique(keys, before) and _are_unique(keys, after):
                return keys
        return BY_VALUE if _differ(before) and _differ(after) else None
    return BY_VALUE if name in _SETS and _differ(before) and _differ(after) else None


def _are_unique(keys: Keys, entries: Sequence[Obj]) -> bool:
    named = all(isinstance(entry.get(key), (str, int)) for entry in entries for key in keys)
    return named and len({_id(keys, entry) for entry in entries}) == len(entries)


def _differ(entries: Sequence[Any]) -> bool:
    return len({_canonical(entry) for entry in entries}) == len(entries)


def _is_reordered(keys: Keys, before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Return whether entries of both lists have changed places: then their order is what was changed."""
    old, new = ([_id(keys, entry) for entry in entries] for entries in (before, after))
    return [entry for entry in old if entry in new] != [entry for entry in new if entry in old]


def _is_renumbered(name: str, keys: Keys, before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Return whether the only port has another number: a Service without port names can have no second one."""
    single = name == "ports" and len(before) == len(after) == 1
    return single and _id(keys, before[0]) != _id(keys, after[0])


def _by_key(keys: Keys, before: Sequence[Obj], after: Sequence[Obj]) -> Iterator[EntryChange]:
    old, new = ({_id(keys, entry): entry for entry in entries} for entries in (before, after))
    for entry, behind in _with_previous(before):
        counterpart = new.get(_id(keys, entry))
        if counterpart is None:
            yield EntryChange(_step(keys, entry), {"before": entry}, behind and _step(keys, behind))
        elif counterpart != entry:
            yield EntryChange(_step(keys, entry), {"before": entry, "after": counterpart})
    for entry, behind in _with_previous(after):
        if _id(keys, entry) not in old:
            yield EntryChange(_step(keys, entry), {"after": entry}, behind and _step(keys, behind))


def _by_value(before: Sequence[Any], after: Sequence[Any]) -> Iterator[EntryChange]:
    """Yield entries that were replaced in their places, removed and added."""
    old, new = ([_canonical(entry) for entry in entries] for entries in (before, after))
    behind_old, behind_new = ([previous for _, previous in _with_previous(side)] for side in (before, after))
    for tag, i, last_i, j, last_j in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        both = min(last_i - i, last_j - j)
        for n in range(both):
            yield EntryChange(None, {"before": before[i + n], "after": after[j + n]})
        for n in range(i + both, last_i):
            yield EntryChange(None, {"before": before[n]}, behind_old[n])
        for n in range(j + both, last_j):
            yield EntryChange(None, {"after": after[n]}, behind_new[n])


def _with_previous(entries: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(entries, [None, *entries], strict=False)


def _id(keys: Keys, entry: Any) -> Any:
    return tuple(entry[key] for key in keys) if keys else _canonical(entry)


def _step(keys: Keys, entry: Obj) -> Obj:
    return {key: entry[key] for key in keys}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
