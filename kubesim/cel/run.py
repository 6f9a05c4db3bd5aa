"""Runs CEL: an expression's tree becomes functions once, which are called with every set of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from kubesim.cel.syntax import Node, value_of
from kubesim.cel.values import (
    CONSTANTS,
    FUNCTIONS,
    KEYS,
    LARGEST,
    NAMESPACES,
    NO_OVERLOAD,
    SMALLEST,
    TOO_DEAR,
    CelError,
    CostError,
    check_size,
    compare,
    equal,
    is_number,
    size,
    type_of,
)

STRINGS, REGEXES = 0.1, 0.25
"""The cost of going through a text, and of a character of a pattern."""
NEW_LIST, NEW_MAP = 10, 30
CHECK = 350_000
"""The cost of a question to the authorizer."""
LIMIT = 1_000_000
"""The most that one expression may cost."""
PATTERNS = frozenset(("find", "matches"))
SEARCHED_WHOLE = frozenset((
    "_==_", "_!=_", "_+_", "@in", "contains", "equivalent", "intersects", "isSorted", "join", "max",
    "min", "sum",
))  # fmt: skip
"""Functions and operators that go through lists and maps."""


class Meter:
    """Counts what an expression costs; raises CostError when it costs more than it may."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.spent = 0
        self.limit = limit

    def add(self, cost: int) -> None:
        """Count some more."""
        self.spent += cost
        if self.spent > self.limit:
            raise CostError(TOO_DEAR)


def cost_of_call(name: str, given: list[Any]) -> int:
    """Return the cost of a call of a function or operator, by what it is given (what it is called on first)."""
    if name == "check":
        return CHECK
    if name in PATTERNS and len(given) > 1:
        return ceil((1 + size(given[0])) * STRINGS) * ceil(size(given[1]) * REGEXES)
    texts = sum(len(value) for value in given if isinstance(value, str))
    others = sum(size(value) for value in given if not isinstance(value, str)) if name in SEARCHED_WHOLE else 0
    return 1 + int(texts * STRINGS) + others


MISSING: Any = object()


@dataclass(slots=True)
class Run:
    """One evaluation: what names stand for, the functions that are known beside all others, and what it has cost."""

    names: dict[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    meter: Meter = field(default_factory=Meter)


Step = Callable[[Run], Any]


def compiled(node: Node) -> Step:
    """Return what evaluates a tree."""
    return _KINDS[node.kind](node)


def _literal(node: Node) -> Step:
    value = value_of(node)
    return lambda run: value


def _name(node: Node) -> Step:
    name = node.text

    def step(run: Run) -> Any:
        run.meter.add(1)
        found = run.names.get(name, MISSING)
        found = CONSTANTS.get(name, MISSING) if found is MISSING else found
        if found is MISSING:
            raise CelError(f"no such attribute(s): {name}")
        return found

    return step


def _select(node: Node) -> Step:
    if (whole := _dotted(node)) in CONSTANTS:
        return lambda run: CONSTANTS[whole]
    holder, name = compiled(node.parts[0]), node.text

    def step(run: Run) -> Any:
        held = holder(run)
        run.meter.add(1)
        return _member(held, name)

    return step


def _dotted(node: Node) -> str:
    """Return a chain of names as it was written; nothing for another expression."""
    if node.kind == "name":
        return node.text
    before = _dotted(node.parts[0]) if node.kind == "select" else ""
    return f"{before}.{node.text}" if before else ""


def _member(held: Any, key: Any) -> Any:
    """Return what is in a map or list. Raises CelError."""
    if isinstance(held, list) and is_number(key):
        if not 0 <= key < len(held):
            raise CelError(f"index out of bounds: {_shown(key)}")
        return held[int(key)]
    if not isinstance(held, Mapping) or not isinstance(key, KEYS):
        raise CelError(NO_OVERLOAD if isinstance(held, list | Mapping) else f"no such key: {_shown(key)}")
    if key not in held:
        raise CelError(f"no such key: {_shown(key)}")
    return held[key]


def _shown(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _index(node: Node) -> Step:
    holder, inner = map(compiled, node.parts)

    def step(run: Run) -> Any:
        held, key = holder(run), inner(run)
        run.meter.add(1)
        return _member(held, key)

    return step


def _list(node: Node) -> Step:
    items = [compiled(part) for part in node.parts]

    def step(run: Run) -> Any:
        found = [item(run) for item in items]
        run.meter.add(NEW_LIST)
        return found

    return step


def _map(node: Node) -> Step:
    entries = [(compiled(entry.parts[0]), compiled(entry.parts[1])) for entry in node.parts]

    def step(run: Run) -> Any:
        found: dict[Any, Any] = {}
        for key_step, value_step in entries:
            key, value = key_step(run), value_step(run)
            if not isinstance(key, KEYS):
                raise CelError(f"unsupported key type: {type_of(key)}")
            if key in found:
                raise CelError(f"Failed with repeated key: {_shown(key)}")
            found[key] = value
        run.meter.add(NEW_MAP)
        return found

    return step


def _choice(node: Node) -> Step:
    condition, one, other = map(compiled, node.parts)

    def step(run: Run) -> Any:
        found = condition(run)
        if not isinstance(found, bool):
            raise CelError(NO_OVERLOAD)
        return one(run) if found else other(run)

    return step


def _either(node: Node) -> Step:
    """Return ``&&`` or ``||``: what one side decides alone is so, whatever is wrong with the other."""
    sides, enough = [compiled(part) for part in node.parts], node.text == "_||_"

    def step(run: Run) -> Any:
        wrong: CelError | None = None
        for side in sides:
            try:
                found = side(run)
                if found is enough:
                    return enough
                if not isinstance(found, bool):
                    raise CelError(NO_OVERLOAD)
            except CostError:
                raise
            except CelError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        return not enough

    return step


def _checked(number: int) -> int:
    """Return what came of whole numbers, if it is one. Raises CelError."""
    if not SMALLEST <= number <= LARGEST:
        raise CelError("integer overflow")
    return number


def _quotient(name: str, one: int, other: int) -> int:
    if other == 0:
        raise CelError("division by zero" if name == "_/_" else "modulus by zero")
    whole = abs(one) // abs(other)
    return whole if (one < 0) is (other < 0) else -whole


WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "_+_": lambda one, other: one + other, "_-_": lambda one, other: one - other,
    "_*_": lambda one, other: one * other, "_/_": lambda one, other: _quotient("_/_", one, other),
    "_%_": lambda one, other: one - other * _quotient("_%_", one, other),
}  # fmt: skip


def arithmetic(name: str, one: Any, other: Any) -> Any:
    """Return what an operator makes of two values of one type. Raises CelError."""
    kinds = type_of(one), type_of(other)
    match kinds:
        case ("int", "int"):
            return _checked(WHOLE[name](one, other))
        case ("double", "double") if name in "_+_-_*_":
            return WHOLE[name](one, other)
        case ("double", "double") if name == "_/_":
            return one / other if other else float("nan") if not one or one != one else float("inf") * (one > 0 or -1)
        case ("string", "string") | ("list", "list") if name == "_+_":
            check_size(len(one) + len(other))
            return one + other
    raise CelError(NO_OVERLOAD)


def _within(one: Any, many: Any) -> bool:
    if not isinstance(many, list | Mapping):
        raise CelError(NO_OVERLOAD)
    return any(equal(one, item) for item in many)


def _negative(value: Any) -> Any:
    if not is_number(value):
        raise CelError(NO_OVERLOAD)
    return -value if isinstance(value, float) else _checked(-value)


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(NO_OVERLOAD)
    return not value


OPERATORS: dict[str, Callable[..., Any]] = {
    "!_": _not, "-_": _negative, "@in": _within, "_==_": equal, "_!=_": lambda one, other: not equal(one, other),
    "_<_": lambda one, other: compare(one, other) < 0, "_<=_": lambda one, other: compare(one, other) <= 0,
    "_>_": lambda one, other: compare(one, other) > 0, "_>=_": lambda one, other: compare(one, other) >= 0,
    **{name: lambda one, other, name=name: arithmetic(name, one, other)
       for name in ("_+_", "_-_", "_*_", "_/_", "_%_")},
}  # fmt: skip


def _call(node: Node) -> Step:
    if node.text in SPECIAL and (made := SPECIAL[node.text](node)) is not None:
        return made
    name, known = node.text, OPERATORS.get(node.text)
    first = node.parts[0] if node.method else None
    space = first.text if first is not None and first.kind == "name" and first.text in NAMESPACES else ""
    parts = [compiled(part) for part in node.parts]

    def step(run: Run) -> Any:
        spaced = space and space not in run.names
        given = [space if spaced and at == 0 else part(run) for at, part in enumerate(parts)]
        function = known or run.functions.get(name) or FUNCTIONS.get(f"{space}.{name}" if spaced else name)
        result = call(name, function, given[1:] if spaced else given)
        run.meter.add(cost_of_call(name, given[1:] if spaced else given))
        return result

    return step


def call(name: str, function: Callable[..., Any] | None, given: list[Any]) -> Any:
    """Return a function's value. Raises CelError."""
    if function is None:
        raise CelError(f"no such overload: {name}")
    try:
        return function(*given)
    except CelError:
        raise
    except (TypeError, AttributeError, KeyError) as error:
        raise CelError(NO_OVERLOAD) from error
    except (ValueError, ArithmeticError, IndexError) as error:
        raise CelError(str(error)) from error


_KINDS: dict[str, Callable[[Node], Step]] = {
    "literal": _literal, "name": _name, "select": _select, "index": _index, "list": _list, "map": _map,
    "choice": _choice, "call": _call,
}  # fmt: skip
SPECIAL: dict[str, Callable[[Node], Step | None]] = {
    "_&&_": _either, "_||_": _either,
}  # fmt: skip
"""Calls that do not evaluate all that they are given, one after the other."""
