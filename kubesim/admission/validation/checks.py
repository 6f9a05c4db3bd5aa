"""The checks of the tables in ``rules/`` that know nothing of a kind: each is a word of that table.

Those of forms that texts and numbers have wherever they occur (ports, addresses, paths, lengths) stand at the end.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from operator import methodcaller
from typing import Any

import orjson

from kubesim import data
from kubesim.admission.validation import metadata
from kubesim.admission.validation.metadata import SUBDOMAIN, dns_errors
from kubesim.admission.validation.rules import CHECKS, PASSING, Check, Place, check, check_of_missing, errors_of
from kubesim.api.addresses import ADDRESS_TEXT, CIDR_TEXT, network, parsed
from kubesim.api.quantity import parse
from kubesim.api.selectors import key_errors, value_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, unsupported
from kubesim.api.status import required as required_value
from kubesim.errors import Obj
from kubesim.schema.paths import dig

PORT_RANGE = "must be between 1 and 65535, inclusive"
WILDCARD = re.compile(r"\*\." + SUBDOMAIN)
WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    rf"regex used for validation is '\*\.{SUBDOMAIN}')"
)
REQUEST = b"-----BEGIN CERTIFICATE REQUEST-----"
MIXED = "may have mixed case, but should otherwise match: "


@check_of_missing
def required(value: Any, where: str, place: Place, text: str = "") -> Iterable[FieldError]:
    """A field that must be there and not be empty; with a condition, an error wherever that holds."""
    return () if value else (required_value(where, text),)


@check_of_missing
def invalid(value: Any, where: str, place: Place, text: str) -> Iterable[FieldError]:
    """A value that is wrong under the rule's condition."""
    return (invalid_value(where, value, text),)


@check_of_missing
def wrong(value: Any, where: str, place: Place, text: str) -> Iterable[FieldError]:
    """A value that is wrong under the rule's condition, and is not shown."""
    return (FieldError(where, "FieldValueInvalid", f"Invalid value: {text}"),)


@check_of_missing
def forbidden(value: Any, where: str, place: Place, text: str) -> Iterable[FieldError]:
    """A field that may not be set under the rule's condition."""
    return (forbidden_field(where, text.replace("{}", str(value))),)


@check
def is_(value: Obj, where: str, place: Place, name: str) -> list[FieldError]:
    """An object of a type with rules of its own."""
    return errors_of("types", name, Place(value, where, place))


@check
def one_of(
    value: Any, where: str, place: Place, choices: Sequence[str], *, always: bool = False
) -> Iterable[FieldError]:
    """One of some values, where it is not empty (``always``: or even there)."""
    return () if value in choices or (value == "" and not always) else (unsupported(where, value, tuple(choices)),)


@check_of_missing
def always_one_of(
    value: Any, where: str, place: Place, choices: Sequence[str], *, nil: bool = False
) -> Iterable[FieldError]:
    """One of some values; the answer names ``nil`` as another."""
    shown = (*choices, "nil") if nil else tuple(choices)
    return () if value in choices else (unsupported(where, value or "", shown),)


@check
def alone(values: list[str], where: str, place: Place, text: str) -> Iterable[FieldError]:
    """A list in which a star stands alone."""
    return (invalid_value(where, values, text),) if len(values) > 1 and "*" in values else ()


@check
def once(values: list[Any], where: str, place: Place) -> Iterator[FieldError]:
    """A list that has no value twice."""
    yield from (duplicate(f"{where}[{at}]", values[at]) for at in sorted(repeated(values)))


@check
def first_of(value: Any, where: str, place: Place, field: str) -> Iterable[FieldError]:
    """A field of a list's entry that no entry before it has the same."""
    return (duplicate(where, value),) if is_repeated(place, field, value) else ()


def is_repeated(place: Place, field: str, value: Any) -> bool:
    """Tell whether an entry of a list that comes before the one at a place has the same in a field."""
    path, _, at = place.path.removesuffix("]").rpartition("[")
    above = place.above
    if above is None or at == "0":
        return False

    def find() -> dict[Any, int]:
        return first_places(entry.get(field) for entry in dig(above.value, path[len(above.path) :].removeprefix(".")))

    first: int = above.known(f"first {field} of {path}", find).get(identity(value), int(at))
    return first < int(at)


def first_places(values: Iterable[Any]) -> dict[Any, int]:
    """Return where each value of a list stands first."""
    first: dict[Any, int] = {}
    for at, value in enumerate(values):
        first.setdefault(identity(value), at)
    return first


def repeated(values: Iterable[Any]) -> set[int]:
    """Return where in a list a value stands that stands before that already."""
    kept = [*values]
    first = first_places(kept)
    return {at for at, value in enumerate(kept) if first[identity(value)] < at}


def identity(value: Any) -> Any:
    """Return a hashable stand-in that is equal exactly for equal values of JSON."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if isinstance(value, dict | list) else value


@check
def least(value: Any, where: str, place: Place, low: int, text: str = "") -> Iterable[FieldError]:
    """A number (where it is one) that is not below another."""
    if not isinstance(value, int) or value >= low:
        return ()
    return (invalid_value(where, value, text or f"must be greater than or equal to {low}"),)


@check
def more_than(value: int, where: str, place: Place, path: str, text: str) -> Iterable[FieldError]:
    """A number that is above another field's."""
    return () if value > (dig(place.value, path) or 0) else (invalid_value(where, value, text),)


@check
def between(value: Any, where: str, place: Place, bounds: Sequence[int], text: str = "") -> Iterable[FieldError]:
    """A number (where it is one) within bounds."""
    low, high = bounds
    if not isinstance(value, int) or low <= value <= high:
        return ()
    return (invalid_value(where, value, text or f"must be between {low} and {high}, inclusive"),)


@check
def matches(value: Any, where: str, place: Place, pattern: str, text: str) -> Iterable[FieldError]:
    """A text (where it is one, and not empty) of a form."""
    fine = not isinstance(value, str) or not value or re.fullmatch(pattern, value)
    return () if fine else (invalid_value(where, value, text),)


@check
def under(value: str, where: str, place: Place, homes: Sequence[str]) -> Iterator[FieldError]:
    """A JSON path that begins in one of some ways."""
    if value and not value.startswith("."):
        yield invalid_value(where, value, "must be a simple json path starting with .")
    elif value and not value.startswith(tuple(homes)):
        home = "either .spec or .status" if len(homes) > 1 else homes[0].rstrip(".")
        yield invalid_value(where, value, f"should be a json path under {home}")


@check
def label(value: str, where: str, place: Place, *, always: bool = False) -> Iterable[FieldError]:
    """A DNS label (``always``: not empty)."""
    return _dns(value, where, "label") if value or always else ()


@check
def subdomain(
    value: str, where: str, place: Place, *, always: bool = False, prefix: bool = False
) -> Iterable[FieldError]:
    """A DNS subdomain (``always``: not empty; ``prefix``: may end in a hyphen, as what names begin with)."""
    asked = f"{value[:-1]}a" if prefix and value.endswith("-") else value
    return _dns(value, where, "subdomain", asked) if value or always else ()


def _dns(value: str, where: str, form: str, asked: str | None = None) -> list[FieldError]:
    wrong = metadata.dns_errors(value if asked is None else asked, form)
    return [invalid_value(where, value, why) for why in wrong]


@check
def name(
    value: str, where: str, place: Place, form: str, *, mixed: bool = False, always: bool = False
) -> Iterator[FieldError]:
    """A DNS name (``mixed``: but for upper case) of which all that is wrong is one error; ``always``: not empty."""
    if (value or always) and (wrong := metadata.dns_errors(value.lower() if mixed else value, form)):
        yield invalid_value(where, value, (MIXED if mixed else "") + ",".join(wrong))


@check
def labels(value: Obj, where: str, place: Place) -> Iterable[FieldError]:
    """A map of labels."""
    return metadata.label_errors(value, where)


@check_of_missing
def port(value: Any, where: str, place: Place) -> Iterable[FieldError]:
    """A port by its number or its name."""
    if isinstance(value, str):
        return [invalid_value(where, value, why) for why in form_errors("port name", value)]
    number = value or 0
    return () if 1 <= number <= 65535 else (invalid_value(where, number, PORT_RANGE),)


@check
def dns(value: str, where: str, place: Place, form: str) -> Iterable[FieldError]:
    """A DNS name of a form (label, dns1035, subdomain), which may not be empty either."""
    return [invalid_value(where, value, why) for why in dns_errors(value, form)]


@check
def no_longer(value: str, where: str, place: Place, most: int) -> Iterable[FieldError]:
    """A text of at most so many bytes."""
    long = FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
    return (long,) if len(value.encode()) > most else ()


@check
def no_more(values: Sequence[Any], where: str, place: Place, most: int) -> Iterable[FieldError]:
    """A list or map of at most so many entries."""
    many = FieldError(where, "FieldValueTooMany", f"Too many: {len(values)}: must have at most {most} items")
    return (many,) if len(values) > most else ()


@check
def barred(value: Any, where: str, place: Place, text: str) -> Iterator[FieldError]:
    """A field that may not be there (under the rule's condition)."""
    yield forbidden_field(where, text)


@check
def at_most(values: list[Any], where: str, place: Place, most: int, text: str) -> Iterator[FieldError]:
    """A list of at most so many entries."""
    if len(values) > most:
        yield invalid_value(where, values, text)


def _host_errors(host: str) -> list[str]:
    """Return what is wrong with the name of a host, which may begin with a star."""
    if "*" not in host:
        return dns_errors(host, "subdomain")
    wrong = ["must be no more than 253 characters"] if len(host) > 253 else []
    return wrong if WILDCARD.fullmatch(host) else [*wrong, WILDCARD_TEXT]


def endpoint_errors(text: str) -> Iterator[str]:
    """Yield what is wrong with an address that something outside of its machine is to send to."""
    found = parsed(text)
    if found is None:
        yield "must be a valid IP address"
        return
    if found.is_unspecified:
        yield f"may not be unspecified ({text})"
    if found.is_loopback:
        yield "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if found.is_link_local:
        yield "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if found in ipaddress.ip_network("224.0.0.0/24" if found.version == 4 else "ff02::/16"):
        yield "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"


@cache
def _forms() -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """Return the patterns of each form with what is said of a text that does not match."""
    table = data.table(__file__, "forms.yaml")
    return {word: [(re.compile(pattern), why) for pattern, why in rules] for word, rules in table.items()}


def form_errors(word: str, text: str) -> list[str]:
    """Return what keeps a text from having a form of the table in forms.yaml."""
    return [why.replace("{}", text) for pattern, why in _forms()[word] if not pattern.fullmatch(text)]


UNASKED = ("port name", "key", "variable")
"""Forms of which nothing is asked where a field is empty."""
TEXTS: dict[str, Callable[[str], Iterable[str]]] = {
    **{word: partial(form_errors, word) for word in _forms()},
    "qualified": key_errors,
    "label value": value_errors,
    "segment": metadata.path_errors,
    "address": lambda text: () if parsed(text) else (ADDRESS_TEXT,),
    "no address": lambda text: ("must be a DNS name, not an IP address",) if parsed(text) else (),
    "range": lambda text: () if network(text) else (CIDR_TEXT,),
    "external address": lambda text: endpoint_errors(text) if parsed(text) else (ADDRESS_TEXT,),
    "endpoint address": endpoint_errors,
    "host name": _host_errors,
    "driver name": lambda text: dns_errors(text.lower(), "subdomain"),
    "handler": dns_errors,
    "request": lambda text: (
        () if REQUEST in base64.b64decode(text) else ("PEM block type must be CERTIFICATE REQUEST",)
    ),
    "positive": lambda text: () if parse(text) > 0 else ("must be positive",),
}
"""Words for texts, and what is wrong with one."""


def _text_check(errors: Callable[[str], Iterable[str]], *, empty: bool) -> Check:
    return lambda value, where, place: [
        invalid_value(where, value, why) for why in (errors(value) if value or empty else ())
    ]


CHECKS.update({word: _text_check(errors, empty=word not in UNASKED) for word, errors in TEXTS.items()})
PASSING[required] = lambda name, *_, **__: methodcaller("get", name)
PASSING[one_of] = lambda name, choices, **_: lambda obj: obj.get(name) in choices
