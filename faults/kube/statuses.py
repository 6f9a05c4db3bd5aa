"""Statuses of the API server, and what proxies send in their place, as errors of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from faults import errors
from faults.backoff import parse_retry_after


def error_of(code: int, data: bytes, headers: Mapping[str, str]) -> errors.ClusterError:
    """Turn a Status, or whatever a proxy sent in its place, into one of our errors."""
    try:
        status = orjson.loads(data)
    except orjson.JSONDecodeError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    error = error_for(code, str(status.get("reason", "")), str(status.get("message") or f"HTTP {code}"), headers)
    error.retryable |= _names(status.get("details"), "NamespaceTerminating")
    return error


def _names(details: Any, cause: str) -> bool:
    """Tell whether a Status' details name a cause: a namespace that ends refuses what may be made after it."""
    causes = details.get("causes") if isinstance(details, dict) else None
    found = causes if isinstance(causes, list) else []
    return any(isinstance(entry, dict) and entry.get("reason") == cause for entry in found)


def error_for(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> errors.ClusterError:
    """Return the error for a Kubernetes Status (code, reason, message)."""
    if code == 409:
        return errors.AlreadyExists(message) if reason == "AlreadyExists" else errors.Conflict(message)
    plain: dict[int, type[errors.ClusterError]] = {
        400: errors.Invalid,
        401: errors.Unauthorized,
        403: errors.Forbidden,
        404: errors.NotFound,
        410: errors.Expired,
        415: errors.Unsupported,
        422: errors.Invalid,
    }
    if code in plain:
        return plain[code](message)
    if code in (408, 429) or code >= 500:
        return errors.Unreachable(message, retry_after=parse_retry_after((headers or {}).get("Retry-After", "")))
    return errors.ClusterError(message)
