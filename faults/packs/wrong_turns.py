"""Checks of a pack's wrong turns: the checks and guards that they name."""

from __future__ import annotations

from collections.abc import Iterable

from faults.packs.errors import PackError
from faults.packs.model import Obj

DOCUMENT = "scenario.yaml"


def check(document: Obj) -> None:
    """Raise ``PackError`` for a wrong turn that names what the pack does not have."""
    checks = [row["key"] for row in document["checks"]]
    guards = [row["key"] for row in document["guards"]]
    for number, row in enumerate(document.get("wrong_turns", [])):
        where = f"wrong_turns.{number}"
        _check_keys(f"{where}.fails", row.get("fails", {}), checks, "check")
        _check_keys(f"{where}.passes", row.get("passes", []), checks, "check")
        _check_keys(f"{where}.breaks", row.get("breaks", {}), guards, "guard")
        _check_outcome(where, row, checks)


def _check_keys(where: str, keys: Iterable[str], known: list[str], what: str) -> None:
    for key in keys:
        if key not in known:
            raise PackError(DOCUMENT, where, f"{key} is no {what} of the pack; valid are: {', '.join(known)}")


def _check_outcome(where: str, row: Obj, checks: list[str]) -> None:
    passes = set(row.get("passes", []))
    if both := sorted(passes & row.get("fails", {}).keys()):
        raise PackError(DOCUMENT, f"{where}.passes", f"{both[0]} is in fails as well")
    if passes == set(checks) and "breaks" not in row:
        raise PackError(DOCUMENT, f"{where}.passes", "names every check, and no guard breaks: that is a solution")
