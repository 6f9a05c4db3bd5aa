"""How processes come to hold memory, and what becomes of those that hold too much."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesim.shell.machine import Machine

LARGE = 64 << 20
"""Bytes; who holds less matters to no node."""
FILLED = 4 << 30
"""Bytes that a program fills in a second."""


class Holder:
    """What of a process has to do with memory."""

    machine: Machine
    held: int

    @property
    def dying(self) -> bool:
        """Whether a signal has been sent that ends this process."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Sleep on the clock."""
        raise NotImplementedError

    async def claim(self, size: int) -> None:
        """Hold ``size`` bytes of memory from now on; more than the container may hold ends everything in it."""
        before, self.held = self.held, size
        if size // LARGE > before // LARGE:
            self.machine.on_growth()
            if self.dying:
                await asyncio.sleep(0)
        if self.machine.memory_limit and self.machine.held > self.machine.memory_limit:
            self.machine.on_full()
            self.machine.stop()
            await asyncio.sleep(0)

    async def outgrow(self) -> None:
        """Claim ever more memory, until the limit of the container or the node ends it."""
        if self.machine.memory_limit:
            await self.claim(self.machine.memory_limit + 1)
        else:
            await self.fill(self.machine.memory)

    async def fill(self, size: int) -> None:
        """Claim so many bytes as fast as a program fills them."""
        while self.held < size:
            await self.claim(min(self.held + FILLED, size))
            if self.held < size:
                await self.sleep(1.0)
