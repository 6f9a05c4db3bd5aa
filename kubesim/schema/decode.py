"""Reading what a client sent as a type: unknown fields, wrong types, quantities, defaults, all in one walk.

The walk returns a new tree, so what comes out may be changed by whoever called for it. Nulls and empty lists and maps
are left out, as a Go server leaves them out when it writes an object again.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from kubesim.api.quantity import QuantityError, from_json
from kubesim.errors import Obj
from kubesim.schema import facts
from kubesim.schema.defaults import default_of
from kubesim.schema.types import FieldType, Shape

_JSON_NAME = {str: "string", int: "number", float: "number", bool: "bool", list: "array", dict: "object"}
_SCALARS = {"string": (str,), "time": (str,), "bytes": (str,), "bool": (bool,), "int": (int,), "float": (int, float)}
_SCALARS["int-or-string"] = (int, str)
KEY = "\0"
"""What stands around the keys of maps in a path: Go's decoder does not name them."""
_NO_FIELD = re.compile(r"\[\d+\]|\.\0[^\0]*\0")
_ZERO = {"string": "", "int": 0, "bool": False, "quantity": "0"}
"""What null is in a list."""
_TAKEN = _SCALARS | dict.fromkeys(("bytes", "int", "time", "quantity", "object", "list", "map", "any"), ())
"""What is taken as it is, where it is not zero; integers have a range, and times are written in one way."""
_GO = {"int-or-string": "int32", "time": "string", "bytes": "[]uint8", "float": "float64"}
_GO_KIND = {str: "string", int: "int64", float: "float64", bool: "bool", list: "slice", dict: "map"}
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)")
_MICRO_TIME = re.compile(_TIME.pattern.replace(r"\d+)?", r"\d{6})"))
_LAYOUT, _MICRO_LAYOUT = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")
MAX_DEPTH = 100


class DecodeError(ValueError):
    """A value of another type than its field has.

    The message is the one of Go's JSON decoder; ``conversion`` is what a strategic merge patch, whose result is
    converted without becoming JSON, says of the same.
    """

    def __init__(self, message: str, conversion: str = "") -> None:
        super().__init__(message)
        self.conversion = conversion or message


class Decoder:
    """One walk. ``unknown`` collects the paths of fields that no type has.

    ``wraps``: integers too large for their type are taken as Go converts them.
    """

    def __init__(self, *, wraps: bool = False) -> None:
        self._wraps = wraps
        self.unknown: list[str] = []

    def object(self, shape: Shape, value: Any, path: str = "") -> Obj:
        """Return an object as its type has it, with defaults. Raises ``DecodeError``."""
        out: Obj = {}
        for key, item in value.items():
            field = shape.fields.get(key)
            if field is None:
                self.unknown.append(f"{path}.{key}".replace(KEY, "") if path else key)
            elif item and type(item) in _TAKEN[field.form]:
                out[key] = item
            elif item is None:
                if (shape.name, key) in facts.NULLS:
                    out[key] = None
            else:
                kept = self._value(shape, field, item, f"{path}.{key}" if path else key)
                if kept is not None:
                    out[key] = kept
        for name, zero in shape.zeros.items():
            out.setdefault(name, zero)
        for field in shape.structs:
            if field.name not in out and field.shape is not None:
                out[field.name] = self.object(field.shape, {}, f"{path}.{field.name}" if path else field.name)
        default = default_of(shape.name)
        if default is not None:
            default(out)
        return out

    def _value(self, shape: Shape, field: FieldType, item: Any, path: str) -> Any:
        match field.form:
            case "object":
                return self._child(field, self._checked(shape, field, item, dict, path), path)
            case "list":
                return self._list(shape, field, self._checked(shape, field, item, list, path), path)
            case "map":
                return self._map(shape, field, self._checked(shape, field, item, dict, path), path)
            case form:
                kept = self._scalar(shape, field, form, item, path)
                optional = (shape.name, field.name) in facts.OMITTED or (form == "bytes" and not field.required)
                return None if not kept and optional else kept

    def _child(self, field: FieldType, item: Obj, path: str) -> Obj:
        if path.count(".") > MAX_DEPTH:
            raise DecodeError("json: exceeded max depth")
        child = field.shape
        return item if child is None else self.object(child, item, path)

    def _list(self, shape: Shape, field: FieldType, items: list[Any], path: str) -> list[Any] | None:
        child = field.shape
        if child is None:
            entries = (_ZERO.get(field.item) if item is None else item for item in items)
            kept = [self._scalar(shape, field, field.item, item, path) for item in entries if item is not None]
        else:
            kept = []
            for at, item in enumerate(items):
                kept.append(self.object(child, _entry(shape, field, item, path), f"{path}[{at}]"))
        return kept if kept or (shape.name, field.name) in facts.KEPT_EMPTY else None

    def _map(self, shape: Shape, field: FieldType, items: Obj, path: str) -> Obj | None:
        child = field.shape
        kept = {
            key: self._scalar(shape, field, field.item, item, path)
            if child is None
            else self.object(child, _entry(shape, field, item, path), f"{path}.{KEY}{key}{KEY}")
            for key, item in sorted(items.items())
        }
        if kept or (shape.name, field.name) in facts.KEPT_EMPTY or path.endswith(facts.LABELS_OF_TEMPLATES):
            return kept
        return None

    def _scalar(self, shape: Shape, field: FieldType, form: str, item: Any, path: str) -> Any:
        if form == "quantity":
            item = "0" if item is None else item
            try:
                return from_json(item)
            except QuantityError as exc:
                raise DecodeError(str(exc)) from exc
        if self._wraps and form == "int" and type(item) in (int, float):
            item = _wrapped(item, go_scalar(form, shape, field))
        allowed = _SCALARS.get(form)
        if item is None and field.form == "map":
            return ""
        if allowed is not None and (type(item) not in allowed):
            raise _mismatch(shape, field, item, path, go_scalar(form, shape, field))
        if form == "time":
            return _time(shape, field, item)
        if form == "bytes":
            _check_base64(item)
        elif form in ("int", "int-or-string") and type(item) is int and not -(1 << 31) <= item < 1 << 31:
            _check_range(shape, field, item, path)
        return item

    def _checked(self, shape: Shape, field: FieldType, item: Any, wanted: type, path: str) -> Any:
        if not isinstance(item, wanted):
            raise _mismatch(shape, field, item, path, go_type(shape, field))
        return item


def _entry(shape: Shape, field: FieldType, item: Any, path: str) -> Obj:
    """Return an entry of a list or map of objects; none at all is an empty one."""
    if item is not None and not isinstance(item, dict):
        raise _mismatch(shape, field, item, path, go_struct(field))
    return item or {}


def _wrapped(item: int | float, wanted: str) -> int | float:
    """Return a number as Go converts it to a type that may be too small; a fraction stays, to be refused."""
    if item != item // 1:
        return item
    whole = int(item) if -(1 << 63) <= item < 1 << 63 else -(1 << 63)
    half = 1 << (31 if wanted == "int32" else 63)
    return (whole + half) % (2 * half) - half


def _check_range(shape: Shape, field: FieldType, item: int, path: str) -> None:
    """Raise for an integer that its Go type cannot hold."""
    wanted = go_scalar(field.item or field.form, shape, field)
    if wanted == "int32" or not -(1 << 63) <= item < 1 << 63:
        raise _mismatch(shape, field, item, path, wanted)


def _time(shape: Shape, field: FieldType, item: str) -> str:
    return read_time(item, micro=(shape.name, field.name) in facts.MICRO_TIMES)


def read_time(text: str, *, micro: bool = False) -> str:
    """Return a time as Kubernetes writes it: in UTC, to the second or microsecond. Raises ``DecodeError``."""
    pattern, layout = (_MICRO_TIME, _MICRO_LAYOUT) if micro else (_TIME, _LAYOUT)
    found = pattern.fullmatch(text)
    if found is None:
        raise DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')
    try:
        moment = datetime.fromisoformat(f"{found[1]}{found[3]}").astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError) as error:
        raise DecodeError(f'parsing time "{text}": day out of range') from error
    return f"{moment.isoformat()}{f'.{found[2][1:]}' if micro else ''}Z"


def _check_base64(text: str) -> None:
    """Raise where Go's decoder of bytes stops: at the first character that is none of base64's, or at a bad end."""
    plain = text.replace("\n", "").replace("\r", "")
    found = _NOT_BASE64.search(plain)
    body = plain.rstrip("=")
    if found is None and len(plain) % 4 == 0 and len(plain) - len(body) < 3 and "=" not in body:
        return
    at = found.start() if found is not None else len(plain) // 4 * 4
    message = f"illegal base64 data at input byte {at}"
    raise DecodeError(message, f"error decoding from json: {message}")


def _mismatch(shape: Shape, field: FieldType, item: Any, path: str, wanted: str) -> DecodeError:
    given = json_name(item)
    if type(item) in (int, float) and wanted.startswith("int"):
        given = f"number {item}"
    where = go_name(shape.name) + "." + _NO_FIELD.sub("", path)
    message = f"json: cannot unmarshal {given} into Go struct field {where} of type {wanted}"
    return DecodeError(message, _conversion(item, wanted))


def json_name(item: Any) -> str:
    """Return a JSON value's type as Go's decoder names it."""
    return _JSON_NAME.get(type(item), "null")


def go_kind(item: Any) -> str:
    """Return the Go type as which a JSON value is read where no type is known."""
    return _GO_KIND[type(item)]


def _conversion(item: Any, wanted: str) -> str:
    """Return what apimachinery's converter of unstructured content says; numbers count as convertible in Go."""
    given = go_kind(item)
    if wanted.startswith(("[]", "map[")):
        return f"cannot restore {wanted.partition('[')[0] or 'slice'} from {given}"
    if "." in wanted:
        return f"cannot restore struct from: {given}"
    numbers = ("int32", "int64", "float64")
    convertible = given in numbers and (wanted in numbers or (wanted == "string" and given == "int64"))
    return f"cannot convert {given} to {wanted}" if convertible else f"unrecognized type: {wanted}"


def go_name(name: str) -> str:
    """``V1PodSpec`` is ``PodSpec`` in Go."""
    return re.sub(r"^(?:[A-Z][a-z]+)?V\d+((alpha|beta)\d+)?", "", name)


def go_type(shape: Shape, field: FieldType) -> str:
    """Return a field's Go type as the JSON decoder names it."""
    if (shape.name, field.name) in facts.GO_TYPES:
        return facts.GO_TYPES[shape.name, field.name]
    inner = go_struct(field) if field.type_name else go_scalar(field.item or field.form, shape, field)
    return {"list": f"[]{inner}", "map": f"map[string]{inner}"}.get(field.form, inner)


def go_struct(field: FieldType) -> str:
    """Return the Go type of an object, or of the entries of a list or map."""
    version = re.search(r"V\d+((alpha|beta)\d+)?", field.type_name)
    return f"{version[0].lower() if version else 'v1'}.{go_name(field.type_name)}"


def go_scalar(form: str, shape: Shape, field: FieldType) -> str:
    """Return the Go type of a scalar, also of one in a list or map."""
    if (shape.name, field.name) in facts.GO_TYPES:
        return facts.GO_TYPES[shape.name, field.name].rpartition("]")[2]
    if form == "int":
        return "int64" if (shape.name, field.name) in facts.INT64 else "int32"
    return _GO.get(form, form)
