"""Whom a node's containers tell of what may leave it short of something."""

from __future__ import annotations


class Watch:
    """Hears what happens to a node's disk and memory; this one does nothing about it."""

    def written(self) -> None:
        """Note that something was written to the disk."""

    def started(self, memory_mib: float) -> None:
        """Note that a program has started that will hold so much memory."""

    def grown(self) -> None:
        """Note that a process holds much more memory than before."""
