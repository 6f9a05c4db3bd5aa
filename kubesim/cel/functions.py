"""The functions of CEL and of Kubernetes' libraries for it.

Of the libraries of Kubernetes those for versions, formats and the formatting of texts are missing.
The types of the libraries are plain values here: an address, a network and a URL are their texts, a quantity is a
number; a question to the authorizer is a map.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubesim.api.quantity import QuantityError, parse
from kubesim.cel.standard import STANDARD, pattern
from kubesim.cel.values import NONE, CelError, Optional, check_size, equal

NAMESPACES = ("sets", "ip", "optional")
"""What functions are called on that is no value; their names begin with it in the table."""
Address = IPv4Address | IPv6Address
_NO_NETWORK = "network address parse error during conversion from string: " * 2 + 'netip.ParsePrefix("{}"): {}'


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if start > last and 0 <= start <= len(text):
        raise CelError(f"invalid substring range. start: {start}, end: {last}")
    for at in (start, last):
        _bounded(at, len(text))
    return text[start:last]


def _character(text: str, at: int) -> str:
    _bounded(at, len(text))
    return text[at : at + 1]


def _bounded(at: int, most: int) -> None:
    if not 0 <= at <= most:
        raise CelError(f"index out of range: {at}")


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    check_size(len(text) + len(new) * (text.count(old) if most < 0 else min(most, text.count(old))))
    return text.replace(old, new, most)


def _join(items: list[str], by: str = "") -> str:
    check_size(sum(map(len, items)) + len(by) * len(items))
    return by.join(items)


def _find(text: str, wanted: str) -> str:
    found = pattern(wanted).search(text)
    return str(found[0]) if found else ""


def _find_all(text: str, wanted: str, most: int = -1) -> list[str]:
    found = [match[0] for match in pattern(wanted).finditer(text)]
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


def _is_in(item: Any, whole: list[Any]) -> bool:
    return any(equal(item, other) for other in whole)


def _contains(whole: list[Any], part: list[Any]) -> bool:
    return all(_is_in(item, whole) for item in part)


def _extreme(name: str, best: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def function(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return best(items)

    return function


def _works(call: Callable[..., Any]) -> Callable[..., bool]:
    """Return what tells whether a text is one that ``call`` reads."""

    def works(text: Any, *how: Any) -> bool:
        try:
            call(text, *how)
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


def _as_integer(number: float) -> int:
    if not float(number).is_integer():
        raise CelError("cannot convert value to integer")
    return int(number)


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
    address, slash, bits = text.partition("/")
    try:
        found = ip_address(address)
    except ValueError as error:
        why = f'ParseAddr("{address}"): unable to parse IP' if slash else "no '/'"
        raise CelError(_NO_NETWORK.format(text, why)) from error
    if not re.fullmatch(r"0|[1-9]\d*", bits):
        raise CelError(_NO_NETWORK.format(text, f'bad bits after slash: "{bits}"' if slash else "no '/'"))
    if int(bits) > found.max_prefixlen:
        raise CelError(_NO_NETWORK.format(text, "prefix length out of range"))
    return f"{_ip(address)}/{int(bits)}"


def _within(network: str, other: str) -> bool:
    outer = ip_network(_cidr(network), strict=False)
    inner = ip_network(_cidr(other) if "/" in other else _ip(other), strict=False)
    return outer.version == inner.version and bool(inner.subnet_of(outer))  # type: ignore[arg-type]


def _of_address(test: Callable[[Address], bool]) -> Callable[[str], bool]:
    return lambda text: test(ip_address(text))


def _canonical(text: str) -> bool:
    return _ip(text) == text


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


def _asks(field: str) -> Callable[..., dict[str, Any]]:
    """Return what adds one thing to a question to the authorizer."""

    def asks(question: Any, *values: str) -> dict[str, Any]:
        found = ":".join(values) if field == "account" else values[0]
        return {**question, field: found}

    return asks


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **STANDARD,
    "lowerAscii": str.lower, "upperAscii": str.upper, "trim": str.strip, "substring": _substring,
    "split": lambda text, by, *most: text.split(by, *(n - 1 for n in most)) if by else list(text),
    "replace": _replace,
    "charAt": _character,
    "indexOf": _index, "lastIndexOf": _last_index, "find": _find, "findAll": _find_all,
    "join": _join,
    "isSorted": _sorted,
    "first": lambda items: Optional(True, items[0]) if items else NONE,
    "last": lambda items: Optional(True, items[-1]) if items else NONE,
    "sum": lambda items: sum(items[1:], items[0]) if items else 0,
    "min": _extreme("min", min), "max": _extreme("max", max),
    "sets.contains": _contains,
    "sets.intersects": lambda one, other: any(_is_in(item, one) for item in other),
    "sets.equivalent": lambda one, other: _contains(one, other) and _contains(other, one),
    "quantity": _number, "isQuantity": _works(parse),
    "add": lambda one, other: one + other, "sub": lambda one, other: one - other,
    "asInteger": _as_integer, "asApproximateFloat": float, "isInteger": lambda number: float(number).is_integer(),
    "sign": lambda number: (number > 0) - (number < 0),
    "isGreaterThan": lambda one, other: one > other, "isLessThan": lambda one, other: one < other,
    "compareTo": lambda one, other: (one > other) - (one < other),
    "ip": _ip, "isIP": _works(_ip), "ip.isCanonical": _canonical,
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
    **{name: _asks(name) for name in ("group", "resource", "subresource", "namespace", "name", "path",
                                      "fieldSelector", "labelSelector")},
    "serviceAccount": _asks("account"),
    "allowed": lambda decision: decision["allowed"], "reason": lambda decision: decision["reason"],
    "errored": lambda decision: False, "error": lambda decision: "",
}  # fmt: skip
