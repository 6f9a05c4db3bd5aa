"""The scheduler: upstream's filter order, messages and spreading."""

from __future__ import annotations

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.scheduler.loop import Scheduler

__all__ = ["Scheduler", "start"]


async def start(client: Client, clock: Clock) -> Scheduler:
    """Schedule the pods of a cluster until ``stop`` is called."""
    scheduler = Scheduler(client, clock)
    await scheduler.start()
    return scheduler
