"""Whom a node's containers tell of what may leave it short of something."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class Watch:
    """Hears what happens to a node's disk and memory; this one does nothing about it."""

    config: Mapping[str, Any] = MappingProxyType({})
    """What the configuration of the node's kubelet says beside the defaults."""

    def use(self, resource: str, amount: int) -> None:
        """Let so much of a resource be used by what is no pod, beside the node's own system."""

    def restart(self) -> str:
        """Start the kubelet anew; returns why it does not start, or nothing."""
        return ""

    def written(self) -> None:
        """Note that something was written to the disk."""

    def started(self, memory_mib: float) -> None:
        """Note that a program has started that will hold so much memory."""

    def touch(self) -> None:
        """Look at the node soon, and a while longer."""

    def grown(self) -> None:
        """Note that a process holds much more memory than before."""
