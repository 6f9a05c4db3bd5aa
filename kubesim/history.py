"""What a cluster was at any moment: its change log read up to there.

A cluster whose folder has a folder ``history`` keeps every batch of changes (see ``changelog.py``), a quarter of a
second each: files that were written anew stay as ``history/000000.log`` and so on. Each begins with a whole state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kubesim.changelog import ChangeLogError, State, batches
from kubesim.times import micro


@dataclass(frozen=True, slots=True)
class Span:
    """The first and the last moment that a history knows, and how many batches of changes lie between them."""

    first: datetime
    last: datetime
    batches: int


class History:
    """The past of the cluster that is kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        """Return its files, the oldest first."""
        newest = self._folder / "changes.log"
        return [*sorted((self._folder / "history").glob("*.log")), *([newest] if newest.exists() else [])]

    def moments(self) -> Iterator[tuple[datetime, State]]:
        """Yield every batch of changes with its time; a whole state that only repeats what was is left out."""
        for number, path in enumerate(self.files()):
            for place, (at, changes, _) in enumerate(batches(path)):
                if place or not number:
                    yield at, changes

    def span(self) -> Span:
        """Return how far it reaches; raises ChangeLogError where there is none."""
        times = [at for at, _ in self.moments()]
        if not times:
            raise ChangeLogError(f"{self._folder} holds no cluster; name the folder that --data named")
        return Span(times[0], times[-1], len(times))

    def at(self, moment: datetime | None = None) -> State:
        """Return the state at a moment (None: the last one), by key; raises ChangeLogError for one before the first.

        Only the newest file that begins before the moment is read: it begins with all that was before.
        """
        for path in reversed(self.files()):
            state: State = {}
            for at, changes, _ in batches(path):
                if moment is not None and at > moment:
                    break
                state.update(changes)
            if state:
                return {key: value for key, value in state.items() if value}
        first = self.span().first
        raise ChangeLogError(f"the history begins at {micro(first)}; name a later moment with --at")
