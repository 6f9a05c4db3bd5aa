"""What can go wrong inside a simulated container, in the kernel's words."""

from __future__ import annotations

TEXTS = {
    "EPERM": "Operation not permitted",
    "ENOENT": "No such file or directory",
    "EMFILE": "Too many open files",
    "ESPIPE": "Illegal seek",
    "EBADF": "Bad file descriptor",
    "EAGAIN": "Resource temporarily unavailable",
    "ENOMEM": "Cannot allocate memory",
    "EACCES": "Permission denied",
    "EBUSY": "Device or resource busy",
    "EEXIST": "File exists",
    "EXDEV": "Invalid cross-device link",
    "ENOTDIR": "Not a directory",
    "EISDIR": "Is a directory",
    "EINVAL": "Invalid argument",
    "ENOTTY": "Inappropriate ioctl for device",
    "ETXTBSY": "Text file busy",
    "EFBIG": "File too large",
    "ENOSPC": "No space left on device",
    "EROFS": "Read-only file system",
    "ENAMETOOLONG": "File name too long",
    "ENOTEMPTY": "Directory not empty",
    "ELOOP": "Too many levels of symbolic links",
    "ENOEXEC": "Exec format error",
    "E2BIG": "Argument list too long",
    "EIO": "Input/output error",
    "ECONNREFUSED": "Connection refused",
    "ECONNRESET": "Connection reset by peer",
    "EHOSTUNREACH": "No route to host",
    "ETIMEDOUT": "Connection timed out",
    "ENETUNREACH": "Network is unreachable",
    "ENOTCONN": "Transport endpoint is not connected",
    "EISCONN": "Transport endpoint is already connected",
    "EADDRINUSE": "Address already in use",
    "EADDRNOTAVAIL": "Cannot assign requested address",
    "EAFNOSUPPORT": "Address family not supported by protocol",
    "ENOTSOCK": "Socket operation on non-socket",
    "EDESTADDRREQ": "Destination address required",
}


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
