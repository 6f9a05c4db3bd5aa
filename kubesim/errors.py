"""The one exception that becomes a Kubernetes Status."""

from __future__ import annotations

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
        body: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.detailed:
            body["details"] = self.details
        body["code"] = self.code
        return body
