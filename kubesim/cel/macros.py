"""CEL's macros: what loops over lists and maps, asks whether something is there, and names a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubesim.cel.costs import NEW_LIST, NEW_MAP
from kubesim.cel.run import MISSING, Run, Step, compiled
from kubesim.cel.syntax import Node
from kubesim.cel.values import NO_OVERLOAD, NONE, CelError, CostError, Optional

ROUND, KEPT = 3, 12
"""What a round of a loop costs beside its own expression, and what it costs to keep what came of it."""


def _pairs(over: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a loop with two variables goes over. Raises CelError."""
    if isinstance(over, list):
        return enumerate(over)
    if isinstance(over, Mapping):
        return iter(over.items())
    raise CelError(NO_OVERLOAD)


def _rounds(run: Run, over: Any, names: list[str]) -> Iterator[Any]:
    """Yield each key or item of a list or map while its names stand for it."""
    before = {name: run.names.get(name, MISSING) for name in names}
    try:
        for key, value in _pairs(over):
            given = (key, value) if len(names) > 1 else (value if isinstance(over, list) else key,)
            run.names.update(zip(names, given, strict=True))
            yield given
    finally:
        run.names.update({name: value for name, value in before.items() if value is not MISSING})
        for name, value in before.items():
            if value is MISSING:
                run.names.pop(name, None)


def _loop(node: Node, bodies: int) -> tuple[Step, list[str], list[Step]] | None:
    """Return what a loop goes over, the names of its variables and its expressions; None for what is no loop."""
    holder, *rest = node.parts
    names, inner = rest[:-bodies], rest[-bodies:]
    if not node.method or not 1 <= len(names) <= 2 or any(part.kind != "name" for part in names):
        return None
    return compiled(holder), [part.text for part in names], [compiled(part) for part in inner]


def _deciding(enough: bool) -> Callable[[Node], Step | None]:
    """Return ``all`` (which false decides) or ``exists`` (which true does)."""

    def macro(node: Node) -> Step | None:
        found = _loop(node, 1)
        if found is None:
            return None
        holder, names, (body,) = found

        def step(run: Run) -> Any:
            wrong: CelError | None = None
            for _ in _rounds(run, holder(run), names):
                run.meter.add(ROUND + enough)
                try:
                    value = body(run)
                    if value is enough:
                        return enough
                    if not isinstance(value, bool):
                        raise CelError(NO_OVERLOAD)
                except CostError:
                    raise
                except CelError as error:
                    wrong = wrong or error
            run.meter.add(1)
            if wrong is not None:
                raise wrong
            return not enough

        return step

    return macro


def _exists_one(node: Node) -> Step | None:
    found = _loop(node, 1)
    if found is None:
        return None
    holder, names, (body,) = found

    def step(run: Run) -> Any:
        count = 0
        for _ in _rounds(run, holder(run), names):
            run.meter.add(1)
            count += _true(body(run))
        run.meter.add(2)
        return count == 1

    return step


def _true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(NO_OVERLOAD)
    return value


def _filter(node: Node) -> Step | None:
    found = _loop(node, 1)
    if found is None or len(found[1]) > 1:
        return None
    holder, names, (body,) = found

    def step(run: Run) -> Any:
        run.meter.add(NEW_LIST + 1)
        kept = []
        for (item,) in _rounds(run, holder(run), names):
            chosen = _true(body(run))
            run.meter.add(KEPT + 1 if chosen else 1)
            kept += [item] if chosen else []
        return kept

    return step


def _gathering(
    variables: int, new: type[list[Any] | dict[Any, Any]], kept: int, keep: Callable[[Any, Any, Any], None]
) -> Callable[[Node], Step | None]:
    """Return what makes a list or map of the values of each round, and may leave some out.

    ``kept`` is what it costs to keep one, ``keep`` puts a round's key and value into what is made.
    """
    begin = (NEW_LIST if new is list else NEW_MAP) + 1

    def macro(node: Node) -> Step | None:
        filtered = len(node.parts) == variables + 3
        found = _loop(node, 1 + filtered)
        if found is None or len(found[1]) != variables:
            return None
        holder, names, bodies = found

        def step(run: Run) -> Any:
            run.meter.add(begin)
            made = new()
            for given in _rounds(run, holder(run), names):
                if not filtered or _true(bodies[0](run)):
                    run.meter.add(kept)
                    keep(made, given[0], bodies[-1](run))
            return made

        return step

    return macro


def _append(made: list[Any], key: Any, value: Any) -> None:
    made.append(value)


def _insert(made: dict[Any, Any], key: Any, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise CelError(NO_OVERLOAD)
    for name, inner in value.items():
        if name in made:
            raise CelError(f"insert failed: key {name} already exists")
        made[name] = inner


def _has(node: Node) -> Step | None:
    if node.method or len(node.parts) != 1 or node.parts[0].kind != "select":
        return None
    holder, name = compiled(node.parts[0].parts[0]), node.parts[0].text

    def step(run: Run) -> Any:
        held = holder(run)
        if isinstance(held, Optional):
            held = held.held if held.has else None
        if held is None:
            return False
        if not isinstance(held, Mapping):
            raise CelError(NO_OVERLOAD)
        return name in held

    return step


def _optional_map(flat: bool) -> Callable[[Node], Step | None]:
    def macro(node: Node) -> Step | None:
        found = _loop(node, 1)
        if found is None or len(found[1]) > 1:
            return None
        holder, names, (body,) = found

        def step(run: Run) -> Any:
            held = holder(run)
            if not isinstance(held, Optional):
                raise CelError(NO_OVERLOAD)
            for _ in _rounds(run, [held.held] if held.has else [], names):
                value = body(run)
                return value if flat else Optional(True, value)
            return NONE

        return step

    return macro


def _otherwise(node: Node) -> Step | None:
    """Return ``or`` or ``orValue``: the second is asked only where the first has nothing."""
    if not node.method or len(node.parts) != 2:
        return None
    (one, other), whole = map(compiled, node.parts), node.text == "or"

    def step(run: Run) -> Any:
        found = one(run)
        run.meter.add(1)
        if not isinstance(found, Optional):
            raise CelError(NO_OVERLOAD)
        return (found if whole else found.held) if found.has else other(run)

    return step


MACROS: dict[str, Callable[[Node], Step | None]] = {
    "all": _deciding(enough=False), "exists": _deciding(enough=True), "exists_one": _exists_one,
    "existsOne": _exists_one, "filter": _filter, "map": _gathering(1, list, KEPT, _append),
    "transformList": _gathering(2, list, KEPT, _append), "transformMap": _gathering(2, dict, 2, dict.__setitem__),
    "transformMapEntry": _gathering(2, dict, 2, _insert), "has": _has,
    "optMap": _optional_map(flat=False), "optFlatMap": _optional_map(flat=True), "or": _otherwise,
    "orValue": _otherwise,
}  # fmt: skip
