"""Reads request bodies: JSON, YAML or protobuf in, one JSON object out; whatever cannot be read is a Status.

What is wrong with a text is told as Go's JSON decoder tells it.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Any

import orjson
import yaml
from aiohttp import ClientPayloadError, web

from kubesim.api import protobuf
from kubesim.api.duplicates import NOTHING, Repeated, in_json, in_yaml
from kubesim.api.status import bad_request
from kubesim.data import Bounded
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

MAX_BODY = 3 * 1024 * 1024
SHOWN = 30
TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
JSON = "application/json"
YAML_TYPES = ("application/yaml", "application/x-yaml")
PROTOBUF = "application/vnd.kubernetes.protobuf"
APPLY = "application/apply-patch+yaml"
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    APPLY: "apply",
}
OPENINGS, MAX_NESTING = (b"[", b"{", b"- ", b"? "), 500
"""What may begin a list or a map in YAML, and how many of them may lie in one another."""
ACCEPTED = f"{JSON}, application/yaml, {PROTOBUF}"
CONTEXT = "looking for beginning of value"
CONTEXTS = {
    "Extra data": "after top-level value",
    "Expecting property name": "looking for beginning of object key string",
    "Illegal trailing comma": "looking for beginning of object key string",
    "Invalid control character": "in string literal",
    "Expecting ':'": "after object key",
}
"""Places of Go's JSON decoder, by the words of Python's."""
MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
LITERALS = ("null", "true", "false")
_GO_TYPES = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


async def read_bytes(request: web.Request) -> bytes:
    """Return the whole body; raises 413 for one over three MiB (upstream's limit) and 400 for one that is cut off."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        message = f"Request entity too large: limit is {MAX_BODY}"
        raise ApiError(413, "RequestEntityTooLarge", message) from error
    except (ClientPayloadError, web.RequestPayloadError, OSError) as error:
        raise bad_request("unable to read the request body") from error


async def read_object(request: web.Request, kind: str, api_version: str, *, custom: bool = False) -> Obj:
    """Return the object in a body that should be of ``kind``; raises 400, 413 or 415.

    Objects of custom kinds have to say what they are; others are taken to be what the path says.
    """
    body = await read_bytes(request)
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower() or JSON
    if media == PROTOBUF:
        obj = _protobuf(body, api_version, kind)
    elif media == JSON or media in YAML_TYPES:
        obj = _document(body, kind, yaml_too=media != JSON)
    else:
        raise _unsupported(media, ACCEPTED)
    if custom and not obj.get("kind"):
        text = body.decode(errors="replace")
        why = f"Object 'Kind' is missing in '{text}' ({text[:SHOWN]} ...)"
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {why}")
    obj.setdefault("kind", kind)
    obj.setdefault("apiVersion", "" if custom else api_version)
    return obj


async def read_options(request: web.Request) -> Obj | None:
    """Return the DeleteOptions in a body; None where there is none. Raises 400, or 415 for another media type."""
    if not request.can_read_body:
        return None
    body = await read_bytes(request)
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not body:
        return None
    if media not in ("", JSON, PROTOBUF, *YAML_TYPES):
        raise _unsupported(media, ACCEPTED)
    if media == PROTOBUF:
        return _protobuf(body, "v1", "DeleteOptions")
    try:
        wanted = _yaml(body) if media in YAML_TYPES else _json(body)
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    return _options(wanted)


def _options(wanted: Any) -> Obj:
    """Return DeleteOptions; raises 400 for another kind."""
    if not isinstance(wanted, dict):
        why = f"json: cannot unmarshal {_go_type(wanted)} into Go value of type {TYPE_META}"
        raise bad_request(f"couldn't get version/kind; json parse error: {why}")
    kind, version = wanted.get("kind") or "DeleteOptions", wanted.get("apiVersion") or "meta.k8s.io/v1"
    if kind != "DeleteOptions":
        scheme = "pkg/runtime/scheme.go:110"
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"')
    return wanted


async def repeated(request: web.Request, value: Any) -> Repeated:
    """Return what the body, from which ``value`` was read, says twice."""
    body = await request.read()
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media in YAML_TYPES or (media == APPLY and not body.lstrip().startswith(b"{")):
        return in_yaml(body)
    if body.lstrip().startswith((b"{", b"[")):
        with suppress(json.JSONDecodeError):
            return in_json(body, value, json_patch=isinstance(value, list))
    return NOTHING


async def read_patch(request: web.Request, *, custom: bool = False) -> tuple[str, Any]:
    """Return (patch type, patch); raises 415 for an unknown type and 400 for what cannot be read.

    ``custom``: objects of custom kinds know no strategic merge.
    """
    media = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    patch_type = PATCH_TYPES.get(media)
    if patch_type is None:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if custom and patch_type == "strategic":
        raise _unsupported(media, ", ".join(name for name, kind in PATCH_TYPES.items() if kind != "strategic"))
    body = await read_bytes(request)
    try:
        patch = _yaml(body) if patch_type == "apply" else _json(body)
    except ValueError as error:
        what = (
            "error decoding YAML: error converting YAML to JSON" if patch_type == "apply" else "error decoding patch"
        )
        raise bad_request(str(error) if patch_type == "strategic" else f"{what}: {error}") from error
    wanted, go_type = (list, "[]handlers.jsonPatchOp") if patch_type == "json" else (dict, "map[string]interface {}")
    if not isinstance(patch, wanted):
        why = f"json: cannot unmarshal {_go_type(patch)} into Go value of type {go_type}"
        where = "YAML: error unmarshaling JSON: while decoding JSON" if patch_type == "apply" else "patch"
        raise bad_request(why if patch_type == "strategic" else f"error decoding {where}: {why}")
    return patch_type, patch


def _protobuf(body: bytes, api_version: str, kind: str) -> Obj:
    """Decode a protobuf body."""
    try:
        obj = protobuf.decode(body, (api_version, kind))
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from error
    _check_depth(obj)
    return obj


def _document(body: bytes, kind: str, *, yaml_too: bool) -> Obj:
    """Decode a JSON (or YAML) body that must hold an object."""
    try:
        value = _yaml(body) if yaml_too else _json(body)
    except ValueError as error:
        raise _unrecognized(kind, str(error), body) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _unrecognized(kind, f"json: cannot unmarshal {_go_type(value)} into Go value of type {TYPE_META}", body)
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name) or "", str):
            why = f"json: cannot unmarshal {_go_type(value[name])} into Go struct field .{name} of type string"
            raise _unrecognized(kind, why, body)
    return value


def _unrecognized(kind: str, why: str, body: bytes) -> ApiError:
    """400 for a body that holds no object; it shows how the body begins."""
    text = body[:SHOWN].decode(errors="replace") if body.startswith(b"{") else body[:SHOWN].hex()
    shown = f"{text} ..." if len(body) > SHOWN else text or "<empty>"
    problem = f"couldn't get version/kind; json parse error: {why} ({shown})"
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {problem}")


def _json(body: bytes) -> Any:
    """Parse JSON, as Go with another character in the place of bytes that are no text.

    Raises ValueError, also for what nests too deeply to be stored.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        text = body.decode(errors="replace").encode()
        if text != body:
            return _json(text)
        raise ValueError(complaint(error.doc)) from error
    _check_depth(value)
    return value


def _yaml(body: bytes) -> Any:
    """Parse one YAML document into what JSON can hold; raises ValueError.

    What kubectl applies is JSON, which is read as such in a fiftieth of the time.
    """
    if body.startswith(b"{"):
        with suppress(orjson.JSONDecodeError):
            value = orjson.loads(body)
            _check_depth(value)
            return value
    if sum(map(body.count, OPENINGS)) > MAX_NESTING:
        _check_nesting(body)
    try:
        value = yaml.load(body, Loader=SafeLoader)  # noqa: S506 - a safe loader without dates
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(_go_yaml(error)) from error
    _check_depth(value)
    return value


def _check_nesting(body: bytes) -> None:
    """Raise ValueError for YAML that nests too deeply, before anything is built of it."""
    depth = 0
    try:
        for event in yaml.parse(body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_NESTING:
                mark = "[" if isinstance(event, yaml.SequenceStartEvent) else "{"
                raise ValueError(f"invalid character '{mark}' exceeded max depth")
    except yaml.YAMLError as error:
        raise ValueError(_go_yaml(error)) from error


def _go_yaml(error: Exception) -> str:
    """Return what Go's YAML decoder says of a text that it cannot read; only its scanner counts lines from one."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"yaml: {error}".replace("\n", " ")
    line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def _check_depth(value: Any) -> None:
    """Raise ValueError for what cannot be written as JSON again: nesting, numbers or keys out of bounds."""
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise ValueError(f"exceeded max depth ({error})") from error


class SafeLoader(Bounded):
    """YAML as Kubernetes reads it: dates stay text."""


SafeLoader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _go_type(value: Any) -> str:
    """Return a JSON value's type as Go's decoder names it."""
    names = {list: "array", dict: "object", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")


def _unsupported(media: str, accepted: str) -> ApiError:
    """Return 415."""
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        if media
        else f"a Content-Type is needed - accepted media types include: {accepted}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def kind_of(kind: Kind, subresource: str) -> tuple[str, str]:
    """Return (kind, apiVersion) of what is sent to a path."""
    sub = kind.subresource(subresource) if subresource else None
    if sub is None or not sub.kind:
        return kind.kind, kind.api_version
    group, version = (sub.group, sub.version) if sub.version else (kind.group, kind.version)
    return sub.kind, f"{group}/{version}" if group else version


def object_error(text: bytes) -> str:
    """Return why a text is no JSON object; nothing where it is one, or null."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return complaint(text.decode("utf-8", "surrogateescape"))
    if value is None or isinstance(value, dict):
        return ""
    return f"json: cannot unmarshal {_GO_TYPES[type(value)]} into Go value of type map[string]interface {{}}"


def complaint(text: str) -> str:
    """Return what Go's JSON decoder says of a text that it cannot read."""
    try:
        json.loads(text, parse_constant=_refused)
    except json.JSONDecodeError as found:
        rest = text[found.pos :].lstrip(" \n\r\t") if "control" not in found.msg else text[found.pos :]
        if not rest or "Unterminated" in found.msg:
            return "unexpected end of JSON input"
        wanted = LITERALS if found.msg == "Expecting value" else ()
        if literal := next((word for word in wanted if rest.startswith(word[0])), ""):
            return _in_literal(rest, literal)
        context = next((text for begin, text in CONTEXTS.items() if found.msg.startswith(begin)), CONTEXT)
        if found.msg.startswith("Expecting ','"):
            context = f"after {_open_at(text[: found.pos])}"
        return f"invalid character {rune(rest[0])} {context}"
    except RecursionError:
        deep = "[" if "[[" in text else "{"
        return f"invalid character '{deep}' exceeded max depth"
    except ValueError as constant:
        return f"invalid character {rune(str(constant)[0])} {CONTEXT}"
    return "unexpected end of JSON input"


def _open_at(text: str) -> str:
    """Return what is open at the end of a text, in Go's words for one of its entries."""
    open_marks: list[str] = []
    for mark in MARKS.findall(text):
        if mark in "[{":
            open_marks.append(mark)
        elif mark in "]}":
            open_marks.pop()
    return "array element" if open_marks[-1] == "[" else "object key:value pair"


def _in_literal(text: str, literal: str) -> str:
    """Return what Go's decoder says of a text that begins as ``null``, ``true`` or ``false`` does, and is none."""
    at = len(os.path.commonprefix([text, literal]))
    if at == len(text):
        return "unexpected end of JSON input"
    return f"invalid character {rune(text[at])} in literal {literal} (expecting {rune(literal[at])})"


def _refused(constant: str) -> Any:
    """Refuse what Python takes for a number and JSON does not."""
    raise ValueError(constant)


def rune(mark: str) -> str:
    """Return a character as Go quotes it; it looks at bytes."""
    mark = mark if mark.isascii() else mark.encode("utf-8", "surrogateescape")[:1].decode("latin-1")
    return "'\\''" if mark == "'" else repr(mark)
