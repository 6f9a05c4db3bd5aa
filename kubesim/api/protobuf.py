"""Decodes protobuf request bodies, which kubectl sends from 1.32 on, into the JSON objects that the rest knows.

The envelope is ``k8s\\0`` and a runtime.Unknown {1: TypeMeta {1: apiVersion, 2: kind}, 2: raw}. The names of a
message's fields lie in ``protobuf.json`` (see ``deploy/testcluster/tables/generate_protobuf.py``).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from kubesim.errors import Obj

MAGIC = b"k8s\x00"
MAX_DEPTH = 64
INT64 = 1 << 63
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZERO_TIME = -62135596800  # Go's zero time
Fields = dict[str, list[str]]


class ProtobufError(ValueError):
    """The bytes are no message of the kind they claim to be."""


@cache
def _tables() -> tuple[dict[str, str], dict[str, Fields]]:
    """Return the kinds and the messages of ``protobuf.json``, read once."""
    tables = json.loads(Path(__file__).with_name("protobuf.json").read_bytes())
    return tables["kinds"], tables["messages"]


def decode(body: bytes, default: tuple[str, str] = ("", "")) -> Obj:
    """Return the object in a protobuf body; ``default`` is the (apiVersion, kind) for an envelope that names none.

    Raises ProtobufError for anything that is not such a body.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    type_meta, raw = ("", ""), b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            type_meta = _type_meta(value)
        elif number == 2 and isinstance(value, bytes):
            raw = value
    api_version, kind = type_meta if type_meta[1] else default
    kinds, _ = _tables()
    name = f"{api_version} {kind}"
    message = kinds.get(name) or (kinds["v1 DeleteOptions"] if kind == "DeleteOptions" else None)
    if message is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"apiVersion": api_version, "kind": kind, **_message(message, raw, 0)}


def _type_meta(raw: bytes) -> tuple[str, str]:
    """Return (apiVersion, kind)."""
    found = {number: value.decode() for number, value in _fields(raw) if isinstance(value, bytes)}
    return found.get(1, ""), found.get(2, "")


def _message(name: str, raw: bytes, depth: int) -> Obj:
    """Decode one message of a known type; fields we do not know are skipped, as protobuf wants it."""
    if depth > MAX_DEPTH:
        raise ProtobufError("exceeded max depth")
    table, out = _tables()[1][name], Obj()
    for number, value in _fields(raw):
        field = table.get(str(number))
        if field is not None:
            _put(out, field[0], field[1], value, depth)
    return out


def _put(out: Obj, name: str, spec: str, value: int | bytes, depth: int) -> None:
    """Store one field as JSON has it."""
    keep = "?" in spec
    kind = spec.lstrip("~?")
    if spec.startswith("~"):
        out.update(_value(kind, value, depth))
    elif kind.startswith("[]"):
        out.setdefault(name, []).append(_value(kind[2:], value, depth))
    elif kind.startswith("{}"):
        key, item = _entry(kind[2:], value, depth)
        out.setdefault(name, {})[key] = item
    else:
        decoded = _value(kind, value, depth)
        if keep or (decoded is not None and decoded != "" and decoded != 0 and decoded != {}):
            out[name] = decoded


def _entry(kind: str, value: int | bytes, depth: int) -> tuple[str, Any]:
    """Decode one entry of a map."""
    key, item = "", b""
    for number, part in _fields(_bytes(value)):
        if number == 1:
            key = _bytes(part).decode()
        elif number == 2:
            item = _bytes(part)
    return key, _value(kind, item, depth)


def _value(kind: str, value: int | bytes, depth: int) -> Any:
    """Decode one value of a scalar, special or message type."""
    decode_scalar = SCALARS.get(kind)
    if decode_scalar is not None:
        return decode_scalar(value)
    if kind in UNIONS:
        return _union(kind, _bytes(value), depth + 1)
    return _message(kind, _bytes(value), depth + 1)


def _union(kind: str, raw: bytes, depth: int) -> Any:
    """Decode what is a schema (of a CustomResourceDefinition) or something else: a list, a boolean or texts."""
    schema, other = UNIONS[kind]
    rest: list[Any] = []
    for number, value in _fields(raw):
        if number == schema:
            return _message(SCHEMA, _bytes(value), depth)
        rest.append(_value(other, value, depth))
    return bool(rest and rest[0]) if other == "bool" else rest


def _bytes(value: int | bytes) -> bytes:
    """Return a length-delimited value; raises when the wire type was another."""
    if isinstance(value, int):
        raise ProtobufError("proto: wrong wireType")
    return value


def _string(value: int | bytes) -> str:
    """Decode UTF-8."""
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("proto: invalid UTF-8 in a string field") from error


def _int(value: int | bytes) -> int:
    """Decode a varint as Go's int64."""
    if not isinstance(value, int):
        raise ProtobufError("proto: wrong wireType")
    return value - 2 * INT64 if value >= INT64 else value


def _double(value: int | bytes) -> float:
    """Decode a 64-bit float; a whole number is one without a point, as in JSON written by Go."""
    number = float(struct.unpack("<d", _int(value).to_bytes(8, "little", signed=True))[0])
    return int(number) if number.is_integer() else number


def _time(value: int | bytes, precision: str = "seconds") -> str | None:
    """Decode Time {1 seconds, 2 nanos}; the zero time is JSON's null."""
    found = {number: part for number, part in _fields(_bytes(value)) if isinstance(part, int)}
    seconds, nanos = _int(found.get(1, 0)), found.get(2, 0)
    if seconds in (0, ZERO_TIME):
        return None
    try:
        moment = EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise ProtobufError("proto: time out of range") from error
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _quantity(value: int | bytes) -> str:
    """Decode Quantity {1 string}."""
    return next((_string(part) for number, part in _fields(_bytes(value)) if number == 1), "0")


def _int_or_string(value: int | bytes) -> int | str:
    """Decode IntOrString {1 type, 2 intVal, 3 strVal}."""
    found = dict(_fields(_bytes(value)))
    return _string(found.get(3, b"")) if found.get(1) else _int(found.get(2, 0))


def _raw(value: int | bytes) -> Any:
    """Decode RawExtension and FieldsV1 {1 raw JSON}."""
    raw = next((_bytes(part) for number, part in _fields(_bytes(value)) if number == 1), b"")
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError) as error:
        raise ProtobufError("proto: embedded JSON is invalid") from error


def _strings(value: int | bytes) -> list[str]:
    """Decode a message that only wraps a list of strings (ExtraValue)."""
    return [_string(part) for number, part in _fields(_bytes(value)) if number == 1]


def _duration(value: int | bytes) -> str:
    """Decode Duration {1 nanoseconds} as Go prints whole seconds."""
    nanos = next((_int(part) for number, part in _fields(_bytes(value)) if number == 1), 0)
    return f"{nanos / 1e9:g}s"


SCHEMA = "apiextensions.JSONSchemaProps"
UNIONS = {"SchemaOrArray": (1, SCHEMA), "SchemaOrBool": (2, "bool"), "SchemaOrStrings": (1, "string")}
"""The unions of a schema and another type: the number of the schema's field, and the other type."""

SCALARS: dict[str, Callable[[int | bytes], Any]] = {
    "string": _string,
    "int": _int,
    "bool": lambda value: bool(_int(value)),
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
    "double": _double,
    "Time": _time,
    "MicroTime": lambda value: _time(value, "microseconds"),
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Raw": _raw,
    "Strings": _strings,
    "Duration": _duration,
    "TypeMeta": lambda value: {},
}


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a message: integers for varints and fixed sizes, bytes for the rest."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(raw, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = int.from_bytes(_slice(raw, at, size), "little"), at + size
        elif wire == 2:
            size, at = _varint(raw, at)
            value, at = _slice(raw, at, size), at + size
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if number == 0:
            raise ProtobufError("proto: illegal tag 0")
        yield number, value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Read one varint; return it and the place after it."""
    value = shift = 0
    while True:
        if at >= len(raw):
            raise ProtobufError("unexpected EOF")
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        if shift >= 64:
            raise ProtobufError("proto: integer overflow")


def _slice(raw: bytes, at: int, size: int) -> bytes:
    """Return ``size`` bytes from ``at``."""
    if at + size > len(raw):
        raise ProtobufError("unexpected EOF")
    return raw[at : at + size]
