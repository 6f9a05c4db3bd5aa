"""A wrong turn's outcome is seen however shortly each part of it shows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from faults.catalog_check import turns
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.scene import Scene
from faults.checks import Outcome
from faults.packs.model import Solution, WrongTurn

FORCED = WrongTurn(
    route=Solution("forced", "Delete every pod by force", ()),
    why="",
    refused="",
    fails={"trains": "with 4 GPUs"},
    passes=(),
    breaks={"served": "0 of 2"},
)


class Played(Scene):
    """A scene of which each look is given: what the check and the guard say then."""

    def __init__(self, *looks: tuple[str, str]) -> None:
        object.__setattr__(self, "looks", [*looks])

    def look(self, *, briefly: bool = False) -> dict[str, Outcome]:
        check, guard = self.looks[0]
        verdict = "fail" if guard.startswith("0") else "pass"
        return {"trains": Outcome("fail", check), "served": Outcome(verdict, guard)}

    def look_at(self, keys: Collection[str]) -> Iterator[tuple[str, Outcome]]:
        return iter([(key, outcome) for key, outcome in self.look().items() if key in keys])

    def act(self, route: Solution) -> None:
        pass

    def until(self, lacking, look_s=0.1, patience_s=180.0, first_s=0.0) -> float:
        while lack := lacking():
            if len(self.looks) == 1:
                raise ProofFailed(f"waited: {lack}")
            del self.looks[0]
        return 0.0

    def broken_guards(self, seen: dict[str, Outcome]) -> str:
        return "served" if seen["served"].verdict == "fail" else ""

    def open_checks(self, seen: dict[str, Outcome]) -> str:
        return "" if seen["trains"].verdict == "pass" else "trains"


def test_a_guard_that_broke_before_the_check_spoke_and_is_well_again_has_broken():
    scene = Played(("no pod", "2 of 2"), ("no pod", "0 of 2"), ("Waiting with 4 GPUs", "1 of 2"))
    turns.play(scene, FORCED, watched_s=0)
    assert scene.looks == [("Waiting with 4 GPUs", "1 of 2")]


def test_a_guard_that_never_breaks_is_told():
    scene = Played(("no pod", "2 of 2"), ("Waiting with 4 GPUs", "1 of 2"))
    with pytest.raises(ProofFailed, match="served should fail with '0 of 2', and is pass: '1 of 2'"):
        turns.play(scene, FORCED, watched_s=0)


def test_a_check_that_never_says_it_is_told_though_the_guard_has_broken():
    scene = Played(("no pod", "0 of 2"), ("no pod", "1 of 2"))
    with pytest.raises(ProofFailed, match="trains should fail with 'with 4 GPUs', and is fail: 'no pod'"):
        turns.play(scene, FORCED, watched_s=0)
