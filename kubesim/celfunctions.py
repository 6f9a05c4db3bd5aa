"""The functions of Kubernetes' CEL libraries that the package lacks.

The package passes and takes plain values only, so the types of the libraries are plain values here: an address, a
network and a URL are their texts, a quantity is a number; a version, a format and a question to the authorizer are
maps.
``sets`` and ``lists`` are namespaces: a function called on one gets its name first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubesim.api.quantity import QuantityError, parse

NAMESPACES = ("sets", "lists", "strings", "ip", "format")
"""What functions are called on that is no value; an expression knows them as variables that hold their own names."""
Address = IPv4Address | IPv6Address
SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
EDGES = "and must start and end with an alphanumeric character"
FORMATS: dict[str, tuple[str, int, str]] = {
    "dns1123Label": (LABEL, 63, (
        f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {EDGES} "
        "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')")),
    "dns1123Subdomain": (rf"{LABEL}(\.{LABEL})*", 253, (
        f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {EDGES} "
        "(e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')")),
    "dns1035Label": (r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
        "is '[a-z]([-a-z0-9]*[a-z0-9])?')")),
    "labelValue": (rf"({NAME})?", 63, (
        f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {EDGES} "
        "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")),
}  # fmt: skip
"""The pattern of a format, the longest text of it, and what is said of another."""
FORMATS |= {f"{name}Prefix": FORMATS[name] for name in ("dns1123Label", "dns1123Subdomain", "dns1035Label")}


@cache
def _optional() -> Any:
    """Return the package's type of optional values; the package is imported with the first expression."""
    return import_module("cel").OptionalValue


def _substring(text: str, start: int, end: int | None = None) -> str:
    return text[start : len(text) if end is None else end]


def _format(text: str, values: list[Any]) -> str:
    """Return a text with its %s, %d and %v filled in."""
    left = list(values)
    return re.sub(r"%(%|[a-z])", lambda found: "%" if found[1] == "%" else str(left.pop(0)), text)


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if most < 0 else found[:most]


def _index(whole: Any, part: Any, start: int = 0) -> int:
    if isinstance(whole, str):
        return whole.find(part, start)
    return whole.index(part) if part in whole else -1


def _last_index(whole: Any, part: Any) -> int:
    if isinstance(whole, str):
        return whole.rfind(part)
    return len(whole) - 1 - whole[::-1].index(part) if part in whole else -1


def _sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in zip(items, items[1:], strict=False))


def _flat(items: Iterable[Any], depth: int = 1) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found += _flat(item, depth - 1) if isinstance(item, list) and depth else [item]
    return found


def _distinct(items: list[Any]) -> list[Any]:
    return [item for at, item in enumerate(items) if item not in items[:at]]


def _contains(space: str, whole: list[Any], part: list[Any]) -> bool:
    return all(item in whole for item in part)


def _works(call: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Return what tells whether a text is one that ``call`` reads."""

    def works(text: Any) -> bool:
        try:
            call(text)
        except (ValueError, QuantityError):
            return False
        return True

    return works


def _number(text: Any) -> float:
    """Return a quantity as a number, which compares as the quantity does."""
    if not isinstance(text, str):
        return float(text)
    value = Fraction(parse(text))
    return int(value) if value.denominator == 1 else float(value)


def _ip(text: str) -> str:
    """Return an address, or that of a network."""
    address = text.partition("/")[0]
    try:
        found = ip_address(address)
    except ValueError as error:
        why = f'ParseAddr("{address}"): unable to parse IP'
        raise ValueError(f'IP Address "{address}" parse error during conversion from string: {why}') from error
    if "%" in address or getattr(found, "ipv4_mapped", None):
        raise ValueError(f'IP Address "{address}" has a zone, or is of version 4 in version 6')
    return str(found)


def _cidr(text: str) -> str:
    address, _, bits = text.partition("/")
    ip_network(text, strict=False)
    return f"{_ip(address)}/{int(bits)}"


def _within(network: str, other: str) -> bool:
    outer = ip_network(_cidr(network), strict=False)
    inner = ip_network(_cidr(other) if "/" in other else _ip(other), strict=False)
    return outer.version == inner.version and bool(inner.subnet_of(outer))  # type: ignore[arg-type]


def _of_address(test: Callable[[Address], bool]) -> Callable[[str], bool]:
    return lambda text: test(ip_address(text))


def _canonical(*given: str) -> bool:
    return _ip(given[-1]) == given[-1]


def _url(text: str) -> str:
    found = urlsplit(text)
    plain = not re.search(r"[\x00-\x20\x7f]", text)
    if not plain or not (found.scheme and (found.netloc or found.path) or text.startswith("/")):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return text


def _port(text: str) -> str:
    return str(urlsplit(text).port or "")


def _host(text: str) -> str:
    return urlsplit(text).netloc.rpartition("@")[2]


def _hostname(text: str) -> str:
    return (urlsplit(text).hostname or "") if ":" not in _host(text) else _host(text).rpartition(":")[0].strip("[]")


def _semver(text: str) -> dict[str, Any]:
    found = SEMVER.fullmatch(text)
    if found is None:
        raise ValueError(f"No Major.Minor.Patch elements found in {text!r}")
    return {"version": [int(found[at]) for at in (1, 2, 3)], "pre": (found[4] or "").split(".") if found[4] else []}


def _rank(value: Any) -> Any:
    """Return what orders a version or a quantity: a version before another of its numbers if it is a draft of it."""
    if not isinstance(value, dict):
        return value
    draft = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in value["pre"]]
    return value["version"], not draft, draft


def _compare(one: Any, other: Any) -> int:
    first, second = _rank(one), _rank(other)
    return int(first > second) - int(first < second)


def _validate(form: dict[str, Any], text: str) -> Any:
    """Return what is wrong with a text, if anything is."""
    pattern, most, why = FORMATS[form["format"]]
    text = text.removesuffix("-") if form["format"].endswith("Prefix") else text
    wrong = [f"must be no more than {most} characters"] if len(text) > most else []
    wrong += [] if re.fullmatch(pattern, text) else [why]
    return _optional().of(wrong) if wrong else _optional().none()


def _named(name: str) -> Callable[..., dict[str, Any]]:
    return lambda *space: {"format": name}


def _asks(field: str) -> Callable[..., dict[str, Any]]:
    """Return what adds one thing to a question to the authorizer."""

    def asks(question: Any, *values: str) -> dict[str, Any]:
        found = ":".join(values) if field == "account" else values[0]
        return {**question, field: found}

    return asks


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string": lambda value: str(value).lower() if isinstance(value, bool) else str(value),
    "lowerAscii": str.lower, "upperAscii": str.upper, "trim": str.strip, "substring": _substring, "format": _format,
    "split": lambda text, by, *most: text.split(by, *(n - 1 for n in most)) if by else list(text),
    "replace": lambda text, old, new, *most: text.replace(old, new, *most),
    "charAt": lambda text, at: text[at : at + 1],
    "indexOf": _index, "lastIndexOf": _last_index, "find": _find, "findAll": _find_all,
    "join": lambda items, *by: (by[0] if by else "").join(items),
    "reverse": lambda items: items[::-1],
    "quote": lambda space, text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"',
    "isSorted": _sorted, "flatten": _flat, "distinct": _distinct, "sort": sorted,
    "slice": lambda items, start, end: items[start:end],
    "range": lambda space, count: list(range(count)),
    "sum": lambda items: sum(items),
    "min": lambda *items: min(items[0] if len(items) == 1 else items),
    "max": lambda *items: max(items[0] if len(items) == 1 else items),
    "contains": _contains,
    "intersects": lambda space, one, other: any(item in one for item in other),
    "equivalent": lambda space, one, other: _contains(space, one, other) and _contains(space, other, one),
    "quantity": _number, "isQuantity": _works(parse),
    "add": lambda one, other: one + other, "sub": lambda one, other: one - other,
    "asInteger": int, "asApproximateFloat": float, "isInteger": lambda number: float(number).is_integer(),
    "sign": lambda number: (number > 0) - (number < 0),
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "compareTo": _compare,
    "semver": _semver, "isSemver": _works(_semver),
    "major": lambda version: version["version"][0], "minor": lambda version: version["version"][1],
    "patch": lambda version: version["version"][2],
    "ip": _ip, "isIP": _works(_ip), "isCanonical": _canonical,
    "family": lambda text: ip_address(text).version,
    "isUnspecified": _of_address(lambda found: found.is_unspecified),
    "isLoopback": _of_address(lambda found: found.is_loopback),
    "isLinkLocalMulticast": _of_address(lambda found: found.is_multicast and found in ip_network(
        "224.0.0.0/24" if found.version == 4 else "ff02::/16")),
    "isLinkLocalUnicast": _of_address(lambda found: found.is_link_local),
    "isGlobalUnicast": _of_address(lambda found: not (
        found.is_multicast or found.is_loopback or found.is_link_local or found.is_unspecified)),
    "cidr": _cidr, "isCIDR": _works(_cidr), "containsIP": _within, "containsCIDR": _within,
    "prefixLength": lambda text: int(text.partition("/")[2]),
    "masked": lambda text: str(ip_network(text, strict=False)),
    "url": _url, "isURL": _works(_url), "getScheme": lambda text: urlsplit(text).scheme, "getHost": _host,
    "getHostname": _hostname, "getPort": _port, "getEscapedPath": lambda text: urlsplit(text).path,
    "getQuery": lambda text: parse_qs(urlsplit(text).query, keep_blank_values=True),
    **{name: _named(name) for name in FORMATS},
    "named": lambda space, name: _optional().of({"format": name}) if name in FORMATS else _optional().none(),
    "validate": _validate,
    **{name: _asks(name) for name in ("group", "resource", "subresource", "namespace", "name", "path")},
    "serviceAccount": _asks("account"),
    "allowed": lambda decision: decision["allowed"], "reason": lambda decision: decision["reason"],
    "errored": lambda decision: False, "error": lambda decision: "",
}  # fmt: skip
