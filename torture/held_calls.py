"""Requests to a node's agent that are held on their way: the moments before, between and after a call and its record.

The product has no failpoint for them. They are found in what passes the cluster's API proxy: calls to an agent are
HTTP requests inside a forwarded port, and the record is the copy of the journal, the next write to the cluster.
"""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass, field

MAX_HELD_S = 120.0
WRITES = ("POST", "PUT", "PATCH")
AGENT = re.compile(r"/(lease|inject|recover|faults/[^/]+)$")


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment: a request's way there, or back. ``after``: only once such a call has passed."""

    name: str
    path: str
    methods: tuple[str, ...] = ("POST",)
    is_back: bool = False
    after: str = ""


READ = r"/faults/[^/]+$"
RECORD = r"^/api/.*/(secrets|configmaps)(/|$|\?)"
INJECTING = (
    Moment("before the lease", r"/lease$"),
    Moment("before the call", r"/inject$"),
    Moment("between call and answer", r"/inject$", is_back=True),
    Moment("before it is read back", READ, ("GET",), after=r"/inject$"),
    Moment("before it is recorded", READ, ("GET",), is_back=True, after=r"/inject$"),
    Moment("while it is recorded", RECORD, WRITES, after=r"/inject$"),
    Moment("after it is recorded", RECORD, WRITES, is_back=True, after=r"/inject$"),
)
REVERTING = (
    Moment("before the call", r"/recover$"),
    Moment("between call and answer", r"/recover$", is_back=True),
    Moment("before the lease is given back", r"/lease$", after=r"/recover$"),
    Moment("before it is recorded", READ, ("GET",), is_back=True, after=r"/recover$"),
    Moment("while it is recorded", RECORD, WRITES, after=r"/recover$"),
    Moment("after it is recorded", RECORD, WRITES, is_back=True, after=r"/recover$"),
)


@dataclass
class HeldCall:
    """The first request of a moment. It waits until somebody lets it go, or loses it."""

    moment: Moment
    caught: threading.Event = field(default_factory=threading.Event)
    _free: threading.Event = field(default_factory=threading.Event)
    _is_lost: bool = False
    _is_armed: bool = False

    def wants(self, method: str, path: str) -> bool:
        """Return whether this is the request; that which has to be before it is noted."""
        if self.caught.is_set() or self._free.is_set():
            return False
        if self.moment.after and not self._is_armed:
            self._is_armed = re.search(self.moment.after, path) is not None
            return False
        is_found = method in self.moment.methods and re.search(self.moment.path, path) is not None
        return is_found and (self.moment.path == RECORD or AGENT.search(path) is not None)

    async def hold(self) -> bool:
        """Tell that it is here, and wait; return whether it goes on."""
        self.caught.set()
        await asyncio.to_thread(self._free.wait, MAX_HELD_S)
        return not self._is_lost

    def let_go(self, *, is_lost: bool) -> None:
        """Let it go on, or lose it on its way; nothing is caught any more."""
        self._is_lost = is_lost
        self._free.set()


NOTHING = Moment("never", r"(?!)")


def no_call() -> HeldCall:
    """Return one that wants no request."""
    return HeldCall(NOTHING)
