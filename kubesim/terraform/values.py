"""Values of the language: what Python has, and kinds of collections and unknown values beside it.

A dict is an object and a list a tuple; ``Map``, ``List`` and ``Set`` know the type of their elements. Types are
written as in a state: "string", ["list", "string"], ["object", {name: type}], here with optional attributes after
that ({name: default}).
"""

from __future__ import annotations

import json
import re
from typing import Any

Type = Any
ANY = "dynamic"
NUMBER = re.compile(r"-?\d{1,100}(\.\d{1,100})?([eE][+-]?\d{1,3})?")


class Unknown:
    """A value that is known after apply."""

    __slots__ = ("type",)

    def __init__(self, kind: Type = ANY) -> None:
        self.type = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown)

    __hash__ = object.__hash__


class Map(dict[str, Any]):
    """A map: its elements are all of one type."""

    elem: Type = ANY


class List(list[Any]):
    """A list."""

    elem: Type = ANY


class Set(list[Any]):
    """A set: each element once, in the order in which Terraform shows them."""

    elem: Type = ANY


KINDS: dict[type, str] = {Map: "tomap", List: "tolist", Set: "toset"}


class ConvertError(Exception):
    """A value that cannot be of a type; the text names the place inside of it."""


def made(kind: type[Any], elem: Type, items: Any) -> Any:
    """Return a collection whose elements have a type."""
    if kind is Set:
        items = distinct(items)
    found = kind(items)
    found.elem = elem
    return found


def distinct(items: Any) -> list[Any]:
    """Return what a set of items holds, in order."""
    found = {json.dumps(plain(item, strict=False), sort_keys=True): item for item in items}
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in found.values())
    return sorted(found.values()) if numbers else [found[key] for key in sorted(found, key=_order)]


def _order(key: str) -> Any:
    return json.loads(key).encode() if key.startswith('"') else key.encode()


def type_of(value: Any) -> Type:
    """Return the type of a value."""
    match value:
        case Unknown():
            return value.type
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case Map() | List() | Set():
            name = {Map: "map", List: "list", Set: "set"}[type(value)]
            elem = value.elem
            if elem == ANY and value:
                elem = type_of(next(iter(value.values() if isinstance(value, dict) else value)))
            return [name, elem]
        case dict():
            return ["object", {key: type_of(item) for key, item in value.items()}]
        case list():
            return ["tuple", [type_of(item) for item in value]]
    return ANY


def type_name(kind: Type) -> str:
    """Return a type as messages name it."""
    if isinstance(kind, str):
        return kind
    if kind[0] in ("object", "tuple"):
        return str(kind[0])
    return f"{kind[0]} of {type_name(kind[1])}"


def known(value: Any) -> bool:
    """Tell whether nothing in a value is unknown."""
    match value:
        case Unknown():
            return False
        case dict():
            return all(map(known, value.values()))
        case list():
            return all(map(known, value))
    return True


def plain(value: Any, *, strict: bool = True) -> Any:
    """Return a value for JSON. Raises ConvertError for what is unknown, unless not strict."""
    match value:
        case Unknown():
            if strict:
                raise ConvertError("a value is known only after apply")
            return "\0unknown"
        case dict():
            return {key: plain(item, strict=strict) for key, item in value.items()}
        case list():
            return [plain(item, strict=strict) for item in value]
    return value


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to ``==``."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and bool(one == other) or (_number(one) and _number(other) and one == other)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of(value: int | float) -> str:
    """Return a number as Terraform writes it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        value = int(value)
    return repr(value) if isinstance(value, float) else str(value)


def convert(value: Any, kind: Type) -> Any:
    """Return a value as one of a type. Raises ConvertError."""
    if kind == ANY or value is None:
        return value
    if isinstance(value, Unknown):
        return Unknown(_clean(kind))
    if isinstance(kind, str):
        return _primitive(value, kind)
    match kind[0]:
        case "list" | "set":
            return _sequence(value, kind)
        case "map":
            return _mapped(value, kind)
        case "object":
            return _object(value, kind)
    if not isinstance(value, list) or len(value) != len(kind[1]):
        raise ConvertError("tuple required")
    return [_within(f"element {at}", item, each) for at, (item, each) in enumerate(zip(value, kind[1], strict=True))]


def _clean(kind: Type) -> Type:
    """Return a type without defaults of optional attributes."""
    if isinstance(kind, str):
        return kind
    if kind[0] == "object":
        return ["object", {name: _clean(each) for name, each in kind[1].items()}]
    return [kind[0], [_clean(each) for each in kind[1]] if kind[0] == "tuple" else _clean(kind[1])]


def _within(place: str, value: Any, kind: Type) -> Any:
    try:
        return convert(value, kind)
    except ConvertError as error:
        raise ConvertError(f"{place}: {error}") from error


def _primitive(value: Any, kind: str) -> Any:
    match kind, value:
        case ("string", str()) | ("bool", bool()):
            return value
        case "string", bool():
            return "true" if value else "false"
        case "string", int() | float():
            return text_of(value)
        case "number", int() | float() if not isinstance(value, bool):
            return value
        case "number", str() if NUMBER.fullmatch(value):
            number = float(value) if re.search(r"[.eE]", value) else int(value)
            return int(number) if isinstance(number, float) and number.is_integer() else number
        case "bool", "true" | "false":
            return value == "true"
    if isinstance(value, list | dict):
        raise ConvertError(f"{kind} required, but have {type_name(type_of(value))}")
    raise ConvertError(f"a {kind} is required")


def _sequence(value: Any, kind: Type) -> Any:
    if not isinstance(value, list):
        raise ConvertError(f"{kind[0]} of {type_name(kind[1])} required" if kind[1] != ANY else f"{kind[0]} required")
    items = [_within(f"element {at}", item, kind[1]) for at, item in enumerate(value)]
    if kind[1] == ANY:
        items = unified(items)
    return made(Set if kind[0] == "set" else List, _clean(kind[1]), items)


def _mapped(value: Any, kind: Type) -> Any:
    if not isinstance(value, dict):
        raise ConvertError(f"map of {type_name(kind[1])} required" if kind[1] != ANY else "map required")
    items = {key: _within(f'element "{key}"', item, kind[1]) for key, item in sorted(value.items())}
    if kind[1] == ANY:
        items = dict(zip(items, unified([*items.values()]), strict=True))
    return made(Map, _clean(kind[1]), items)


def _object(value: Any, kind: Type) -> Any:
    if not isinstance(value, dict):
        raise ConvertError("object required")
    optional = kind[2] if len(kind) > 2 else {}
    missing = [name for name in kind[1] if name not in value and name not in optional]
    if missing:
        words = ("attributes", "are") if len(missing) > 1 else ("attribute", "is")
        raise ConvertError(f"{words[0]} {' and '.join(map(quoted, sorted(missing)))} {words[1]} required")
    given = {name: value.get(name) if value.get(name) is not None else optional.get(name) for name in sorted(kind[1])}
    return {name: _within(f'attribute "{name}"', item, kind[1][name]) for name, item in given.items()}


def unified(items: list[Any]) -> list[Any]:
    """Return items that are all of one type, as elements of a list are. Raises ConvertError."""
    kinds = [type_of(item) for item in items if item is not None]
    simple = {kind for kind in kinds if isinstance(kind, str)} - {ANY}
    if simple and not all(isinstance(kind, str) for kind in kinds):
        raise ConvertError("all elements must have the same type")
    return [convert(item, "string") for item in items] if len(simple) > 1 else items


def common(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the two results of a conditional, both of one type. Raises ConvertError."""
    kinds = [type_of(one), type_of(other)]
    if kinds[0] == kinds[1] or ANY in kinds:
        return one, other
    names = [kind if isinstance(kind, str) else kind[0] for kind in kinds]
    for wanted, given in ((0, 1), (1, 0)):
        listed = names[wanted] in ("list", "set", "map") and names[given] in ("tuple", "object", names[wanted])
        if listed or (names[wanted] == "string" and isinstance(kinds[given], str)):
            found = [one, other]
            found[given] = convert(found[given], kinds[wanted])
            return found[0], found[1]
    if names[0] == names[1] and names[0] in ("tuple", "object"):
        return one, other
    raise ConvertError(f"the 'true' value is {type_name(kinds[0])}, but the 'false' value is {type_name(kinds[1])}")


def hcl(value: Any, indent: int = 0) -> str:
    """Return a value as an expression: what ``output`` prints."""
    pad, end = " " * (indent + 2), " " * indent
    match value:
        case Unknown():
            return "(known after apply)"
        case None:
            return "null"
        case str():
            if "\n" in value:
                text = "".join(f"{pad if indent else ''}{line}\n" for line in value.rstrip("\n").split("\n"))
                return f"<<{'-' if indent else ''}EOT\n{text}{end if indent else ''}EOT"
            return quoted(value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return text_of(value)
        case dict():
            items = sorted(value.items())
            rows = "".join(f"{pad}{quoted(key)} = {hcl(item, indent + 2)}\n" for key, item in items)
            text = f"{{\n{rows}{end}}}" if value else "{}"
        case list():
            rows = "".join(f"{pad}{hcl(item, indent + 2)},\n" for item in value)
            text = f"[\n{rows}{end}]" if value else "[]"
    name = next((name for kind, name in KINDS.items() if isinstance(value, kind)), "")
    return f"{name}({text})" if name else text


def quoted(text: str) -> str:
    """Return a text in quotes."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
