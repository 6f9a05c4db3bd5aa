"""What a CEL expression may cost at most, by the sizes that its variables may have, as upstream estimates it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Protocol

from kubesim.cel.costs import CHECK, FORMAT_PATTERN, NEW_LIST, NEW_MAP, REGEXES, STRINGS
from kubesim.cel.syntax import Node, value_of
from kubesim.cel.types import MACROS, NUMBERS, Checked, held

UNBOUNDED = 2**64 - 1
SCALARS = (*NUMBERS, "bool", "timestamp", "duration")


class Sized(Protocol):
    """What is known of the values at a place: how many elements they have at most, and of what is in them."""

    @property
    def most(self) -> int: ...
    @property
    def fields(self) -> Any: ...
    @property
    def item(self) -> Any: ...


Named = dict[str, tuple[Sized | None, int]]
"""What names stand for: what is known of it, and its size where that is known otherwise."""


def _times(one: float, other: float) -> int:
    return min(UNBOUNDED, ceil(one * other))


class _Estimate:
    def __init__(self, checked: Checked, root: Sized | None) -> None:
        self._kinds = checked.kinds
        self._root = root
        """What upstream takes any name for that it does not know, those of types among them."""
        self._sizes: dict[int, int] = {}
        self._known: dict[int, Sized | None] = {}

    def of(self, node: Node, names: Named) -> int:
        """Return what an expression costs at most."""
        match node.kind:
            case "literal":
                return 0
            case "name":
                known, size = names.get(node.text) or (self._root, UNBOUNDED)
                self._known[id(node)] = known
                if known is None:
                    self._sizes[id(node)] = size
                return 1
            case "select":
                return self._select(node, names)
            case "choice":
                costs = [self.of(part, names) for part in node.parts]
                self._sizes[id(node)] = max(map(self.size, node.parts[1:]))
                return costs[0] + max(costs[1:])
            case "list":
                return NEW_LIST + sum(self.of(part, names) for part in node.parts)
            case "map":
                return NEW_MAP + sum(self.of(part, names) for entry in node.parts for part in entry.parts)
            case "maybe":
                return self.of(node.parts[0], names)
        return self._call(node, names)

    def size(self, node: Node) -> int:
        """Return how large a value may be."""
        if (size := self._sizes.get(id(node))) is not None:
            return size
        if node.kind in ("list", "map"):
            return len(node.parts)
        if node.kind == "literal":
            return len(value_of(node)) if node.text in ("string", "bytes") else 1
        if (known := self._known.get(id(node))) is not None:
            return known.most
        return 1 if held(self._kinds.get(id(node))) in SCALARS else UNBOUNDED

    def _select(self, node: Node, names: Named) -> int:
        holder = node.parts[0]
        cost = self.of(holder, names)
        self._known[id(node)] = _inside(self._known.get(id(holder)), node.text)
        kind = self._kinds.get(id(holder))
        return cost + (isinstance(kind, tuple) and kind[0] in ("object", "map"))

    def _call(self, node: Node, names: Named) -> int:
        if node.text == "has" and not node.method:
            return self.of(node.parts[0].parts[0], names) if node.parts[0].parts else 0
        if node.method and node.text in MACROS and len(node.parts) > 2:
            return self._loop(node, names)
        if node.method and node.text in ("optMap", "optFlatMap") and len(node.parts) == 3:
            known = self._known.get(id(node.parts[0]))
            cost = 2 * self.of(node.parts[0], names) + NEW_LIST + 3
            return cost + self.of(node.parts[2], {**names, node.parts[1].text: (known, self.size(node.parts[0]))})
        cost = sum(self.of(part, names) for part in node.parts)
        if node.text in ("_[_]", "_[?_]", "_?._"):
            inside = node.parts[1].source[1:-1] if node.text == "_?._" else "@items"
            self._known[id(node)] = _inside(self._known.get(id(node.parts[0])), inside)
        if node.text in ("_&&_", "_||_"):
            return cost
        if node.text == "dyn" and node.parts:
            self._known[id(node)], self._sizes[id(node)] = None, self.size(node.parts[0])
        return min(UNBOUNDED, cost + self._function(node))

    def _function(self, node: Node) -> int:
        """Return what a call costs beside what it is given, and note how large its value is."""
        sizes = [self.size(part) for part in node.parts]
        rule = FUNCTIONS.get(node.text)
        if node.text == "_+_":
            self._sizes[id(node)] = min(UNBOUNDED, sum(sizes))
            kind = self._kinds.get(id(node))
            return _times(sum(sizes), STRINGS) if kind in ("string", "bytes") else 1
        if node.text in ("_<_", "_<=_", "_>_", "_>=_"):
            texts = all(self._kinds.get(id(part)) in ("string", "bytes") for part in node.parts)
            return _times(min(sizes), STRINGS) if texts else 1
        if node.text in ELEMENTWISE and node.method:
            return self._elements(node.parts[0], sizes[0])
        if node.method and node.parts[0].text == "sets" and len(sizes) == 3:
            return _times(sizes[1], sizes[2] * (1 + (node.text == "equivalent")))
        if rule is None or not sizes:
            return 1
        cost, size = rule(sizes)
        if size is not None:
            self._sizes[id(node)] = min(UNBOUNDED, size)
        return cost

    def _elements(self, holder: Node, count: int) -> int:
        """Return what it costs to compare all that is in a list, or to go through a text."""
        kind = self._kinds.get(id(holder))
        if not isinstance(kind, tuple):
            return _times(count, STRINGS)
        item = _inside(self._known.get(id(holder)), "@items")
        texts = kind[-1] in ("string", "bytes")
        return _times(count, 1 + (_times(item.most if item is not None else UNBOUNDED, STRINGS) if texts else 0))

    def _loop(self, node: Node, names: Named) -> int:
        holder, *rest = node.parts
        cost = self.of(holder, names)
        known, count = self._known.get(id(holder)), self.size(holder)
        is_map = isinstance(kind := self._kinds.get(id(holder)), tuple) and kind[0] == "map"
        item = (None, 0) if is_map else (_inside(known, "@items"), UNBOUNDED)
        many = (
            2 if node.text.startswith("transform") or (len(rest) == 3 and node.text not in ("map", "filter")) else 1
        )
        loop = [(None, 0 if is_map else 1), (_inside(known, "@items"), UNBOUNDED)] if many == 2 else [item]
        inner = {**names, **{part.text: found for part, found in zip(rest[:many], loop, strict=True)}}
        body = sum(self.of(part, inner) for part in rest[many:])
        start, step = STEPS[node.text]
        if node.text in ("map", "filter", "transformList", "transformMap"):
            self._sizes[id(node)] = count
        return min(UNBOUNDED, cost + start + _times(count, body + step))


def _inside(known: Sized | None, name: str) -> Sized | None:
    if known is None:
        return None
    found: Sized | None = known.item if known.item is not None else known.fields.get(name)
    return found


def _text(sizes: list[int]) -> tuple[int, int | None]:
    return _times(sizes[0], STRINGS), sizes[0]


def _twice(sizes: list[int]) -> tuple[int, int | None]:
    return _times(sizes[0], 2 * STRINGS), sizes[0]


def _pattern(sizes: list[int]) -> tuple[int, int | None]:
    return _times(_times(sizes[0] + 1, STRINGS), _times(sizes[-1], REGEXES)), sizes[0]


def _replaced(sizes: list[int]) -> tuple[int, int | None]:
    whole, old, new = (*sizes, UNBOUNDED, UNBOUNDED)[:3]  # of what may be anything, nobody has counted the arguments
    longer = (whole + 1) * new + whole if old == 0 else whole if new <= old else -(-whole // old) * new
    return _times(whole, 2 * STRINGS), longer


def _joined(sizes: list[int]) -> tuple[int, int | None]:
    whole = min(UNBOUNDED, sizes[0] * UNBOUNDED + (max(sizes[0] - 1, 0) * sizes[1] if len(sizes) > 1 else 0))
    return _times(whole, STRINGS), whole


ELEMENTWISE = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
Rule = Callable[[list[int]], tuple[int, int | None]]
FUNCTIONS: dict[str, Rule] = {
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _text),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver", "cidr", "isIP", "isCIDR", "ip", "format"),
                    lambda sizes: (_times(sizes[0], STRINGS), None)),
    **dict.fromkeys(("startsWith", "endsWith"), lambda sizes: (_times(sizes[-1], STRINGS), None)),
    "split": _twice, "replace": _replaced, "join": _joined,
    "matches": lambda sizes: (_pattern(sizes)[0], None), **dict.fromkeys(("find", "findAll"), _pattern),
    "contains": lambda sizes: (_times(_times(sizes[0], STRINGS), _times(sizes[-1], STRINGS)), None),
    **dict.fromkeys(("_==_", "_!=_"), lambda sizes: (_times(min(sizes), STRINGS), None)),
    "@in": lambda sizes: (sizes[1], None), "check": lambda sizes: (CHECK, None),
    "validate": lambda sizes: (_times(_times(sizes[-1], STRINGS), FORMAT_PATTERN * REGEXES), None),
}  # fmt: skip
"""By function: its cost and the size of its value, by the sizes of what it is given."""
STEPS = {
    "all": (1, 3), "exists": (1, 4), "exists_one": (2, 2), "existsOne": (2, 2), "map": (NEW_LIST + 1, NEW_LIST + 2),
    "filter": (NEW_LIST + 1, NEW_LIST + 3), "transformList": (NEW_LIST + 1, NEW_LIST + 2),
    "transformMap": (NEW_MAP + 1, 3), "transformMapEntry": (NEW_MAP + 1, 3),
}  # fmt: skip
"""What a loop costs once, and in each of its rounds beside what it says."""


def estimated(checked: Checked, names: dict[str, Sized]) -> int:
    """Return what an expression costs at most."""
    if checked.tree is None:
        return 0
    return _Estimate(checked, names.get("self")).of(
        checked.tree, {name: (known, UNBOUNDED) for name, known in names.items()}
    )
