"""The refusals of the node agent, each with an HTTP status, a code for programs, and a sentence for people."""

from __future__ import annotations


class Refusal(Exception):
    """A request that is not done."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after: int = 0) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def invalid(detail: str) -> Refusal:
    """Return the refusal of a value that no agent takes."""
    return Refusal(400, "invalid", detail)


def unsupported(detail: str) -> Refusal:
    """Return the refusal of what simulated nodes can do and this one cannot."""
    return Refusal(422, "unsupported_on_real_nodes", detail)


def not_permitted(detail: str) -> Refusal:
    """Return the refusal of what the node does not allow the agent."""
    return Refusal(503, "not_permitted", detail)


def too_many(detail: str, retry_after: int = 1) -> Refusal:
    """Return the refusal of what may be asked for again a little later."""
    return Refusal(429, "too_many_requests", detail, retry_after=retry_after)
