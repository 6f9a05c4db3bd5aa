"""Commands that statement and brief tell people to type: each runs, and shows what its comment says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.scene import Scene
from faults.errors import ClusterError, Unreachable
from faults.packs import Pack, commands_in

_PARTS = re.compile(r"(?P<command>.*?\S)(?: {2,}# (?P<comment>.+))?\s*", re.DOTALL)
_QUIET = re.compile(r"> ?[\w./-]+$|^sed -i |^sleep ")
READING_S, TYPING_S = 30.0, 2.0
"""Of the cluster's time, before the first command and before each: nobody has typed it sooner."""


@dataclass(frozen=True, slots=True)
class WrittenCommand:
    """One command, and a word that its output has to have: the comment at its end, up to a colon."""

    command: str
    comment: str

    def missing_in(self, output: str) -> str:
        """Return in words what the output lacks; empty where it has all."""
        if _QUIET.search(self.command):
            return ""
        if not output.strip():
            return f"{self.command!r} says nothing"
        word = self.comment.partition(":")[0].strip()
        if word and not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", output):
            return f"{self.command!r} should show {word!r}, and shows {output[-500:]!r}"
        return ""


def written_commands(pack: Pack) -> Iterator[WrittenCommand]:
    """Yield the commands of a bound pack's statement and brief, in the order in which they are read."""
    for text in (pack.statement, pack.brief):
        for command in commands_in(text):
            if (parts := _PARTS.fullmatch(command)) and not command.startswith("#"):
                yield WrittenCommand(parts["command"], parts["comment"] or "")


def follow(scene: Scene, commands: Sequence[WrittenCommand]) -> None:
    """Type commands, one after the other. Raises ProofFailed for one that fails, or does not show what it should."""
    scene.clock.wait(READING_S)
    for written in commands:
        scene.clock.wait(TYPING_S)
        try:
            output = scene.shell.run(written.command)
        except Unreachable:
            raise  # the machine was too busy to answer
        except ClusterError as exc:
            raise ProofFailed(exc.message) from exc
        if missing := written.missing_in(output):
            raise ProofFailed(missing)
