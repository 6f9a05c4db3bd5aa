"""Reads a request's path and method as the API server does: which verb on which resource, or a plain path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesim.api.negotiate import parse_bool
from kubesim.auth.users import Attributes

METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get", "DELETE": "delete"}
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
STREAMS = frozenset({("pods", "exec"), ("pods", "attach"), ("pods", "portforward")})
NAME_TERM = "metadata.name="


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """One request, taken apart. ``resource`` is empty for plain paths; ``rest`` is what follows the subresource."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    fields: str = ""

    def attributes(self) -> Attributes:
        """Return what the authorizer has to decide."""
        if not self.resource:
            return Attributes(self.verb, path=self.path)
        return Attributes(
            self.verb,
            self.group,
            self.version,
            self.resource,
            self.subresource,
            self.namespace,
            self.name,
            fields=self.fields,
        )


def read(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Take a request apart; ``path`` is relative to the cluster's root. Raises 400 for a bad ``watch``."""
    parts = [part for part in path.split("/") if part]
    group, version, rest = _group(parts)
    if not rest:
        return RequestInfo(method.lower(), path)
    deprecated_watch = rest[0] == "watch" and len(rest) > 1
    namespace, resource, name, subresource, tail = _target(rest[1:] if deprecated_watch else rest)
    verb = METHODS.get(method, method.lower())
    if verb == "get" and not name:
        name = _selected_name(query)
        verb = "watch" if parse_bool(query.get("watch")) else "list"
    if verb == "delete" and not name:
        verb = "deletecollection"
    if deprecated_watch:
        verb = "watch"
    if verb == "get" and (resource, subresource) in STREAMS:
        verb = "create"  # a WebSocket comes by GET, but who may only read may not enter a container
    fields = query.get("fieldSelector", "") if verb in ("list", "watch") else ""
    return RequestInfo(verb, path, group, version, namespace, resource, name, subresource, tail, fields)


def _group(parts: list[str]) -> tuple[str, str, list[str]]:
    """Return group, version and the rest of a resource path; an empty rest for a plain path."""
    if parts[:1] == ["api"] and len(parts) > 2:
        return "", parts[1], parts[2:]
    if parts[:1] == ["apis"] and len(parts) > 3:
        return parts[1], parts[2], parts[3:]
    return "", "", []


def _target(rest: list[str]) -> tuple[str, str, str, str, tuple[str, ...]]:
    """Return (namespace, resource, name, subresource, what follows)."""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    return namespace, rest[0], name, subresource, tuple(rest[3:])


def _selected_name(query: Mapping[str, str]) -> str:
    """Return the name that a list's field selector pins down: rules with resourceNames then allow it."""
    terms = query.get("fieldSelector", "").split(",")
    names = [term[len(NAME_TERM) :].lstrip("=") for term in terms if term.startswith(NAME_TERM)]
    return names[0] if len(names) == 1 else ""
