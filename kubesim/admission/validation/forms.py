"""Forms that texts and numbers have wherever they occur: ports, addresses, ranges of addresses, paths, lengths."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kubesim.admission.validation.metadata import SUBDOMAIN, dns_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.api.addresses import ADDRESS_TEXT, network, parsed, strict_range_errors
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required

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
        yield required(where)
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
        yield required(where, "at least one CIDR required")
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
    return (invalid_value(where, value, why) for why in key_errors(value) if value)


def key_errors(value: str) -> Iterator[str]:
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
