"""CEL's macros: what loops over lists and maps, asks whether something is there, and names a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubesim.cel.run import MISSING, NEW_LIST, Run, Step, compiled
from kubesim.cel.syntax import Node
from kubesim.cel.values import NO_OVERLOAD, CelError, CostError, Optional

ROUND, KEPT = 3, 12
"""What a round of a loop costs beside its own expression, and what it costs to keep what came of it."""


def _rounds(run: Run, over: Any, name: str) -> Iterator[Any]:
    """Yield each item of a list or key of a map while the name stands for it. Raises CelError."""
    if not isinstance(over, list | Mapping):
        raise CelError(NO_OVERLOAD)
    before = run.names.get(name, MISSING)
    try:
        for item in over:
            run.names[name] = item
            yield item
    finally:
        if before is MISSING:
            run.names.pop(name, None)
        else:
            run.names[name] = before


def _loop(node: Node, bodies: int = 1) -> tuple[Step, str, list[Step]] | None:
    """Return what a loop goes over, the name of its variable and its expressions; None for what is no loop."""
    if not node.method or len(node.parts) != 2 + bodies or node.parts[1].kind != "name":
        return None
    holder, variable, *inner = node.parts
    return compiled(holder), variable.text, [compiled(part) for part in inner]


def _looping(make: Callable[[Step, str, Step], Step]) -> Callable[[Node], Step | None]:
    """Return a macro of one expression, which is none where there is no loop."""

    def macro(node: Node) -> Step | None:
        found = _loop(node)
        return None if found is None else make(found[0], found[1], found[2][0])

    return macro


def _deciding(enough: bool) -> Callable[[Node], Step | None]:
    """Return ``all`` (which false decides) or ``exists`` (which true does)."""

    @_looping
    def macro(holder: Step, name: str, body: Step) -> Step:
        def step(run: Run) -> Any:
            wrong: CelError | None = None
            for _ in _rounds(run, holder(run), name):
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


@_looping
def _exists_one(holder: Step, name: str, body: Step) -> Step:
    def step(run: Run) -> Any:
        count = 0
        for _ in _rounds(run, holder(run), name):
            run.meter.add(1)
            count += _true(body(run))
        run.meter.add(2)
        return count == 1

    return step


def _true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(NO_OVERLOAD)
    return value


@_looping
def _filter(holder: Step, name: str, body: Step) -> Step:
    def step(run: Run) -> Any:
        run.meter.add(NEW_LIST + 1)
        kept = []
        for item in _rounds(run, holder(run), name):
            chosen = _true(body(run))
            run.meter.add(KEPT + 1 if chosen else 1)
            kept += [item] if chosen else []
        return kept

    return step


def _map(node: Node) -> Step | None:
    """Return what makes a list of the values of each round, and may leave some out."""
    filtered = len(node.parts) == 4
    found = _loop(node, 1 + filtered)
    if found is None:
        return None
    holder, name, bodies = found

    def step(run: Run) -> Any:
        run.meter.add(NEW_LIST + 1)
        made = []
        for _ in _rounds(run, holder(run), name):
            if not filtered or _true(bodies[0](run)):
                run.meter.add(KEPT)
                made.append(bodies[-1](run))
        return made

    return step


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
    "all": _deciding(enough=False), "exists": _deciding(enough=True), "exists_one": _exists_one, "filter": _filter,
    "map": _map, "has": _has, "or": _otherwise, "orValue": _otherwise,
}  # fmt: skip
