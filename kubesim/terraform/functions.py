"""The functions of the language; ``functions.yaml`` has their names and parameters."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ipaddress
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import yaml

from kubesim import data
from kubesim.terraform.diagnostics import said
from kubesim.terraform.formats import MAX_RESULT, MAX_WIDTH, TOO_LONG, CallError, formatted, json_text
from kubesim.terraform.values import (
    ANY,
    ConvertError,
    List,
    Map,
    Set,
    Type,
    Unknown,
    convert,
    equal,
    known,
    made,
    plain,
    type_name,
    type_of,
)  # fmt: skip

table: data.Reader[dict[str, Any]] = data.beside(__file__, "functions.yaml")
MAX_PRODUCT = 100_000
KINDS: dict[str, Type] = {"s": "string", "n": "number", "b": "bool", "S": ["list", "string"]}


@dataclass(frozen=True)
class Function:
    """A function: names, kinds and numbers of its parameters, and what it does."""

    params: tuple[tuple[str, str, str], ...]
    run: Callable[..., Any]
    result: Type
    open: bool
    scoped: bool


def call(function: Function, name: str, values: list[Any], scope: Any) -> Any:
    """Return what a function makes of values. Raises CallError."""
    _check_count(function, name, len(values))
    if function.open:
        return function.run(*values)
    if not all(map(known, values)):
        return Unknown(function.result)
    values = [_converted(function, at, value) for at, value in enumerate(values)]
    try:
        found = function.run(*([scope] if function.scoped else []), *values)
    except (ConvertError, OverflowError, ValueError) as error:
        raise CallError(str(error)) from error
    if isinstance(found, str) and len(found) > MAX_RESULT:
        raise CallError(TOO_LONG)
    return found


def _check_count(function: Function, name: str, count: int) -> None:
    least, params = sum(1 for each in function.params if not each[2]), function.params
    if count < least:
        text = f'Function "{name}" expects {least} argument(s). Missing value for "{params[count][0]}".'
        raise CallError(text, summary="Not enough function arguments")
    if count > len(params) and not (params and params[-1][2] == "*"):
        text = f'Function "{name}" expects only {len(params)} argument(s).'
        raise CallError(text, summary="Too many function arguments")


def _converted(function: Function, at: int, value: Any) -> Any:
    name, kind, _ = function.params[min(at, len(function.params) - 1)]
    try:
        if value is None and kind != "a":
            raise ConvertError("argument must not be null")
        if kind == "l" and not isinstance(value, list):
            raise ConvertError("list of any single type required")
        if kind == "m" and not isinstance(value, dict):
            raise ConvertError("map of any single type required")
        return convert(value, KINDS[kind]) if kind in KINDS else value
    except ConvertError as error:
        raise CallError(str(error), at, name) from error


def _like(model: Any, items: Any) -> Any:
    """Return items as a list of the kind of another, or a tuple."""
    return made(List, model.elem, items) if isinstance(model, List | Set) else [*items]


def _yamldecode(text: str) -> Any:
    try:
        return _of_yaml(yaml.safe_load(text), itertools.count())
    except (yaml.YAMLError, RecursionError) as error:
        raise CallError(str(error).splitlines()[0], 0, "src") from error


def _of_yaml(value: Any, counted: Iterator[int]) -> Any:
    """Return a value of YAML in the kinds of the language; with its aliases it may be far larger than its text."""
    if next(counted) > MAX_PRODUCT:
        raise CallError("the result has too many elements")
    if isinstance(value, dict):
        words = (key if isinstance(key, str) else json.dumps(key, default=str) for key in value)
        return {word: _of_yaml(item, counted) for word, item in zip(words, value.values(), strict=True)}
    if isinstance(value, list):
        return [_of_yaml(item, counted) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _no_number(text: str) -> NoReturn:
    raise CallError(f"invalid character '{text[0]}' looking for beginning of value", 0, "str")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise CallError(f"invalid regexp pattern: {error}", 0, "pattern") from error


def _matched(found: re.Match[str] | None) -> Any:
    if found is None:
        raise CallError("pattern did not match any part of the given string")
    if found.re.groupindex:
        return {name: found[name] for name in sorted(found.re.groupindex)}
    return [*found.groups()] if found.re.groups else found[0]


def _replace(text: str, part: str, other: str) -> str:
    if len(part) > 1 and part[0] == part[-1] == "/":
        return _compiled(part[1:-1]).sub(re.sub(r"\$\{?(\w+)\}?", r"\\g<\1>", other), text)
    if text.count(part) * len(other) > MAX_RESULT:
        raise CallError(TOO_LONG)
    return text.replace(part, other)


def _lookup(held: dict[str, Any], key: str, *default: Any) -> Any:
    if key not in held and not default:
        raise CallError(f"lookup failed to find key {json.dumps(key)}")
    return held[key] if key in held else default[0]


def _as_open(work: Callable[[Any], Any], result: Type) -> Callable[[Any], Any]:
    """Return a function of a value that may not be known at all."""
    return lambda value: Unknown(result) if isinstance(value, Unknown) else work(value)


def _merge(*maps: Any) -> Any:
    for at, each in enumerate(maps):
        if isinstance(each, Unknown):
            return Unknown()
        if each is not None and not isinstance(each, dict):
            raise CallError(f'arguments must be maps or objects, got "{type_name(type_of(each))}"', at, "maps")
    found: Any = dict(sorted((key, item) for each in maps for key, item in (each or {}).items()))
    found |= {key: item for each in maps for key, item in (each or {}).items()}
    if maps and all(isinstance(each, Map) for each in maps if each is not None):
        found = made(Map, next((each.elem for each in maps if each), ANY), found)
    return found


def _length(raw: Any) -> int:
    if not isinstance(raw, str | list | dict):
        raise CallError("argument must be a string, a collection type, or a structural type", 0, "value")
    return len(raw)


def _keys(raw: Any) -> Any:
    if not isinstance(raw, dict):
        raise CallError("must have map or object type", 0, "inputMap")
    return made(List, "string", sorted(raw)) if isinstance(raw, Map) else sorted(raw)


def _values(held: dict[str, Any]) -> Any:
    items = [held[key] for key in sorted(held)]
    return made(List, held.elem, items) if isinstance(held, Map) else items


def _coalesce(*values: Any) -> Any:
    for value in values:
        if isinstance(value, Unknown) or value not in (None, ""):
            return value
    raise CallError("no non-null, non-empty-string arguments")


def _concat(*lists: Any) -> Any:
    items = [item for each in lists for item in each]
    model = next((each for each in lists if each), None)
    return _like(model if all(isinstance(each, List) for each in lists) else None, items)


def _flatten(items: list[Any]) -> list[Any]:
    return [inner for item in items for inner in (_flatten(item) if isinstance(item, list) else [item])]


def _element(items: list[Any], at: Any) -> Any:
    if not items:
        raise CallError("cannot use element function with an empty list")
    return items[int(at) % len(items)]


def _slice(items: list[Any], start: int, end: int) -> Any:
    if end > len(items):
        raise CallError("end index must not be greater than the length of the list", 2, "end_index")
    if not 0 <= start <= end:
        raise CallError("start index must not be greater than end index", 1, "start_index")
    return _like(items, items[start:end])


def _range(*given: float) -> Any:
    start, end = (0.0, given[0]) if len(given) == 1 else given[:2]
    step = given[2] if len(given) > 2 else 1 if end >= start else -1
    if step == 0 or abs(end - start) / abs(step) > 1024:
        raise CallError("more than 1024 values were generated" if step else "step must not be zero")
    count = max(math.ceil((end - start) / step), 0)
    found = [start + at * step for at in range(count)]
    return made(List, "number", [int(each) if float(each).is_integer() else each for each in found])


def _one(items: Any) -> Any:
    if len(items) > 1:
        raise CallError("must be a list, set, or tuple value with either zero or one elements", 0, "list")
    return items[0] if items else None


def _code(item: Any) -> str:
    return json.dumps(plain(item), sort_keys=True)


def _sets(choose: Callable[[list[set[str]]], set[str]]) -> Callable[..., Any]:
    def run(*sets: Any) -> Any:
        held = {_code(item): item for each in sets for item in each}
        chosen = choose([{_code(item) for item in each} for each in sets])
        elem = type_of(next(iter(held.values()))) if held else ANY
        return made(Set, elem, [held[key] for key in held if key in chosen])

    return run


def _cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    if "/" in text:
        with contextlib.suppress(ValueError):
            return ipaddress.ip_network(text, strict=False)
    raise CallError(f"invalid CIDR expression: invalid CIDR address: {text}")


def _cidrhost(prefix: str, number: int) -> str:
    net = _cidr(prefix)
    if not -net.num_addresses <= number < net.num_addresses:
        raise CallError(f"prefix of {net.prefixlen} does not accommodate a host numbered {number}")
    return str(net[number])


def _cidrsubnet(prefix: str, bits: int, number: int) -> str:
    net = _cidr(prefix)
    if not 0 <= bits <= net.max_prefixlen - net.prefixlen:
        raise CallError(f"insufficient address space to extend prefix of {net.prefixlen} by {bits}")
    if not 0 <= number < 1 << bits:
        raise CallError(f"prefix extension of {bits} does not accommodate a subnet numbered {number}")
    base = int(net.network_address) + (number << (net.max_prefixlen - net.prefixlen - bits))
    return f"{ipaddress.ip_address(base)}/{net.prefixlen + bits}"


def _read(scope: Any, path: str) -> str:
    try:
        return str(scope.names.read(path))
    except ValueError as error:
        raise CallError(str(error), 0, "path") from error


def _templatefile(scope: Any, path: str, given: dict[str, Any]) -> Any:
    return scope.rendered(_read(scope, path), given, path)


def _to(kind: Type) -> Callable[[Any], Any]:
    def run(raw: Any) -> Any:
        try:
            found = convert(raw, kind)
        except ConvertError as error:
            text = f"cannot convert {type_name(type_of(raw))} to {type_name(kind).removesuffix(' of dynamic')}"
            if kind == "number" and isinstance(raw, str):
                text = said("cannot_convert_it_to_number", it=json.dumps(raw))
            raise CallError(text, 0, "v") from error
        if isinstance(found, List | Set | Map) and found.elem == ANY and found:
            found.elem = type_of(next(iter(found.values() if isinstance(found, dict) else found)))
        return found

    return _as_open(run, kind)


def _contains(items: Any, wanted: Any) -> Any:
    if isinstance(items, Unknown) or isinstance(wanted, Unknown):
        return Unknown("bool")
    if any(equal(item, wanted) for item in items if known(item)):
        return True
    return False if known(items) else Unknown("bool")


def _substr(text: str, start: int, length: int) -> str:
    start = start if start >= 0 else max(len(text) + start, 0)
    return text[start:] if length < 0 else text[start : start + length]


def _join(separator: str, *lists: list[str]) -> str:
    return separator.join(item for each in lists for item in each)


RUN: dict[str, Callable[..., Any]] = {
    "abs": abs, "ceil": math.ceil, "floor": math.floor, "max": max, "min": min,
    "alltrue": lambda items: all(convert(item, "bool") for item in items),
    "anytrue": lambda items: any(convert(item, "bool") for item in items),
    "base64decode": lambda s: base64.b64decode(s, validate=True).decode(),
    "base64encode": lambda s: base64.b64encode(s.encode()).decode(), "endswith": str.endswith,
    "startswith": str.startswith, "strcontains": lambda s, part: part in s, "format": formatted, "join": _join,
    "lower": str.lower, "upper": str.upper, "indent": lambda n, s: s.replace("\n", "\n" + " " * min(n, MAX_WIDTH)),
    "regex": lambda p, s: _matched(_compiled(p).search(s)),
    "replace": _replace,
    "split": lambda p, s: made(List, "string", s.split(p) if p else [*s]), "substr": _substr, "trim": str.strip,
    "trimprefix": str.removeprefix, "trimsuffix": str.removesuffix, "trimspace": str.strip, "concat": _concat,
    "element": _element, "flatten": _flatten,
    "compact": lambda items: made(List, "string", [item for item in items if item]),
    "distinct": lambda items: _like(items, {_code(item): item for item in reversed(items)}.values())[::-1],
    "lookup": _lookup, "one": _one, "range": _range, "reverse": lambda items: _like(items, items[::-1]),
    "setintersection": _sets(lambda sets: set.intersection(*sets)), "setunion": _sets(lambda sets: set.union(*sets)),
    "setsubtract": _sets(lambda sets: sets[0] - sets[1]), "slice": _slice,
    "sort": lambda items: made(List, "string", sorted(items, key=str.encode)), "values": _values,
    "jsondecode": lambda s: json.loads(s, parse_constant=_no_number), "jsonencode": json_text,
    "yamldecode": _yamldecode,
    "dirname": lambda path: path.rpartition("/")[0] or ".",
    "basename": lambda path: path.rpartition("/")[2], "sha256": lambda s: hashlib.sha256(s.encode()).hexdigest(),
    "cidrhost": _cidrhost, "cidrsubnet": _cidrsubnet, "merge": _merge, "length": _as_open(_length, "number"),
    "keys": _as_open(_keys, ["list", "string"]), "coalesce": _coalesce, "contains": _contains, "tobool": _to("bool"),
    "tonumber": _to("number"), "tostring": _to("string"), "tolist": _to(["list", ANY]), "tomap": _to(["map", ANY]),
    "toset": _to(["set", ANY]), "uuid": lambda: Unknown("string"), "timestamp": lambda: Unknown("string"),
    "file": _read, "templatefile": _templatefile,
}  # fmt: skip


@cache
def functions() -> dict[str, Function]:
    """Return the functions by name."""
    results = {name: kind for kind, names in table()["results"].items() for name in names}
    found = {}
    for sort in ("plain", "open", "scoped"):
        for name, spec in table()[sort].items():
            words = [word.partition(":") for word in spec.split()]
            params = tuple((word, kind[0], kind[1:]) for word, _, kind in words)
            found[name] = Function(params, RUN[name], results.get(name, ANY), sort == "open", sort == "scoped")
    return found
