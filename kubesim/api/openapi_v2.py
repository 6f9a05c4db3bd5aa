"""The OpenAPI version 2 document: the schemas and paths of version 3 in the older form, as JSON or as protobuf.

What version 2 cannot say (oneOf, nullable, defaults) is left out as upstream leaves it out, and nothing is said
inside of what preserves unknown fields: clients would take it for everything there is. ``openapi_v2.yaml`` has the
messages of the protobuf form. What begins with ``x-`` goes into the extensions of its message, as YAML text, of which
JSON is a part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson
from aiohttp import web

from kubesim import data
from kubesim.api.answers import NO_CACHE
from kubesim.api.negotiate import JSON_TYPES, media_types
from kubesim.api.openapi import BEARER, IDENTITY, INFO, document, kinds_by_path
from kubesim.api.openapi_paths import CUSTOM_FORMS
from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V3_REFERENCE, V2_REFERENCE = "#/components/schemas/", "#/definitions/"
NOT_IN_V2 = ("default", "oneOf", "anyOf", "not", "nullable")
PATCHES_LAST = ("application/apply-patch+yaml",)
CONTENTS = ("properties", "items", "additionalProperties")
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
Groups = tuple[tuple[Kind, ...], ...]
Fields = dict[str, tuple[int, str]]
_TABLE = data.table(__file__, "openapi_v2.yaml")
MESSAGES: dict[str, Fields] = _TABLE["messages"]
MAPS: dict[str, tuple[int, str]] = _TABLE["maps"]
WRAPPED = {"Strings": "value", "SecurityDefinition": "apiKey", "SchemaItem": "schema", "ResponseValue": "response"}
"""Messages of one field, of which JSON has the value alone."""


def answer_v2(accept: str, registry: Registry) -> web.Response:
    """Answer /openapi/v2, in protobuf to those who want it."""
    groups = tuple(kinds_by_path(registry).values())
    wanted = media_types(accept)
    if wanted and wanted[0].name not in JSON_TYPES:
        return web.Response(body=document_protobuf(groups), content_type=PROTOBUF, headers=NO_CACHE)
    return web.Response(body=document_v2(groups), content_type="application/json", headers=NO_CACHE)


@lru_cache(2)
def document_protobuf(groups: Groups) -> bytes:
    """Return the document of all kinds as a message."""
    return encode("Document", orjson.loads(document_v2(groups)))


@lru_cache(2)
def document_v2(groups: Groups) -> bytes:
    """Return the document of all kinds, given by group and version."""
    definitions: Obj = {}
    paths: Obj = {}
    for kinds in groups:
        found = orjson.loads(document(kinds))
        definitions |= {name: converted(schema) for name, schema in found["components"]["schemas"].items()}
        paths |= {path: _path(item) for path, item in found["paths"].items()}
    return orjson.dumps({
        "swagger": "2.0",
        "info": INFO,
        "paths": paths,
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {"BearerToken": BEARER},
        "security": [{"BearerToken": []}],
    })  # fmt: skip


def _path(item: Obj) -> Obj:
    """Return a path's operations, and the parameters that they share."""
    found: Obj = {verb: _operation(entry) for verb, entry in item.items() if verb != "parameters"}
    if "parameters" in item:
        found["parameters"] = [_parameter(entry) for entry in item["parameters"]]
    return found


def _operation(operation: Obj) -> Obj:
    """Return an operation: what it takes is one more parameter, and its media types stand beside it."""
    found = dict(operation)
    body = found.pop("requestBody", {})
    taken = body.get("content") or _taken_without(found)
    parameters = [_parameter(entry) for entry in found.pop("parameters", ())]
    if body:
        schema = converted(next(iter(taken.values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **required, "schema": schema})
    answers = found["responses"]
    found |= {"consumes": sorted(taken, key=PATCHES_LAST.count), "produces": _produced(answers), "schemes": ["https"]}
    found["responses"] = {code: _answer(answer) for code, answer in answers.items()}
    return found | ({"parameters": parameters} if parameters else {})


def _taken_without(operation: Obj) -> Obj:
    """Return the media types that stand with an operation without a body: anything, but for custom kinds."""
    produced = _produced(operation["responses"])
    return dict.fromkeys(CUSTOM_FORMS if produced == [*CUSTOM_FORMS] else ("*/*",), {})


def _produced(answers: Obj) -> list[str]:
    return list(next(iter(answers.values())).get("content", ()))


def _answer(answer: Obj) -> Obj:
    found = {"description": answer["description"]}
    content = answer.get("content")
    return found | ({"schema": converted(next(iter(content.values()))["schema"])} if content else {})


def _parameter(entry: Obj) -> Obj:
    form: Obj = entry.get("schema", {})
    return {key: value for key, value in entry.items() if key != "schema"} | form


def converted(schema: Obj) -> Obj:
    """Return a schema in the form of version 2."""
    if schema.get(PRESERVE) and IDENTITY in schema:
        return {"type": "object", IDENTITY: schema[IDENTITY]}
    kept: Obj = {key: _inner(key, value) for key, value in schema.items() if key not in NOT_IN_V2}
    if "oneOf" in schema and "type" not in schema and INT_OR_STRING not in schema:
        kept["type"] = "string"
    references = kept.pop("allOf", None)
    if references and "$ref" in references[0]:
        kept |= references[0]
    if schema.get(INT_OR_STRING) or schema.get(PRESERVE) or schema.get("nullable"):
        kept.pop("type", None)
    if schema.get(PRESERVE) or schema.get("nullable"):
        hidden = CONTENTS if isinstance(schema.get("additionalProperties"), dict) else ("properties", "items")
        kept = {key: value for key, value in kept.items() if key not in hidden}
    if schema.get(PRESERVE) and schema.get("x-kubernetes-embedded-resource"):
        kept.pop("required", None)
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


def encode(message: str, value: Any) -> bytes:
    """Return a JSON object as one of the messages."""
    if message in MAPS:
        number, inner = MAPS[message]
        named = (_text(1, name) + _block(2, encode(inner, each)) for name, each in value.items())
        return b"".join(_block(number, entry) for entry in named)
    if message == "ParametersItem":
        return _block(1, _parameter_block(value))
    return b"".join(_encoded(MESSAGES[message], _shaped(message, value)))


def _encoded(fields: Fields, value: Obj) -> Iterator[bytes]:
    for name, inner in value.items():
        if name.startswith("x-") and "" in fields:
            number = fields[""][0]
            yield _block(number, _text(1, name) + _block(2, _any(inner)))
        elif name in fields:
            number, form = fields[name]
            for each in inner if form.startswith("*") else (inner,):
                yield _field(number, form.removeprefix("*"), each)


def _field(number: int, form: str, value: Any) -> bytes:
    match form:
        case "text":
            return _text(number, value)
        case "bool" | "number":
            return _varint(number << 3) + _varint(int(value) % (1 << 64))
        case "any":
            return _block(number, _any(value))
        case "double":
            return _varint(number << 3 | 1) + struct.pack("<d", value)
        case _:
            return _block(number, encode(form, value))


def _shaped(message: str, value: Any) -> Obj:
    """Return the fields of a message that stands for a JSON value of another form."""
    match message:
        case "TypeItem":
            return {"value": [value] if isinstance(value, str) else value}
        case "ItemsItem":
            return {"schema": value if isinstance(value, list) else [value]}
        case "AdditionalProperties":
            return {"boolean" if isinstance(value, bool) else "schema": value}
        case _:
            return {WRAPPED[message]: value} if message in WRAPPED else dict(value)


def _parameter_block(value: Obj) -> bytes:
    """Return the one field of a Parameter: a body, or a parameter of the path or the query."""
    match value["in"]:
        case "body":
            return _block(1, encode("BodyParameter", value))
        case "path":
            return _block(2, _block(4, encode("PathParameter", value)))
        case _:
            return _block(2, _block(3, encode("QueryParameter", value)))


def _any(value: Any) -> bytes:
    return _block(2, orjson.dumps(value))


def _text(number: int, value: str) -> bytes:
    return _block(number, value.encode())


def _block(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
