"""Results of the checks of an injected fault."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Outcome of a check. NOTE: nothing to judge."""

    EXPECTED = "expected"
    UNEXPECTED = "unexpected"
    NOTE = "note"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class FaultCheck:
    """One check with what it found; ``diagnosis`` says what that means, and what to do."""

    title: str
    command: str
    outcome: Outcome
    diagnosis: str
    lines: tuple[str, ...] = ()
