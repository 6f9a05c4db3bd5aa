"""CEL as Kubernetes has it: an expression is read and compiled once, and run with every set of variables.

Macros are what loops over lists and maps, asks whether something is there, and names a value.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from kubesim.cel.run import LIMIT, MISSING, NEW_LIST, SPECIAL, Meter, Run, Step
from kubesim.cel.run import compiled as steps_of
from kubesim.cel.syntax import Node, SyntaxFault, parse
from kubesim.cel.values import NO_OVERLOAD, CelError, CostError

__all__ = ["CelError", "Program", "compiled"]
CACHE = 2048
BESIDES = re.compile(r"(?<=expecting )\{<EOF>, [^}\n]*\}(?=\n|$)")
"""The names beside the end of the text that the package expects there."""
NOWHERE = "<input>:1:0:"
"""The place of errors in an empty text."""
ROUND, KEPT = 3, 12
"""The cost of a round of a loop beside its own expression, and of keeping its value."""


class Program:
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        """Compile ``text``; raises CelError with the parser's complaint."""
        try:
            self.tree = parse(text)
        except SyntaxFault as error:
            raise CelError(_complaint(text) or f"ERROR: <input>:1:1: Syntax error: {error}") from error
        if complaint := _complaint(text):
            raise CelError(complaint)
        self._step = steps_of(self.tree)

    def run(
        self,
        variables: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]] | None = None,
        meter: Meter | None = None,
    ) -> Any:
        """Return the expression's value; raises CelError where it has none, or costs too much.

        ``functions``: more than are known. ``meter`` counts what it costs.
        """
        try:
            return self._step(Run(dict(variables), functions or {}, meter or Meter(LIMIT)))
        except RecursionError as error:
            raise CelError("recursion limit exceeded") from error


def _complaint(text: str) -> str:
    """Return what the package's parser, which speaks as upstream's does, says of an expression that is none."""
    try:
        _package().compile(text)
    except ValueError as error:
        return _said(str(error), text)
    return ""


def _said(complaint: str, text: str) -> str:
    """Return what the parser says as upstream prints it."""
    _, _, after = complaint.partition(f"'{text}': ")
    said = BESIDES.sub("<EOF>", (after or complaint.partition(": ")[2]).replace("\n|", "\n |"))
    return said if text else said.replace("<input>:1:1:", NOWHERE)


@cache
def _package() -> Any:
    """Import the package with the first expression: it brings a command line that doubles the time of a start."""
    logging.getLogger("cel").setLevel(logging.CRITICAL)
    return import_module("cel")


@lru_cache(CACHE)
def compiled(text: str) -> Program:
    """Return an expression's program. Raises CelError."""
    return Program(text)


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
    return steps_of(holder), variable.text, [steps_of(part) for part in inner]


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
    holder, name = steps_of(node.parts[0].parts[0]), node.parts[0].text

    def step(run: Run) -> Any:
        held = holder(run)
        if held is None:
            return False
        if not isinstance(held, Mapping):
            raise CelError(NO_OVERLOAD)
        return name in held

    return step


MACROS: dict[str, Callable[[Node], Step | None]] = {
    "all": _deciding(enough=False), "exists": _deciding(enough=True), "exists_one": _exists_one, "filter": _filter,
    "map": _map, "has": _has,
}  # fmt: skip
SPECIAL.update(MACROS)
