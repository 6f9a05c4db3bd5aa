"""Wrong turns, played: they show what the pack says, and never count as a repair."""

from __future__ import annotations

from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.scene import Scene, Seen
from faults.checks import Outcome
from faults.errors import ClusterError, Unreachable
from faults.packs import WrongTurn

LOOK_S = 0.5


def play(scene: Scene, turn: WrongTurn, *, watched_s: float) -> None:
    """Do what the turn says on a fresh fault, and see its outcome, which stays for ``watched_s`` seconds.

    A guard that has broken has, though all may be well again before a check says what it should. Raises ProofFailed
    where it is repaired by that, or where something else shows than the pack says.
    """
    seen, broken = Seen(), Seen()

    def lacking() -> str:
        if lack := _await_breaks(scene, turn, broken) or _first_lack(scene, turn, {*turn.passes, *turn.fails}):
            return lack  # as long as people wait for it, nothing else is read
        seen.update(scene.look())
        return missing(turn, seen | broken)

    try:
        _check_refusal(turn, _refusal(scene, turn))
        scene.until(lacking, LOOK_S)
        _check_unrepaired(scene, seen)
        if watched_s:
            scene.clock.wait(watched_s)
            _check_unrepaired(scene, scene.look())
    except ProofFailed as exc:
        raise ProofFailed(f"{turn.route.title}: {exc}") from exc


def _await_breaks(scene: Scene, turn: WrongTurn, broken: Seen) -> str:
    """Note which guards of a turn have broken by now; return in words what another one says."""
    waited = {*turn.breaks} - broken.keys()
    found = dict(scene.look_at(waited))
    broken.update({key: found[key] for key in waited if not _lack(turn, key, found[key])})
    return next((_lack(turn, key, found[key]) for key in waited - broken.keys()), "")


def _first_lack(scene: Scene, turn: WrongTurn, keys: set[str]) -> str:
    return next(filter(None, (_lack(turn, *each) for each in scene.look_at(keys))), "")


def missing(turn: WrongTurn, seen: Seen) -> str:
    """Return in words what a turn should show and does not; empty where all of it shows."""
    return next(filter(None, (_lack(turn, key, seen[key]) for key in (*turn.passes, *turn.fails, *turn.breaks))), "")


def _lack(turn: WrongTurn, key: str, outcome: Outcome) -> str:
    """Return in words how a check or guard differs from what a turn says of it, if anything."""
    words = {**turn.fails, **turn.breaks}.get(key)
    if key in turn.passes and outcome.verdict != "pass":
        return f"{key} should pass, and says {outcome.finding!r}"
    if words is not None and (outcome.verdict != "fail" or words not in outcome.finding):
        return f"{key} should fail with {words!r}, and is {outcome.verdict}: {outcome.finding!r}"
    return ""


def _refusal(scene: Scene, turn: WrongTurn) -> str:
    try:
        scene.act(turn.route)
    except Unreachable:
        raise  # nobody refused anything: the machine was too busy to answer
    except ClusterError as exc:
        return exc.message
    return ""


def _check_refusal(turn: WrongTurn, refusal: str) -> None:
    if turn.refused not in refusal or bool(turn.refused) != bool(refusal):
        expected = f"refuse it with {turn.refused!r}" if turn.refused else "accept it"
        raise ProofFailed(f"the cluster should {expected}, and says {refusal or 'nothing'!r}")


def _check_unrepaired(scene: Scene, seen: Seen) -> None:
    if not (scene.open_checks(seen) or scene.broken_guards(seen)):
        raise ProofFailed("all checks pass and no guard breaks, so it counts as repaired")
