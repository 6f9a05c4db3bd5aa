"""Encodes answers: JSON from the bytes that the store already has, Tables, metadata only, YAML, and Status.

Tables of meta.k8s.io are what ``kubectl get`` asks for instead of the objects themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any, TypeVar

import orjson
from aiohttp import web

from kubesim.admission.warnings import LONGEST, MOST
from kubesim.api.convert import printable
from kubesim.api.discovery import RANKS
from kubesim.api.negotiate import JSON, YAML, Answer, for_people, prefers_yaml
from kubesim.client import ObjectList
from kubesim.errors import ApiError, Obj
from kubesim.goyaml import to_yaml
from kubesim.schema import columns as builtin
from kubesim.schema.columns import Column
from kubesim.schema.registry import Kind
from kubesim.store import Stored

Response = TypeVar("Response", bound=web.StreamResponse)
LINE = orjson.OPT_APPEND_NEWLINE
MOST_INDENTED = 4 << 20
"""Bytes of an answer that nobody reads as a whole: to indent it would keep others waiting."""
TOLD = web.RequestKey("told", dict[str, str])
"""Headers of a request's answer that say how it was handled, whatever the answer is."""
NO_CACHE = {"Cache-Control": "no-cache, private"}
POLICIES = ("None", "Metadata", "Object")
UNKNOWN_POLICY = (
    'Unable to convert to Table as requested: includeObject: Invalid value: "{}": '
    "must be 'Metadata', 'Object', 'None', or empty"
)
LATER = timedelta(days=4000)
"""A cell that is the same after this is the same at any time."""


def json_response(body: Any, code: int = 200, content_type: str = JSON) -> web.Response:
    """Return any JSON document."""
    return web.Response(
        body=orjson.dumps(body, option=LINE), status=code, content_type=content_type, headers=NO_CACHE
    )


def text_response(text: str, code: int = 200) -> web.Response:
    """Return plain text."""
    headers = {**NO_CACHE, "X-Content-Type-Options": "nosniff"}
    return web.Response(text=text, status=code, content_type="text/plain", headers=headers)


def not_found(path: str = "") -> web.Response:
    """Return what a path that serves nothing answers: a Status below the groups that are built in."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" or (parts[0] == "apis" and RANKS.keys() & parts[1:2]):
        return error_response(ApiError(404, "NotFound", "the server could not find the requested resource", {}))
    return text_response("404 page not found\n", 404)


async def tell(request: web.Request, response: web.StreamResponse) -> None:
    """Complete the headers of an answer before they are sent; what serves it is nobody's business."""
    response.headers.pop("Server", None)
    response.headers.update(request.get(TOLD, {}))


def error_response(error: ApiError) -> web.Response:
    """Return a Status."""
    response = json_response(error.status(), error.code)
    seconds = error.details.get("retryAfterSeconds")
    if seconds:
        response.headers["Retry-After"] = str(seconds)
    return with_warnings(response, error.warnings)


class Encoder:
    """Encodes objects of one kind for one client."""

    def __init__(self, kind: Kind, answer: Answer, policy: str, now: datetime) -> None:
        self.kind = kind
        self.answer = answer
        self.policy = policy
        self.now = now
        prefix = {"kind": kind.kind, "apiVersion": kind.api_version}
        self._typed = orjson.dumps(prefix)[:-1] + b","

    def response(self, obj: Obj, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
        """Return one object, in the shape that the client asked for (a Status stays a Status)."""
        body = self._encode(obj, Answer() if obj.get("kind") == "Status" else self.answer)
        response = web.Response(body=body + b"\n", status=code, content_type=JSON, headers=NO_CACHE)
        return with_warnings(response, warnings)

    def list_response(self, found: ObjectList, meta: Obj) -> web.Response:
        """Return a list."""
        return web.Response(body=self._list(found.items, meta) + b"\n", content_type=JSON, headers=NO_CACHE)

    def line(self, obj: Stored, *, headers: bool) -> bytes:
        """Return one object as a watch sends it; a Table's headers are needed only once."""
        if self.answer.shape == "table":
            return self._table([obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}, headers=headers)
        return self._encode(obj, self.answer)

    def _encode(self, obj: Obj, answer: Answer) -> bytes:
        """Return an object's bytes in a shape; those of the store exist already."""
        match answer.shape:
            case "table":
                return self._table([obj], {"resourceVersion": obj.get("metadata", {}).get("resourceVersion", "")})
            case "metadata list":
                raise self._other_shape("PartialObjectMetadataList", "object is not a list", "")
            case "metadata":
                return orjson.dumps(partial(obj, answer.version))
            case _:
                return obj.raw if isinstance(obj, Stored) else orjson.dumps(obj)

    def _table(self, items: Sequence[Obj], meta: Obj, *, headers: bool = True) -> bytes:
        """Return a Table."""
        scale = len(items) == 1 and items[0].get("kind") == "Scale"
        columns, version = columns_of(self.kind, scale=scale), self.answer.version
        return table(columns, items, meta, self.now, version=version, policy=self.policy, headers=headers)

    def _list(self, items: Sequence[Obj], meta: Obj) -> bytes:
        """Return a list in the client's shape."""
        if self.answer.shape == "table":
            return self._table(items, meta)
        if self.answer.shape == "metadata":
            raise self._other_shape("PartialObjectMetadata", "object is a list", "List")
        if self.answer.shape == "metadata list":
            return orjson.dumps(partial_list(items, meta, self.answer.version))
        if self.kind.custom is not None:  # only these say that there is no next page
            meta = {"continue": "", **meta}
        head = {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version, "metadata": meta}
        return orjson.dumps(head | {"items": [orjson.Fragment(self._untyped(obj)) for obj in items]})

    def _other_shape(self, wanted: str, why: str, ending: str) -> ApiError:
        """Return the 406 of a list that was asked of one object, or the reverse."""
        package = self.kind.group.partition(".")[0] or "core"
        shown = f"*{package}.{self.kind.kind}{ending}"
        return ApiError(406, "NotAcceptable", f"you requested {wanted}, but the requested {why} ({shown})")

    def _untyped(self, obj: Obj) -> bytes:
        """Return a list's item: upstream leaves kind and apiVersion out of all but custom ones."""
        raw = obj.raw if isinstance(obj, Stored) else orjson.dumps(obj)
        if self.kind.custom is not None:
            return raw
        return b"{" + raw[len(self._typed) :] if raw.startswith(self._typed) else raw


def with_warnings(response: Response, texts: Iterable[str]) -> Response:
    """Return an answer with a Warning header for each text; none is told twice, and many are cut as upstream."""
    told = list(dict.fromkeys(texts))
    if sum(map(len, told)) > MOST:
        told = [text[:LONGEST] for text in told]
        before = accumulate(map(len, told), initial=0)
        told = [text for text, length in zip(told, before, strict=False) if length < MOST]
    for text in told:
        response.headers.add("Warning", f'299 - "{_quoted(text)}"')
    return response


def as_asked(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Return an answer in JSON as YAML, where its client likes that better, or in lines for somebody to read."""
    plain = isinstance(response, web.Response) and not response.prepared and response.content_type == JSON
    if plain and isinstance(response, web.Response) and prefers_yaml(request.headers.get("Accept", "")):
        given = response.headers["Content-Type"]
        response.body = to_yaml(orjson.loads(response.body if isinstance(response.body, bytes) else b"{}")).encode()
        response.headers["Content-Type"] = given.replace(JSON, YAML)
    elif plain and isinstance(response, web.Response) and for_people(request.headers, request.query):
        whole = response.body if isinstance(response.body, bytes) else b"{}"
        if len(whole) <= MOST_INDENTED:
            response.body = orjson.dumps(orjson.loads(whole), option=orjson.OPT_INDENT_2)
    return response


def _quoted(text: str) -> str:
    """Escape a warning's text for its header."""
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    return cleaned.replace("\\", "\\\\").replace('"', '\\"')


def columns_of(kind: Kind, *, scale: bool = False) -> tuple[Column, ...]:
    """Return the columns of a kind, or of its ``scale``; those without a printer show their creation time."""
    if scale:
        return builtin.columns_of("scales.autoscaling")
    return kind.custom.columns if kind.custom is not None else builtin.columns_of(kind.resource)


def include_policy(value: str) -> str:
    """Check the query's includeObject; raises 400 for an unknown one."""
    policy = value or "Metadata"
    if policy not in POLICIES:
        raise ApiError(400, "BadRequest", UNKNOWN_POLICY.format(value))
    return policy


class Rows:
    """Encodes objects as rows of a table. What the time does not change is encoded once per version of an object."""

    def __init__(self, columns: tuple[Column, ...], policy: str, version: str) -> None:
        self._columns = columns
        self._policy = policy
        self._version = version

    def encode(self, item: Obj, now: datetime) -> bytes:
        """Return one object's row as JSON."""
        shown = printable(item)
        if not isinstance(item, Stored):
            return _filled(self._parts(item, shown, now), shown, now)
        parts = item.memo.get(self)
        if parts is None:
            parts = item.memo[self] = self._parts(item, shown, now)
        return _filled(parts, shown, now)

    def _parts(self, item: Obj, shown: Obj, now: datetime) -> list[bytes | Column]:
        """Return a row in parts: a column stands for a cell that will be another one later."""
        parts: list[bytes | Column] = []
        text = b'{"cells":['
        for number, column in enumerate(self._columns):
            text += b"," if number else b""
            cell = column.cell(shown, now)
            if callable(column.value) and column.cell(shown, now + LATER) != cell:
                parts += [text, column]
                text = b""
            else:
                text += orjson.dumps(cell)
        return [*parts, text + b"]" + self._object(item) + b"}"]

    def _object(self, item: Obj) -> bytes:
        """Return what a row says of the object itself."""
        match self._policy:
            case "None":
                return b""
            case "Object":
                return b',"object":' + (item.raw if isinstance(item, Stored) else orjson.dumps(item))
            case _:
                return b',"object":' + orjson.dumps(partial(item, self._version))


def _filled(parts: list[bytes | Column], item: Obj, now: datetime) -> bytes:
    """Return a row with the cells of this moment."""
    return b"".join([part if isinstance(part, bytes) else orjson.dumps(part.cell(item, now)) for part in parts])


@cache
def rows_of(columns: tuple[Column, ...], policy: str, version: str) -> Rows:
    """Return the one encoder of such rows, so that its work is found again."""
    return Rows(columns, policy, version)


def table(
    columns: tuple[Column, ...],
    items: Sequence[Obj],
    meta: Obj,
    now: datetime,
    *,
    version: str,
    policy: str,
    headers: bool = True,
) -> bytes:
    """Return the Table of ``items``; ``meta`` is the list's metadata. Watches send the headers only once."""
    rows = rows_of(columns, policy, version)
    head = {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in columns] if headers else None,
    }
    return orjson.dumps(head | {"rows": [orjson.Fragment(rows.encode(item, now)) for item in items]})


def partial(item: Obj, version: str) -> Obj:
    """Return an object's PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": item.get("metadata", {}),
    }


def partial_list(items: Sequence[Obj], meta: Obj, version: str) -> Obj:
    """Return a PartialObjectMetadataList."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "items": [partial(item, version) for item in items],
    }
