"""The command line of a process, as the supervisor needs it. Knows nothing of Django."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A process: its name in the log and its command line. ``forked``: it may be forked from the warmed parent."""

    name: str
    argv: list[str]
    forked: bool = False

    @property
    def shell(self) -> str:
        """Return the command for honcho, which starts a shell; ``exec`` makes the shell become the process."""
        return "exec " + shlex.join(self.argv)
