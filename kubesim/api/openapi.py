"""OpenAPI: as much of it as kubectl needs to apply and to explain.

kubectl accepts a version 2 document of no bytes at all (an empty protobuf message) and then applies without it.
"""

from __future__ import annotations

from aiohttp import web

from kubesim.api.answers import json_response, text_response
from kubesim.errors import Obj
from kubesim.schema.registry import Registry

V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def answer(path: list[str], registry: Registry) -> web.Response:
    """Answer a path below /openapi."""
    match path:
        case ["v2"]:
            return web.Response(body=b"", content_type=V2_TYPE)
        case ["v3"]:
            return json_response(_index(registry))
    return text_response("404 page not found\n", 404)


def _index(registry: Registry) -> Obj:
    """Return the (empty) list of version 3 documents."""
    return {"paths": {}}
