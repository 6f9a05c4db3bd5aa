"""Reads what a request asks: its verb and resource (or a plain path), the Accept header, and the query's values.

Paths and methods are read as the API server reads them, booleans and numbers as Go does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kubesim.auth.users import Attributes
from kubesim.errors import ApiError

Shape = Literal["object", "table", "metadata", "metadata list"]
SHAPES: dict[str, Shape] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata list",
}
FALSE = frozenset({"0", "false"})
TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""What Go's ``strconv.ParseBool`` takes for true."""
READ_BY_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
JSON, YAML = "application/json", "application/yaml"
JSON_TYPES = frozenset({JSON, "application/*", "*/*"})
TYPES = JSON_TYPES | {YAML}
KNOWN = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
DISCOVERY = "APIGroupDiscoveryList"
METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get", "DELETE": "delete"}
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
CONNECTIONS = frozenset({("pods", "exec"), ("pods", "attach"), ("pods", "portforward")})
NAME_TERM = "metadata.name="


@dataclass(frozen=True, slots=True)
class MediaType:
    """One range of an Accept header."""

    name: str
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """How to encode the answer."""

    shape: Shape = "object"
    version: str = "v1"


def media_types(header: str) -> list[MediaType]:
    """Return the ranges of an Accept header in the client's order (kubectl lists the preferred one first)."""
    found = []
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(piece.partition("=")[::2] for piece in rest)
        if name:
            found.append(MediaType(name.lower(), parameters))
    return found


def negotiate(header: str, *, aggregated: bool = False, streams: bool = False, watched: bool = False) -> Answer:
    """Choose the answer's encoding; raises 406 when the client accepts nothing that we can send.

    ``aggregated``: the answer may be a document of discovery; ``streams``: or a watch; ``watched``: it is one.
    """
    if not header:
        return Answer()
    for media in media_types(header):
        shape, version = media.parameters.get("as", ""), media.parameters.get("v", "v1")
        if media.name not in TYPES or (watched and media.name == YAML):
            continue
        if shape in SHAPES:
            if version in ("v1", "v1beta1"):
                return Answer(SHAPES[shape], version)
        elif not shape or (aggregated and shape == DISCOVERY and version == "v2"):
            return Answer()
    if aggregated or any(media.name in JSON_TYPES for media in media_types(header)):
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {KNOWN}")
    known = f"{KNOWN}, {STREAMS}" if streams else KNOWN
    raise ApiError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {known}", {})


def prefers_yaml(header: str) -> bool:
    """Tell whether the first of a client's types that we can send is YAML."""
    return YAML in header and next((media.name for media in media_types(header) if media.name in TYPES), "") == YAML


def for_people(headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
    """Tell whether an answer is indented: where ``pretty`` says so, or else for tools that people read from."""
    asked = query.get("pretty", "")
    return asked in TRUE if asked else headers.get("User-Agent", "").startswith(READ_BY_PEOPLE)


def wants_aggregated(header: str) -> bool:
    """Whether the client asks for aggregated discovery; the beta that kubectl 1.26 to 1.29 ask for is gone."""
    for media in media_types(header):
        if media.name not in (JSON, YAML):
            continue
        if media.parameters.get("as") == DISCOVERY and media.parameters.get("v") == "v2":
            return True
        if "as" not in media.parameters:
            return False
    return False


def parse_bool(value: str | None) -> bool:
    """Read a boolean of the query as upstream does: whatever is there is true, but for "false" and "0"."""
    return value is not None and value.lower() not in FALSE


def parse_int(name: str, value: str) -> int | None:
    """Read a decimal number; an absent or empty value is None."""
    if not value:
        return None
    try:
        number = int(value)
    except ValueError as error:
        message = f'strconv.ParseInt: parsing "{value}": invalid syntax'
        raise ApiError(400, "BadRequest", message) from error
    if not -(1 << 63) <= number < 1 << 63:
        message = f'strconv.ParseInt: parsing "{value}": value out of range'
        raise ApiError(400, "BadRequest", message)
    return number


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


def request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
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
    if verb == "get" and (resource, subresource) in CONNECTIONS:
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
