"""The OpenAPI version 2 document, as JSON: the schemas of version 3 in the older form.

What version 2 cannot say (oneOf, nullable, defaults) is left out as upstream leaves it out of the schemas of custom
kinds, and nothing is said inside of what preserves unknown fields: clients would take it for everything there is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson
from aiohttp import web

from kubesim.api.answers import NO_CACHE
from kubesim.api.negotiate import JSON_TYPES, media_types
from kubesim.api.openapi import document, kinds_by_path
from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3_REFERENCE, V2_REFERENCE = "#/components/schemas/", "#/definitions/"
NOT_IN_V2 = ("default", "oneOf", "anyOf", "not", "nullable")
CONTENTS = ("properties", "items", "additionalProperties")
PRESERVE = "x-kubernetes-preserve-unknown-fields"
IDENTITY = "x-kubernetes-group-version-kind"
INT_OR_STRING = "x-kubernetes-int-or-string"


def answer_v2(accept: str, registry: Registry) -> web.Response:
    """Answer /openapi/v2: to those who want protobuf with a message of no bytes, which kubectl takes and goes on."""
    wanted = media_types(accept)
    if wanted and wanted[0].name not in JSON_TYPES:
        return web.Response(body=b"", content_type=PROTOBUF)
    body = document_v2(tuple(kinds_by_path(registry).values()))
    return web.Response(body=body, content_type="application/json", headers=NO_CACHE)


@lru_cache(4)
def document_v2(groups: tuple[tuple[Kind, ...], ...]) -> bytes:
    """Return the document of all kinds, given by group and version."""
    definitions: Obj = {}
    paths: Obj = {}
    for kinds in groups:
        found = orjson.loads(document(kinds))
        definitions |= {name: converted(schema) for name, schema in found["components"]["schemas"].items()}
        paths |= {path: _path(item) for path, item in found["paths"].items()}
    info = {"title": "Kubernetes", "version": "v1.34.4"}
    return orjson.dumps({"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions})


def _path(item: Obj) -> Obj:
    """Return a path's operations with the parameters of version 2."""
    return {
        verb: {**operation, "parameters": [_parameter(entry) for entry in operation.get("parameters", ())]}
        for verb, operation in item.items()
    }


def _parameter(entry: Obj) -> Obj:
    form: Obj = entry.get("schema", {})
    return {key: value for key, value in entry.items() if key != "schema"} | form


def converted(schema: Obj) -> Obj:
    """Return a schema in the form of version 2."""
    if schema.get(PRESERVE) and IDENTITY in schema:
        return {"type": "object", IDENTITY: schema[IDENTITY]}
    kept: Obj = {key: _inner(key, value) for key, value in schema.items() if key not in NOT_IN_V2}
    references = kept.pop("allOf", None)
    if references and "$ref" in references[0]:
        kept |= references[0]
    if schema.get(INT_OR_STRING) or schema.get("nullable"):
        kept.pop("type", None)
    if schema.get(PRESERVE) or schema.get("nullable"):
        kept = {key: value for key, value in kept.items() if key not in CONTENTS}
    return kept


def _inner(key: str, value: Any) -> Any:
    match key, value:
        case "properties", dict():
            return {name: converted(inner) for name, inner in value.items()}
        case (("items" | "additionalProperties"), dict()):
            return converted(value)
        case "allOf", list():
            return [converted(inner) for inner in value]
        case "$ref", str():
            return value.replace(V3_REFERENCE, V2_REFERENCE)
        case _:
            return value
