"""Two journals as one: the first decides and is read, the second is a copy that is complete before any write."""

from __future__ import annotations

from collections.abc import Sequence

from faults.engine.model import Record
from faults.engine.ports import Journal


class PairedJournal:
    """``Journal`` over a fenced first journal and its copy elsewhere."""

    def __init__(self, first: Journal, copy: Journal) -> None:
        self._first = first
        self._copy = copy

    def records(self) -> Sequence[Record]:
        """Return what the first journal knows."""
        return self._first.records()

    def save(self, *records: Record) -> None:
        """Commit to the first, whose fence keeps an overtaken worker from spoiling the copy; then to the copy."""
        self._first.save(*records)
        self._copy.save(*records)

    def guard(self) -> None:
        """Prove to the first journal that this worker may write."""
        self._first.guard()

    def close(self) -> Sequence[Record]:
        """Remove the copy, then close the first."""
        return [*self._copy.close(), *self._first.close()]
