"""The OpenAPI version 2 document as the protobuf message that kubectl up to 1.26 asks for.

Field numbers are those of gnostic's ``openapiv2/OpenAPIv2.proto``. What begins with ``x-`` goes into the extensions
of its message, as YAML text, of which JSON is a part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import orjson

from kubesim.errors import Obj

Fields = dict[str, tuple[int, str]]

_PARAMETER: Fields = {"required": (1, "bool"), "in": (2, "text"), "description": (3, "text"), "name": (4, "text")}
MESSAGES: dict[str, Fields] = {
    "Document": {"swagger": (1, "text"), "info": (2, "Info"), "paths": (8, "Paths"),
                 "definitions": (9, "Definitions"),
                 "security": (12, "*SecurityRequirement"), "securityDefinitions": (13, "SecurityDefinitions")},
    "Info": {"title": (1, "text"), "version": (2, "text")},
    "PathItem": {"get": (2, "Operation"), "put": (3, "Operation"), "post": (4, "Operation"),
                 "delete": (5, "Operation"),
                 "options": (6, "Operation"), "head": (7, "Operation"), "patch": (8, "Operation"),
                 "parameters": (9, "*ParametersItem")},
    "Operation": {"tags": (1, "*text"), "description": (3, "text"), "operationId": (5, "text"),
                  "produces": (6, "*text"), "consumes": (7, "*text"), "parameters": (8, "*ParametersItem"),
                  "responses": (9, "Responses"), "schemes": (10, "*text"), "": (13, "extension")},
    "BodyParameter": {"description": (1, "text"), "name": (2, "text"), "in": (3, "text"), "required": (4, "bool"),
                      "schema": (5, "Schema")},
    "QueryParameter": {**_PARAMETER, "type": (6, "text"), "uniqueItems": (20, "bool")},
    "PathParameter": {**_PARAMETER, "type": (5, "text"), "uniqueItems": (19, "bool")},
    "Response": {"description": (1, "text"), "schema": (2, "SchemaItem")},
    "ResponseValue": {"response": (1, "Response")},
    "SchemaItem": {"schema": (1, "Schema")},
    "Schema": {"$ref": (1, "text"), "format": (2, "text"), "title": (3, "text"), "description": (4, "text"),
               "default": (5, "any"), "multipleOf": (6, "double"), "maximum": (7, "double"),
               "exclusiveMaximum": (8, "bool"), "minimum": (9, "double"), "exclusiveMinimum": (10, "bool"),
               "maxLength": (11, "number"), "minLength": (12, "number"), "pattern": (13, "text"),
               "maxItems": (14, "number"), "minItems": (15, "number"), "uniqueItems": (16, "bool"),
               "maxProperties": (17, "number"), "minProperties": (18, "number"), "required": (19, "*text"),
               "enum": (20, "*any"), "additionalProperties": (21, "AdditionalProperties"), "type": (22, "TypeItem"),
               "items": (23, "ItemsItem"), "allOf": (24, "*Schema"), "properties": (25, "Properties"),
               "example": (30, "any"), "": (31, "extension")},
    "AdditionalProperties": {"schema": (1, "Schema"), "boolean": (2, "bool")},
    "TypeItem": {"value": (1, "*text")},
    "ItemsItem": {"schema": (1, "*Schema")},
    "Strings": {"value": (1, "*text")},
    "ApiKeySecurity": {"type": (1, "text"), "name": (2, "text"), "in": (3, "text"), "description": (4, "text")},
    "SecurityDefinition": {"apiKey": (2, "ApiKeySecurity")},
}  # fmt: skip
"""By message: the number and the type of each field by its name in JSON; ``*`` is repeated."""
MAPS = {"Paths": (2, "PathItem"), "Definitions": (1, "Schema"), "Properties": (1, "Schema"),
        "Responses": (1, "ResponseValue"), "SecurityRequirement": (1, "Strings"),
        "SecurityDefinitions": (1, "SecurityDefinition")}  # fmt: skip
"""Messages that are lists of (name, value): the number of the list, and the message of its values."""


def encode(message: str, value: Any) -> bytes:
    """Return a JSON object as one of the messages."""
    if message in MAPS:
        number, inner = MAPS[message]
        named = (_text(1, name) + _block(2, encode(inner, each)) for name, each in value.items())
        return b"".join(_block(number, entry) for entry in named)
    if message == "ParametersItem":
        return _block(1, _parameter(value))
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
        case "Strings":
            return {"value": value}
        case "ItemsItem":
            return {"schema": value if isinstance(value, list) else [value]}
        case "AdditionalProperties":
            return {"boolean" if isinstance(value, bool) else "schema": value}
        case "SecurityDefinition":
            return {"apiKey": value}
        case "SchemaItem":
            return {"schema": value}
        case "ResponseValue":
            return {"response": value}
        case _:
            return dict(value)


def _parameter(value: Obj) -> bytes:
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
