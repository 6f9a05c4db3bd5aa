"""The checks of the tables in ``rules/`` that know nothing of a kind: each is a word of that table.

Those of forms that texts and numbers have wherever they occur (ports, addresses, paths, lengths) stand at the end.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import methodcaller
from typing import Any

import orjson

from kubesim.admission.validation import metadata
from kubesim.admission.validation.metadata import SUBDOMAIN, dns_errors
from kubesim.admission.validation.rules import PASSING, Place, check, check_of_missing, errors_of
from kubesim.api.addresses import ADDRESS_TEXT, network, parsed, strict_range_errors
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, unsupported
from kubesim.api.status import required as required_value
from kubesim.errors import Obj
from kubesim.schema.paths import dig

PORT_LETTERS = re.compile(r"[-a-z0-9]+")
PORT_LETTER = re.compile(r"[a-z]")
PORT_RANGE = "must be between 1 and 65535, inclusive"
WILDCARD = re.compile(r"\*\." + SUBDOMAIN)
WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    rf"regex used for validation is '\*\.{SUBDOMAIN}')"
)
ONE_EACH = "may specify no more than one IP for each IP family"
HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
PREFIXED = 'must be a domain-prefixed path (such as "acme.io/foo")'
HIGHEST_MODE = 0o777
LONGEST_KEY = 253
KEY = re.compile(r"[-._a-zA-Z0-9]+")
KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
VARIABLE = re.compile(r"[ -<>-~]+")
VARIABLE_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
HEADER = re.compile(r"[-A-Za-z0-9]+")
HEADER_RULE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
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
def each_of(values: list[Any], where: str, place: Place, choices: Sequence[str]) -> Iterable[FieldError]:
    """A list each of whose values is one of these; the error names the list."""
    return [unsupported(where, value, tuple(choices)) for value in values if value not in choices]


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
def qualified(value: str, where: str, place: Place) -> Iterable[FieldError]:
    """A name as labels have them, with or without a domain."""
    return [invalid_value(where, value, why) for why in key_errors(value)]


@check
def segment(value: str, where: str, place: Place) -> Iterable[FieldError]:
    """A name that can be part of a path."""
    return [invalid_value(where, value, why) for why in metadata.path_errors(value)]


@check
def labels(value: Obj, where: str, place: Place) -> Iterable[FieldError]:
    """A map of labels."""
    return metadata.label_errors(value, where)


@check
def port_name(value: str, where: str, place: Place) -> Iterable[FieldError]:
    """The name of a port as IANA registers them."""
    return [invalid_value(where, value, why) for why in port_name_errors(value)] if value else ()


def port_name_errors(name: str) -> Iterator[str]:
    """Yield what keeps a text from being the name of a port."""
    if len(name) > 15:
        yield "must be no more than 15 characters"
    if not PORT_LETTERS.fullmatch(name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not PORT_LETTER.search(name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name[:1] == "-" or name[-1:] == "-":
        yield "must not begin or end with a hyphen"


@check_of_missing
def port(value: Any, where: str, place: Place) -> Iterable[FieldError]:
    """A port by its number or its name."""
    if isinstance(value, str):
        return [invalid_value(where, value, why) for why in port_name_errors(value)]
    number = value or 0
    return () if 1 <= number <= 65535 else (invalid_value(where, number, PORT_RANGE),)


@check
def address(text: str, where: str, place: Place) -> Iterator[FieldError]:
    """An address of any family."""
    if parsed(text) is None:
        yield invalid_value(where, text, ADDRESS_TEXT)


@check
def endpoint_address(text: str, where: str, place: Place) -> Iterator[FieldError]:
    """An address that something outside of its machine can send to."""
    found = parsed(text)
    if found is None:
        yield invalid_value(where, text, "must be a valid IP address")
        return
    four = found.version == 4
    if found.is_unspecified:
        yield invalid_value(where, text, f"may not be unspecified ({text})")
    if found.is_loopback:
        yield invalid_value(where, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if found.is_link_local:
        yield invalid_value(where, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if found in ipaddress.ip_network("224.0.0.0/24" if four else "ff02::/16"):
        yield invalid_value(where, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


@check
def host_name(host: str, where: str, place: Place) -> Iterable[FieldError]:
    """The name of a host, which may begin with a star."""
    if "*" not in host:
        return [invalid_value(where, host, why) for why in dns_errors(host, "subdomain")]
    wrong = ["must be no more than 253 characters"] if len(host) > 253 else []
    wrong += [] if WILDCARD.fullmatch(host) else [WILDCARD_TEXT]
    return [invalid_value(where, host, why) for why in wrong]


@check
def dns(value: str, where: str, place: Place, form: str) -> Iterable[FieldError]:
    """A DNS name of a form (label, dns1035, subdomain), which may not be empty either."""
    return [invalid_value(where, value, why) for why in dns_errors(value, form)]


@check
def domain_path(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """A path with a domain before it."""
    host, _, path = value.partition("/")
    if not value:
        yield required_value(where)
    elif not host or not path:
        yield invalid_value(where, value, PREFIXED)
    else:
        yield from (invalid_value(where, host, why) for why in dns_errors(host, "subdomain"))
        if not re.fullmatch(HTTP_PATH, path):
            yield invalid_value(where, path, f"Invalid path (regex used for validation is '{HTTP_PATH}')")


@check_of_missing
def service_ranges(texts: list[str] | None, where: str, place: Place) -> Iterator[FieldError]:
    """The ranges of the addresses of services: one of each family."""
    if not texts:
        yield required_value(where, "at least one CIDR required")
    elif len(texts) > 2:
        yield invalid_value(where, {"CIDRs": texts}, "may only hold up to 2 values")
    else:
        wrong = [(at, why) for at, text in enumerate(texts) for why in strict_range_errors(text)]
        yield from (invalid_value(f"{where}[{at}]", texts[at], why) for at, why in wrong)
        if len(texts) == 2 and len({":" in text for text in texts if network(text)}) == 1 and not wrong:
            yield invalid_value(where, texts, f"{ONE_EACH}, i.e 192.168.0.0/24 and 2001:db8::/64")


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
def no_way_back(value: str, where: str, place: Place) -> Iterable[FieldError]:
    """A path in which nothing leads upwards."""
    return (invalid_value(where, value, "must not contain '..'"),) if ".." in value.split("/") else ()


@check
def barred(value: Any, where: str, place: Place, text: str) -> Iterator[FieldError]:
    """A field that may not be there (under the rule's condition)."""
    yield forbidden_field(where, text)


@check
def at_most(values: list[Any], where: str, place: Place, most: int, text: str) -> Iterator[FieldError]:
    """A list of at most so many entries."""
    if len(values) > most:
        yield invalid_value(where, values, text)


@check
def key(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """A key of a ConfigMap or a Secret, where it is not empty."""
    return (invalid_value(where, value, why) for why in config_key_errors(value) if value)


def config_key_errors(value: str) -> Iterator[str]:
    """Yield what keeps a key from being the name of a file."""
    if len(value) > LONGEST_KEY:
        yield f"must be no more than {LONGEST_KEY} characters"
    if not KEY.fullmatch(value):
        yield KEY_RULE
    if value in (".", ".."):
        yield f"must not be '{value}'"
    elif value.startswith(".."):
        yield "must not start with '..'"


@check
def variable(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of an environment variable, where it is not empty."""
    if value and not VARIABLE.fullmatch(value):
        yield invalid_value(where, value, VARIABLE_RULE)


@check
def header(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of an HTTP header."""
    if not HEADER.fullmatch(value):
        yield invalid_value(where, value, HEADER_RULE)


@check
def mode(value: int, where: str, place: Place) -> Iterator[FieldError]:
    """The rights of a file."""
    if not 0 <= value <= HIGHEST_MODE:
        yield invalid_value(where, value, "must be a number between 0 and 0777 (octal), both inclusive")


@check
def way_down(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """A path that begins where one is, and does not lead upwards."""
    if value.startswith("/"):
        yield invalid_value(where, value, "must be a relative path")
    yield from no_way_back(value, where, place)


@check
def file(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """A path for a file of a volume: names that begin with two dots are the kubelet's own."""
    yield from way_down(value, where, place)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid_value(where, value, "must not start with '..'")


PASSING[required] = lambda name, *_, **__: methodcaller("get", name)
PASSING[one_of] = lambda name, choices, **_: lambda obj: obj.get(name) in choices
