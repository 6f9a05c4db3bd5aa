"""Callers of the fault injection API: programs with a token or, in guide mode alone, whoever sits at this machine."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from ninja.security import HttpBearer

from faults import services
from faults.api.problems import ApiProblem
from faults.models import Cluster

ISSUE = "Ask an admin for a token: manage.py api_token issue"


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who may do what they asked for, in one cluster."""

    name: str
    cluster: Cluster


class ScopedToken(HttpBearer):
    """Lets in the holders of a valid token that has one scope."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self._scope = scope

    def __call__(self, request: HttpRequest) -> Any:
        """Return the caller. Raises ApiProblem: 401 without a valid token, 403 without the scope."""
        if settings.GUIDE_CLUSTER:
            return guide_caller(request)
        found = super().__call__(request)
        if found is None:
            raise ApiProblem(401, "no_token", "The request has no bearer token.", ISSUE)
        return found

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        """Return the caller who has this token."""
        found = services.find_api_token(token)
        if found is None:
            raise ApiProblem(401, "token_invalid", "The token is unknown, revoked or expired.", ISSUE)
        if self._scope not in found.scopes.split():
            services.note_api_event(
                cluster=found.cluster, actor=f"token:{found.name}", action=self._scope, outcome="scope_missing"
            )
            raise ApiProblem(403, "scope_missing", f"The token lacks the scope {self._scope}.", ISSUE)
        return Caller(f"token:{found.name}", found.cluster)


def guide_caller(request: HttpRequest) -> Caller:
    """Return the reader of the guide: a program of this machine, and no page of a browser that is open on it."""
    if not _is_loopback(request.META.get("REMOTE_ADDR", "")):
        raise ApiProblem(403, "loopback_only", "Guide mode answers this machine only.", "Use http://localhost:8080.")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.get_host():
        raise ApiProblem(403, "other_origin", "Pages of other sites may not inject faults.", "Use the SDK or curl.")
    return Caller("guide", Cluster.objects.get(name=settings.GUIDE_CLUSTER))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def guarded(scope: str) -> dict[str, Any]:
    """Return the arguments of a route that needs a scope; the description tells of it."""
    return {"auth": ScopedToken(scope), "openapi_extra": {"x-scope": scope}}
