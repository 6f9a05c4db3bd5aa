"""How a server-side apply merges: maps by key, sets by item, keyed lists by all of their keys, the rest as a whole.

The order of lists is that of sigs.k8s.io/structured-merge-diff: what is wanted comes in its own order, and what is
there already stays before or between, as far as the two do not contradict each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kubesim.api.managed import item_key, set_key
from kubesim.errors import Obj
from kubesim.schema.types import FieldType, Shape

Pair = tuple[Any, Any]
"""An item that is there and one that is wanted; either may be None."""


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
