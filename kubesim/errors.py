"""The one exception that becomes a Kubernetes Status."""

from __future__ import annotations

from types import TracebackType
from typing import Any

Obj = dict[str, Any]


class ApiError(Exception):
    """An answer other than success, in the words of the Kubernetes API.

    ``details`` is the Status' details object: name, group, kind (the resource), uid, causes, retryAfterSeconds;
    ``metadata`` its ListMeta, which of all errors only that of an expired continue token has.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: Obj | None = None, metadata: Obj | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.detailed = details is not None
        """Whether the Status has details at all; some have empty ones."""
        self.metadata = metadata or {}
        self.warnings: list[str] = []
        """What is told beside the error."""

    def status(self) -> Obj:
        """Return the meta/v1 Status object that is sent to the client."""
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.detailed:
            body["details"] = self.details
        body["code"] = self.code
        return body


class tolerating:
    """Goes on after a ``with`` block in which the API has answered with one of these codes."""

    def __init__(self, *codes: int) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Tell whether the block may be left as if nothing had happened."""
        return isinstance(error, ApiError) and error.code in self._codes
