"""The rules of claims to devices and of the slices that offer them, where they are more than a line of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_interface
from typing import Any

import orjson

from kubesim.admission import expressions
from kubesim.admission.validation.checks import repeated
from kubesim.admission.validation.forms import no_longer
from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing, errors_of
from kubesim.admission.validation.volumes import csi_driver
from kubesim.api.selectors import value_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.errors import Obj
from kubesim.schema.internal import internal
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind

LONGEST_EXPRESSION = 10 * 1024
LONGEST_POOL = 253
LONGEST_NAME = 32
LONGEST_KEY = 96
LONGEST_VALUE = 64
UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    f"'{IDENTIFIER.pattern}')"
)
_NUMBER = r"(0|[1-9][0-9]*)"
_DRAFT = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_DRAFT}(\.{_DRAFT})*)?(\+{_BUILD}(\.{_BUILD})*)?",
)
VALUES = {"int": "IntValue", "bool": "BoolValue", "string": "StringValue", "version": "VersionValue"}
"""The values that an attribute may have, and what the API server calls them in memory."""
REACHES = ("nodeName", "nodeSelector", "allNodes")
ONE_REACH = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
OMITTED = "<value omitted>"
GROUP = ".resource.k8s.io"
ALLOCATION = "status.allocation"
SHOWN_IDENTITY: Obj = {"Driver": {}, "Pool": {}, "Device": {}, "ShareID": {}}
"""What is seen of a device's identity: nothing."""
FOR_ADMINS = "adminAccess"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
REQUESTS = "spec.devices.requests"
ADMIN = {
    f"resourceclaims{GROUP}": (REQUESTS, f"exactly.{FOR_ADMINS}", REQUESTS),
    f"resourceclaimtemplates{GROUP}": (f"spec.{REQUESTS}", f"exactly.{FOR_ADMINS}", REQUESTS),
}
"""Where kinds ask for an administrator's access, and how errors call that place."""
ALLOTTED = ("status.allocation.devices.results", "", "status.allocation.devices.results")
ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9]+[./])")
NO_INTERFACE = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


@check
def known_apart(entries: list[Any], where: str, place: Place, field: str) -> Iterator[FieldError]:
    """A list that has no entry twice, by a field of them or as a whole; no name is a name too."""
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        key = entry.get(field, "") if field else entry
        if key in seen:
            yield duplicate(f"{where}[{at}].{field}" if field else f"{where}[{at}]", key)
        seen.add(key)


@check
def device_expression(text: str, where: str, place: Place) -> Iterable[FieldError]:
    """An expression that tells of a device whether it is one that is wanted."""
    found = no_longer(text, where, place, LONGEST_EXPRESSION)
    return found or expressions.device_errors(text, where)


@check
def label_value(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The value of a label."""
    return (invalid_value(where, value, why) for why in value_errors(value))


@check
def request_of_claim(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a request of the claim, or with a slash that of one of its alternatives."""
    first, slash, second = name.partition("/")
    if "/" in second:
        yield invalid_value(where, name, UNKNOWN_REQUEST)
        return
    for part in (first, second) if slash else (first,):
        yield from (invalid_value(where, part, why) for why in dns_errors(part))
    if name not in _names(_claim(place)):
        yield invalid_value(where, name, UNKNOWN_REQUEST)


def _claim(place: Place | None) -> Obj:
    """Return what is claimed where a place lies: the outermost that has requests; others name only theirs."""
    found: Obj = {}
    while place is not None:
        found = place.value if "requests" in place.value else found
        place = place.above
    return found


def _names(claim: Obj) -> Iterator[str]:
    for request in claim.get("requests") or ():
        if isinstance(request, dict):
            name = request.get("name", "")
            yield name
            yield from (f"{name}/{entry.get('name', '')}" for entry in request.get("firstAvailable") or ())


@check
def full_attribute_name(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of an attribute with its domain."""
    yield from _name_errors(name, where, place)
    if name and "/" not in name:
        yield invalid_value(where, name, "must include a domain")


def _name_errors(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """Yield what is wrong with the name of an attribute or a capacity; upstream takes any with two slashes."""
    if not name:
        yield required(where, "name required")
    domain, slash, last = name.partition("/")
    if not name or "/" in last:
        return
    if slash and not domain:
        yield required(where, "the domain must not be empty")
    elif slash:
        yield from csi_driver(domain, where, place)
    yield from _identifier_errors(last if slash else domain, where, place)


def _identifier_errors(name: str, where: str, place: Place) -> Iterator[FieldError]:
    if not name:
        yield required(where, "the name must not be empty")
        return
    yield from no_longer(name, where, place, LONGEST_NAME)
    if not IDENTIFIER.fullmatch(name):
        yield invalid_value(where, name, IDENTIFIER_RULE)


@check_of_missing
def raw_object(value: Any, where: str, place: Place, most: int) -> Iterator[FieldError]:
    """Parameters of a driver: an object of any kind."""
    if value is None:
        yield required(where)
    elif len(orjson.dumps(value)) > most:
        yield FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
    elif not isinstance(value, dict):
        yield invalid_value(where, OMITTED, "must be a valid JSON object")


@check_of_missing
def pool_name(value: str | None, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a pool of devices: subdomains with slashes between them."""
    if not value:
        yield required(where)
        return
    yield from no_longer(value, where, place, LONGEST_POOL)
    for part in value.split("/"):
        yield from (invalid_value(where, part, why) for why in dns_errors(part, "subdomain"))


@check_of_missing
def one_term(terms: list[Obj] | None, where: str, place: Place) -> Iterator[FieldError]:
    """The terms that say from which nodes a slice's devices can be had: one."""
    if len(terms or ()) != 1:
        yield invalid_value(where, internal("NodeSelectorTerm", terms), "must have exactly one node selector term")


@check
def reach_of_slice(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """From which nodes the devices of a slice can be had, said in one way."""
    given = [f"`{name}`" for name in REACHES if spec.get(name) or (name == "nodeSelector" and name in spec)]
    if not given:
        yield required(where, ONE_REACH)
    elif len(given) > 1:
        yield invalid_value(where, f"{{{', '.join(given)}}}", f"{ONE_REACH}, but multiple fields are set")


@check
def attributes_and_capacities(device: Obj, where: str, place: Place, most: int) -> Iterator[FieldError]:
    """What a device is and has, and how much of that there may be."""
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > most:
        yield invalid_value(where, count, f"the total number of attributes and capacities must not exceed {most}")
    for name, value in sorted(attributes.items()):
        path = f"{where}.attributes[{_cut(name)}]"
        yield from _name_errors(name, path, place)
        yield from _attribute_errors(value or {}, path, place)
    for name in sorted(capacity):
        yield from _name_errors(name, f"{where}.capacity[{_cut(name)}]", place)


def _attribute_errors(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    text, version = value.get("string"), value.get("version")
    if text is not None:
        yield from no_longer(text, f"{where}.string", place, LONGEST_VALUE)
    if version is not None:
        if not VERSION.fullmatch(version):
            yield invalid_value(f"{where}.version", version, "must be a string compatible with semver.org spec 2.0.0")
        yield from no_longer(version, f"{where}.version", place, LONGEST_VALUE)
    given = [name for name in VALUES if value.get(name) is not None]
    if not given:
        yield required(where, "exactly one value must be specified")
    elif len(given) > 1:
        shown = {shown: value.get(name) for name, shown in VALUES.items()}
        yield invalid_value(where, shown, "exactly one value must be specified")


def _cut(key: str) -> str:
    """Return a key with its middle left out, if it is long."""
    rest = LONGEST_KEY - len("...")
    return key if len(key) <= LONGEST_KEY else f"{key[: (rest + 1) // 2]}...{key[len(key) - rest // 2 :]}"


def _identity(device: Obj) -> tuple[str, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device"))


@check
def allocated_device(device: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A device that a claim has, of which its driver reports."""
    claim = place.above.value if place.above else {}
    results = dig(claim, "status.allocation.devices.results") or ()
    if _identity(device) not in map(_identity, results):
        yield invalid_value(where, SHOWN_IDENTITY, "must be an allocated device in the claim")


@check
def devices_apart(devices: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """What drivers report of devices, of each once."""
    known = [_identity(device) for device in devices]
    return (duplicate(f"{where}[{at}].deviceID", SHOWN_IDENTITY) for at in sorted(repeated(known)))


@check
def interface_address(text: str, where: str, place: Place) -> Iterator[FieldError]:
    """An interface's address with the size of its network; zeros before numbers are wrong, but read."""
    try:
        canonical = str(ip_interface(ZEROS.sub("", text))) if "/" in text else ""
    except ValueError:
        canonical = ""
    if not canonical:
        yield invalid_value(where, text, NO_INTERFACE)
    elif text != canonical:
        yield invalid_value(where, text, f'must be in canonical form ("{canonical}")')


def admin_errors(kind: Kind, old: Obj | None, new: Obj, labels: Callable[[], Obj]) -> list[FieldError]:
    """Return what says that an administrator's access is not for a namespace with these labels.

    It is looked at in new claims and their templates, and in what is allotted to claims that had none of it.
    """
    path, inner, where = ADMIN[kind.resource] if old is None else ALLOTTED
    if old is not None and any(found.get(FOR_ADMINS) for found in dig(old, ALLOTTED[0]) or ()):
        return []
    asked = (dig(entry, inner) if inner else entry.get(FOR_ADMINS) for entry in dig(new, path) or ())
    at = next((at for at, wanted in enumerate(asked) if wanted), None)
    if at is None or labels().get(ADMIN_LABEL) == "true":
        return []
    why = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden_field(f"{where}[{at}].{FOR_ADMINS}", why)]


def status_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return what is wrong with a claim's allocation, which stays as it is."""
    before, after = dig(old, "status.allocation"), dig(new, "status.allocation")
    if after is None or before == after:
        return []
    if before is not None:
        return [invalid_value(ALLOCATION, internal("AllocationResult", after), "field is immutable")]
    claimed = Place(dig(new, "spec.devices") or {}, "spec.devices")
    return errors_of("types", "Allocation", Place(after, ALLOCATION, claimed))
