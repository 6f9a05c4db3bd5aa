"""The OpenAPI version 2 document as the protobuf message that kubectl up to 1.26 asks for.

``openapi_protobuf.yaml`` has the messages. What begins with ``x-`` goes into the extensions
of its message, as YAML text, of which JSON is a part.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kubesim import data
from kubesim.errors import Obj

Fields = dict[str, tuple[int, str]]
_TABLE = data.read(Path(__file__).with_suffix(".yaml"))
MESSAGES: dict[str, Fields] = _TABLE["messages"]
MAPS: dict[str, tuple[int, str]] = _TABLE["maps"]


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
