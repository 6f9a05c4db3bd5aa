"""Signal numbers and what a shell says of a process that one has ended."""

from __future__ import annotations

from kubesim.shell.errors import POSIX

NAMES: dict[int, str] = dict(enumerate(POSIX["signals"].split(), 1))
NUMBERS = {name: number for number, name in NAMES.items()}
LISTING = "".join(f"{value:2}) SIG{name}\n" for value, name in NAMES.items())
"""Table that ``kill -l`` shows."""
HARMLESS = frozenset({"CHLD", "CONT", "URG", "WINCH"})
STOPPING = frozenset({"STOP", "TSTP", "TTIN", "TTOU"})
DEATHS: dict[str, str] = POSIX["deaths"]
"""Words of a shell for a process that a signal has ended; nothing of the others."""


def number(word: str) -> int | None:
    """Return the number of a signal given as ``9``, ``KILL`` or ``SIGKILL``; None for no signal (0 is allowed)."""
    if word.isdecimal():
        return int(word) if int(word) == 0 or int(word) in NAMES else None
    return NUMBERS.get(word.upper().removeprefix("SIG"))
