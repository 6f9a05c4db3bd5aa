"""What can go wrong inside a simulated container, in the kernel's words."""

from __future__ import annotations

from typing import Any

from kubesim import data

POSIX: dict[str, Any] = data.table(__file__, "posix.yaml")
"""Error numbers, signals and limits, in the words of Linux."""
TEXTS: dict[str, str] = POSIX["errors"]


class FileError(Exception):
    """A call on the virtual files that the kernel would refuse with ``code``."""

    def __init__(self, code: str, path: str = "") -> None:
        super().__init__(f"{path}: {TEXTS[code]}")
        self.code = code
        self.path = path

    @property
    def text(self) -> str:
        """What strerror() says."""
        return TEXTS[self.code]


class StartError(Exception):
    """A program that cannot be started. ``text`` is the container runtime's cause, ``code`` a shell's exit status."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class Leave(Exception):
    """A tool that is done, from however deep: its status."""

    def __init__(self, status: int = 0) -> None:
        super().__init__(status)
        self.status = status


class BrokenPipe(Exception):
    """A write to a pipe that nobody reads any more: SIGPIPE."""


REASONS = {
    "refused": "connect: connection refused",
    "timeout": "i/o timeout",
    "unreachable": "connect: no route to host",
    "reset": "read: connection reset by peer",
    "nxdomain": "no such host",
}
"""How a Go program words what went wrong."""


class NetworkError(Exception):
    """A connection that failed: ``kind`` is nxdomain, again, refused, timeout, unreachable or reset.

    "again" means that the name server cannot be reached: ``why`` is "connection refused" or "timed out".
    """

    def __init__(self, kind: str, why: str = "") -> None:
        super().__init__(kind)
        self.kind = kind
        self.why = why


class UpgradeError(Exception):
    """A connection that the server would not turn into a stream of its own: the status and body of its answer."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
