"""Expressions of admission policies and match conditions, run within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kubesim.cel.program import CelError, compiled
from kubesim.cel.run import Meter
from kubesim.errors import Obj

BUDGET, BUDGET_OF_CONDITIONS = 10_000_000, 2_500_000
"""What all expressions of a policy, and all conditions of one, may cost together."""
SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudget(CelError):
    """Expressions have cost more than all of them may."""


class Asked:
    """Runs expressions about one request until they have cost too much together."""

    def __init__(self, scope: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]], budget: int) -> None:
        self.scope = scope
        self._functions = functions
        self._left = budget

    def run(self, text: str) -> Any:
        """Return an expression's value. Raises CelError, and OutOfBudget when nothing more is to be asked."""
        meter = Meter()
        try:
            return compiled(text).run(self.scope, self._functions, meter)
        finally:
            self._left -= meter.spent
            if self._left < 0:
                raise OutOfBudget(SPENT)


class Variables(Mapping[str, Any]):
    """A policy's own variables, each of which is evaluated when it is first asked for."""

    def __init__(self, entries: Iterable[Obj], run: Callable[[str], Any]) -> None:
        self._texts = {entry["name"]: entry["expression"] for entry in entries}
        self._run = run
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            try:
                self._known[name] = self._run(self._texts[name])
            except CelError as error:
                self._known[name] = CelError(f'composited variable "{name}" fails to evaluate: {error}')
        if isinstance(found := self._known[name], CelError):
            raise found
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def unmet(
    conditions: Iterable[Obj], scope: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
) -> tuple[bool, list[str]]:
    """Tell whether a condition leaves a request out, and what went wrong with others."""
    wrong, asked = [], Asked(scope, functions, BUDGET_OF_CONDITIONS)
    for condition in conditions:
        try:
            if asked.run(condition["expression"]) is not True:
                return True, []
        except OutOfBudget as error:
            return False, [str(error)]
        except CelError as error:
            wrong.append(f"expression '{condition['expression']}' resulted in error: {error}")
    return False, wrong
