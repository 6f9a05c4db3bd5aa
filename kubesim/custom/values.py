"""Values and their structural schemas: what is kept and added, how lists merge, and what is wrong with a value.

Errors are in the words of the API server's validator.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import orjson
import re2

from kubesim.api.durations import parse_time
from kubesim.api.status import FieldError, duplicate, invalid_value, required, show
from kubesim.errors import Obj
from kubesim.schema.types import FieldType, Shape, shape_of

ROOT = "<nil>"
BLOCKING = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueNotSupported",
        "FieldValueTypeInvalid",
    }
)
UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
NAMES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
DATE = re.compile(r"\d{4}-\d\d-\d\d")
DURATION = re.compile(r"[+-]?(\d+(\.\d*)?\s*(ns|us|µs|ms|s|m|h|d|w)\s*)+")
UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": lambda text: "T" in text.upper() and parse_time(text),
    "date": DATE.fullmatch,
    "duration": DURATION.fullmatch,
    "uuid": UUID.fullmatch,
}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
MAP_KEYS = "x-kubernetes-list-map-keys"
OWN = ("apiVersion", "kind", "metadata")
FORMS = {"string": "string", "integer": "int", "number": "float", "boolean": "bool"}


def errors_of(value: Any, schema: Obj, path: str = "", old: Any = None) -> Iterator[FieldError]:
    """Yield everything that is wrong with a value, in the order of the API server's validators.

    ``old`` is what it was before a change: nothing is wrong with what stays as it was.
    """
    if (value is None and schema.get("nullable")) or (old is not None and value == old):
        return
    wrong = _type_error(value, schema, path)
    if wrong is not None:
        yield wrong
        return
    yield from _composed(value, schema, path)
    match value:
        case str():
            yield from _text_errors(value, schema, path)
        case int() | float() if not isinstance(value, bool):
            yield from _number_errors(value, schema, path)
        case list():
            yield from _list_errors(value, schema, path, old)
    if schema.get("enum") is not None and value not in schema["enum"]:
        yield _not_supported(value, schema["enum"], path)
    if isinstance(value, dict):
        yield from _object_errors(value, schema, path, old)


def list_errors(value: Any, schema: Obj, path: str = "") -> Iterator[FieldError]:
    """Yield an error for every entry of a set or keyed list that repeats another."""
    if isinstance(value, dict):
        extra = schema.get("additionalProperties")
        for name, item in sorted(value.items()):
            inner = schema.get("properties", {}).get(name, extra if isinstance(extra, dict) else {})
            yield from list_errors(item, inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield from _repeated(value, schema, path)
        for at, item in enumerate(value):
            yield from list_errors(item, schema.get("items") or {}, f"{path}[{at}]")


def _repeated(items: list[Any], schema: Obj, path: str) -> Iterator[FieldError]:
    kind, keys, seen = schema.get(LIST_TYPE), schema.get(MAP_KEYS) or (), set()
    for at, item in enumerate(items if kind in ("set", "map") else ()):
        shown = {key: item.get(key) for key in keys if key in item} if kind == "map" else item
        known = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
        if known in seen:
            yield duplicate(f"{path}[{at}]", shown)
        seen.add(known)


def type_name(value: Any) -> str:
    """Return a value's type as the validator names it."""
    return NAMES.get(type(value), "object")


def _type_error(value: Any, schema: Obj, path: str) -> FieldError | None:
    wanted = ["integer", "string"] if schema.get(INT_OR_STRING) else [schema["type"]] if schema.get("type") else []
    found = type_name(value)
    whole = found == "number" and float(value).is_integer()
    if (
        not wanted
        or found in wanted
        or (found == "integer" and "number" in wanted)
        or (whole and "integer" in wanted)
    ):
        return None
    return _wrong_type(path, found, ",".join(wanted), found)


def _wrong_type(path: str, found: Any, wanted: str, shown: str) -> FieldError:
    at = path or ROOT
    text = f'Invalid value: {show(found)}: {path} in body must be of type {wanted}: "{shown}"'
    return FieldError(at, "FieldValueTypeInvalid", text)


def _invalid(path: str, value: Any, why: str) -> FieldError:
    return invalid_value(path or ROOT, value, f"{path} in body {why}")


def _not_supported(value: Any, choices: list[Any], path: str) -> FieldError:
    known = ", ".join(show(choice) for choice in choices)
    return FieldError(
        path or ROOT, "FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {known}"
    )


def _composed(value: Any, schema: Obj, path: str) -> Iterator[FieldError]:
    """Yield what allOf, anyOf, oneOf and not say."""
    for part in schema.get("allOf", ()):
        yield from errors_of(value, part, path)
    if options := schema.get("anyOf"):
        tried = [list(errors_of(value, part, path)) for part in options]
        if all(tried):
            yield _composition(path, "must validate at least one schema (anyOf)")
            yield from min(tried, key=len)
    if options := schema.get("oneOf"):
        tried = [list(errors_of(value, part, path)) for part in options]
        valid = sum(not errors for errors in tried)
        if valid != 1:
            found = f"Found {valid} valid alternatives" if valid else "Found none valid"
            yield _composition(path, f"must validate one and only one schema (oneOf). {found}")
            yield from () if valid else min(tried, key=len)
    if schema.get("not") is not None and not list(errors_of(value, schema["not"], path)):
        yield _composition(path, "must not validate the schema (not)")


def _composition(path: str, why: str) -> FieldError:
    return invalid_value(ROOT, "", f'"{path}" {why}')


def too_long(most: int) -> str:
    """Return what is said of a text that is longer than it may be."""
    return f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}"


def _text_errors(value: str, schema: Obj, path: str) -> Iterator[FieldError]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(value) > longest:
        yield FieldError(path or ROOT, "FieldValueTooLong", too_long(longest))
    if shortest is not None and len(value) < shortest:
        yield _invalid(path, value, f"should be at least {shortest} chars long")
    if (pattern := schema.get("pattern")) and not _pattern(pattern).search(value):
        yield _invalid(path, value, f"should match '{pattern}'")
    known = FORMATS.get(schema.get("format", ""))
    if known is not None and not known(value):
        yield _wrong_type(path, value, schema["format"], value)


@lru_cache(1024)
def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern of Go's syntax, which takes no longer than the text is long."""
    found: re.Pattern[str] = re2.compile(text)
    return found


def _number_errors(value: float, schema: Obj, path: str) -> Iterator[FieldError]:
    most, least, step = schema.get("maximum"), schema.get("minimum"), schema.get("multipleOf")
    if step is not None and Decimal(str(value)) % Decimal(str(step)) != 0:
        yield _invalid(path, value, f"should be a multiple of {step}")
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        yield _invalid(
            path, value, f"should be less than {'' if schema.get('exclusiveMaximum') else 'or equal to '}{most}"
        )
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        words = "greater than " if schema.get("exclusiveMinimum") else "greater than or equal to "
        yield _invalid(path, value, f"should be {words}{least}")


def _list_errors(value: list[Any], schema: Obj, path: str, old: Any) -> Iterator[FieldError]:
    items = schema.get("items")
    before = entries_before(old, schema)
    for at, item in enumerate(value if isinstance(items, dict) else ()):
        yield from errors_of(item, items or {}, f"{path}[{at}]", before(item))
    yield from _count_errors(len(value), schema.get("minItems"), schema.get("maxItems"), path, "items")


def entries_before(old: Any, schema: Obj) -> Callable[[Any], Any]:
    """Return what finds the entry of a keyed list that an entry was before."""
    keys = schema.get(MAP_KEYS)
    if not keys or schema.get(LIST_TYPE) != "map" or not isinstance(old, list):
        return lambda item: None

    def key_of(item: Obj) -> bytes:
        return orjson.dumps([item.get(key) for key in keys], option=orjson.OPT_SORT_KEYS)

    known: dict[bytes, Obj] = {}
    for other in old:
        if isinstance(other, dict):
            known.setdefault(key_of(other), other)
    return lambda item: known.get(key_of(item)) if isinstance(item, dict) else None


def _object_errors(value: Obj, schema: Obj, path: str, old: Any) -> Iterator[FieldError]:
    yield from _count_errors(len(value), schema.get("minProperties"), schema.get("maxProperties"), path, "properties")
    extra = schema.get("additionalProperties")
    for name, item in sorted(value.items()):
        inner = schema.get("properties", {}).get(name, extra if isinstance(extra, dict) else None)
        if inner is not None:
            before = old.get(name) if isinstance(old, dict) else None
            yield from errors_of(item, inner, f"{path}.{name}" if path else name, before)
    for name in schema.get("required", ()):
        if name not in value:
            yield required(f"{path}.{name}" if path else name)
    if schema.get(EMBEDDED):
        for name in ("apiVersion", "kind"):
            if name not in value:
                yield required(f"{path}.{name}")


def _count_errors(count: int, least: int | None, most: int | None, path: str, what: str) -> Iterator[FieldError]:
    if most is not None and count > most:
        text = f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}"
        yield FieldError(path or ROOT, "FieldValueTooMany", text)
    if least is not None and count < least:
        yield _invalid(path, count, f"should have at least {least} {what}")


class OpenShape(Shape):
    """A type that takes more fields than it names."""

    open = True


@dataclass(slots=True)
class CustomField(FieldType):
    """A field whose type is not in the table of types but hangs on the field itself."""

    own: Shape | None = None

    @property
    def shape(self) -> Shape | None:
        """The type of the object, or of a list's or map's items."""
        return shape_of(self.type_name) if self.type_name else self.own

    @property
    def key_defaults(self) -> dict[str, Any]:
        """Return the default of a key of a list's entry: nothing, for schemas want it said."""
        return {}


def prune(value: Any, schema: Obj, path: str, unknown: list[str], *, whole: bool = False) -> Any:
    """Return a copy of a value with only what its schema knows; the paths of the rest go into ``unknown``.

    ``whole``: the value is an object of the API, whose apiVersion, kind and metadata no schema needs to name.
    """
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return copy.deepcopy(value)
        return [prune(item, items, f"{path}[{at}]", unknown) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    own = OWN if whole or schema.get(EMBEDDED) else ()
    kept = {}
    for name, item in sorted(value.items()):
        here = f"{path}.{name}" if path else name
        inner = _schema_of(schema, name)
        if inner is not None and name not in own:
            if item is not None or inner.get("nullable") or not inner:
                kept[name] = prune(item, inner, here, unknown)
            elif "default" in inner:
                kept[name] = copy.deepcopy(inner["default"])
        elif schema.get(PRESERVE) or name in own:
            kept[name] = copy.deepcopy(item)
        else:
            unknown.append(here)
    return kept


def _schema_of(schema: Obj, name: str) -> Obj | None:
    """Return the schema of a property, or None for one that the schema does not know."""
    found = schema.get("properties", {}).get(name)
    if found is not None:
        inner: Obj = found
        return inner
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        return extra
    return {PRESERVE: True, "nullable": True} if extra is True else None


def add_defaults(value: Any, schema: Obj) -> None:
    """Set in place what the schema has a default for."""
    if isinstance(value, list):
        for item in value:
            add_defaults(item, schema.get("items") or {})
    if not isinstance(value, dict):
        return
    for name, inner in schema.get("properties", {}).items():
        if name not in value and "default" in inner:
            value[name] = copy.deepcopy(inner["default"])
    for name, item in value.items():
        add_defaults(item, _schema_of(schema, name) or {})


def shape_from(schema: Obj, name: str, *, whole: bool = False) -> Shape:
    """Return how objects of a schema merge, as a type like those of the table."""
    fields = {key: _field(key, inner) for key, inner in schema.get("properties", {}).items()}
    if whole or schema.get(EMBEDDED):
        for own in ("apiVersion", "kind"):
            fields[own] = CustomField(own, "string")
        fields["metadata"] = CustomField("metadata", "object", type_name="V1ObjectMeta")
    return OpenShape(name, fields) if schema.get(PRESERVE) else Shape(name, fields)


def _field(name: str, schema: Obj) -> FieldType:
    match schema.get("type"):
        case "object" if schema.get("properties") or schema.get(EMBEDDED) or schema.get(PRESERVE):
            return CustomField(name, "object", own=shape_from(schema, ""))
        case "object":
            return _map(name, schema)
        case "array":
            return _list(name, schema)
        case form:
            return CustomField(name, FORMS.get(str(form), "any"))


def _map(name: str, schema: Obj) -> FieldType:
    extra = schema.get("additionalProperties")
    if not isinstance(extra, dict):
        return CustomField(name, "map", item="any")
    inner = _field("", extra)
    return CustomField(name, "map", item=inner.form, own=inner.shape)


def _list(name: str, schema: Obj) -> FieldType:
    inner = _field("", schema.get("items") or {})
    list_type = schema.get(LIST_TYPE, "atomic")
    keys = tuple(schema.get(MAP_KEYS) or ("",)) if list_type == "map" else ()
    return CustomField(
        name,
        "list",
        item=inner.form,
        list_type=list_type,
        keys=keys,
        merge_key=keys[0] if keys else "",
        primitive=list_type == "set",
        own=inner.shape,
    )
