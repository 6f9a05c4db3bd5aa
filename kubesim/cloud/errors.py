"""Errors of the cloud API, in the form that Google's APIs give them."""

from __future__ import annotations

from kubesim.errors import Obj

STATUSES = {
    400: ("INVALID_ARGUMENT", "badRequest"),
    401: ("UNAUTHENTICATED", "required"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    409: ("ALREADY_EXISTS", "alreadyExists"),
    412: ("FAILED_PRECONDITION", "conditionNotMet"),
    413: ("INVALID_ARGUMENT", "uploadTooLarge"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    501: ("UNIMPLEMENTED", "notImplemented"),
}
"""HTTP status -> canonical status, and the reason that the older APIs give beside it."""
NOT_SERVED = "{method} {path} is not supported on practice clusters"


class CloudError(Exception):
    """An answer other than success; ``reason`` and ``status`` where the HTTP status alone does not tell them."""

    def __init__(self, code: int, message: str, *, reason: str = "", status: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        known, why = STATUSES.get(code, ("INTERNAL", "backendError"))
        self.status = status or known
        self.reason = reason or why

    def body(self) -> Obj:
        """Return the JSON document that is sent."""
        errors = [{"message": self.message, "domain": "global", "reason": self.reason}]
        return {"error": {"code": self.code, "message": self.message, "errors": errors, "status": self.status}}
