"""The unit of work that the event loop is at: the object that a controller or kubelet syncs, or a request.

A signal handler runs in the context of the task that it interrupts. So a process that hangs can still tell over which
object, as long as it hangs in Python: tasks and timers inherit the unit of the one that made them.
"""

from __future__ import annotations

from contextvars import ContextVar

REQUEST = "request"
NOTHING = ("", "")
CURRENT: ContextVar[tuple[str, str]] = ContextVar("CURRENT", default=NOTHING)
"""The resource (or REQUEST) and the key: namespace and name, or what was asked for."""
