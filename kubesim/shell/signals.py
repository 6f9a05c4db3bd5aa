"""Signal numbers and what a shell says of a process that one has ended."""

from __future__ import annotations

NUMBERS = {
    name: number
    for number, name in enumerate(
        [
            "HUP",
            "INT",
            "QUIT",
            "ILL",
            "TRAP",
            "ABRT",
            "BUS",
            "FPE",
            "KILL",
            "USR1",
            "SEGV",
            "USR2",
            "PIPE",
            "ALRM",
            "TERM",
            "STKFLT",
            "CHLD",
            "CONT",
            "STOP",
            "TSTP",
            "TTIN",
            "TTOU",
            "URG",
            "XCPU",
            "XFSZ",
            "VTALRM",
            "PROF",
            "WINCH",
            "IO",
            "PWR",
            "SYS",
        ],
        1,
    )
}
NAMES = {number: name for name, number in NUMBERS.items()}
HARMLESS = frozenset({"CHLD", "CONT", "URG", "WINCH"})
STOPPING = frozenset({"STOP", "TSTP", "TTIN", "TTOU"})
DEATHS = {
    "HUP": "Hangup",
    "INT": "",
    "QUIT": "Quit",
    "ILL": "Illegal instruction",
    "ABRT": "Aborted",
    "BUS": "Bus error",
    "FPE": "Floating point exception",
    "KILL": "Killed",
    "USR1": "User defined signal 1",
    "SEGV": "Segmentation fault",
    "USR2": "User defined signal 2",
    "PIPE": "",
    "ALRM": "Alarm clock",
    "TERM": "Terminated",
}


def number(word: str) -> int | None:
    """Return the number of a signal given as ``9``, ``KILL`` or ``SIGKILL``; None for no signal (0 is allowed)."""
    if word.isdecimal():
        return int(word) if int(word) == 0 or int(word) in NAMES else None
    return NUMBERS.get(word.upper().removeprefix("SIG"))
