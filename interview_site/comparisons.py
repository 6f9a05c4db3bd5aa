"""A pytest plugin that marks comparisons in depth, which `make test` leaves to `make compare`.

A table of a hundred outputs of one tool, or twenty tests of one program's words, hold kubesim to the real thing; that
the mechanism works is proven by a few of them. ``tests/comparisons.yaml`` says which few these are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

MARKER = "comparison"
TABLE = Path(__file__).parent / "tests" / "comparisons.yaml"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests before anybody chooses among them by their markers."""
    mark(items, table())


@cache
def table() -> dict[str, Any]:
    """Return the rules: ``max_cases`` by the beginning of a name, and the tests of a file that are ``played``."""
    found: dict[str, Any] = yaml.safe_load(TABLE.read_text("utf-8"))
    return found


def mark(items: Iterable[pytest.Item], rules: dict[str, Any]) -> None:
    """Mark the tests that compare in depth, and the cases of a table beyond those that `make test` plays.

    Long proofs are left as they are: these have a tier of their own.
    """
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in (each for each in items if not each.get_closest_marker("torture")):
        tests[item.nodeid.partition("[")[0]].append(item)
    for name, cases in tests.items():
        for item in _in_depth(name, cases, rules):
            item.add_marker(MARKER)


def _in_depth(name: str, cases: list[pytest.Item], rules: dict[str, Any]) -> list[pytest.Item]:
    file, _, test = name.partition("::")
    if file in rules["played"] and test not in rules["played"][file]:
        return cases
    kept = {id(item) for item in spread(cases, _max_cases(name, rules["max_cases"]))}
    return [item for item in cases if id(item) not in kept]


def _max_cases(name: str, limits: dict[str, int]) -> int | None:
    """Return the limit of the longest beginning of a name that has one."""
    found = max((each for each in limits if name.startswith(each)), key=len, default=None)
    return None if found is None else limits[found]


def spread(cases: Sequence[pytest.Item], count: int | None) -> Sequence[pytest.Item]:
    """Return so many cases from all over a table: neighbours are alike. The first is always one of them."""
    if count is None or len(cases) <= count:
        return cases
    return [cases[number * len(cases) // count] for number in range(count)]
