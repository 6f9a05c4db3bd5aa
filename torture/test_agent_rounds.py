"""The plans of the rounds around agent calls, and which request of a conversation with an agent is held."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from torture.agent_deeds import DEEDS
from torture.agent_rounds import plan
from torture.held_calls import INJECTING, REVERTING, HeldCall, Moment

COPY = "/api/v1/namespaces/copies/secrets/run-1"
INJECTED = [
    ("GET", "/k3/faults/run-1-0"),
    ("POST", "/k3/lease"),
    ("POST", "/k3/inject"),
    ("GET", "/k3/faults/run-1-0"),
    ("PATCH", COPY),
]
REVERTED = [
    ("GET", "/k3/faults/run-1-0"),
    ("POST", "/k3/recover"),
    ("POST", "/k3/lease"),
    ("GET", "/k3/faults/run-1-0"),
    ("PATCH", COPY),
]


def held_at(moment: Moment, conversation: Sequence[tuple[str, str]]) -> int:
    """Return the place of the request that a moment holds."""
    held = HeldCall(moment)
    return next(place for place, (method, path) in enumerate(conversation) if held.wants(method, path))


@pytest.mark.parametrize(("moment", "place"), [*zip(INJECTING, (1, 2, 2, 3, 3, 4, 4), strict=True)])
def test_a_moment_of_injecting_holds_its_request_alone(moment: Moment, place: int) -> None:
    assert held_at(moment, INJECTED) == place


@pytest.mark.parametrize(("moment", "place"), [*zip(REVERTING, (1, 1, 2, 3, 4, 4), strict=True)])
def test_a_moment_of_reverting_holds_its_request_alone(moment: Moment, place: int) -> None:
    assert held_at(moment, REVERTED) == place


def test_nothing_is_held_twice() -> None:
    held = HeldCall(INJECTING[1])
    assert held.wants("POST", "/k3/inject")
    held.let_go(is_lost=False)
    assert not held.wants("POST", "/k3/inject")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_forty_four_rounds_have_every_moment_every_deed_and_every_end(seed: int) -> None:
    plans = [plan(number, seed) for number in range(1, 45)]
    assert {each.injecting[0] for each in plans} == {*INJECTING}
    assert {each.reverting[0] for each in plans} == {*REVERTING}
    assert {each.injecting[1] for each in plans} == {each.reverting[1] for each in plans} == {*DEEDS}
    assert sum(each.is_dead_man for each in plans) >= 5
    assert sum(each.is_refused for each in plans) >= 7


def test_the_same_seed_plans_the_same() -> None:
    assert [plan(number, 7) for number in range(50)] == [plan(number, 7) for number in range(50)]
