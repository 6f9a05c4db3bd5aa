"""The rules of services, ingresses and network policies that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from kubesim.admission.validation.checks import subdomain
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.errors import Obj

LEADING_NOUGHTS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
SERVICE_RANGE = ipaddress.ip_network("10.96.0.0/16")
EXTERNAL = ("NodePort", "LoadBalancer")
ADDRESS_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


@check_of_missing
def name_among_many(value: str | None, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a port, which only the single port of a service can lack."""
    if not value and len(_service(place)["ports"]) > 1:
        yield required(where)


@check
def unlike_those_before(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a port, which no port before it has."""
    ports = _service(place)["ports"]
    if value and value in [port.get("name") for port in ports[: ports.index(place.value)]]:
        yield duplicate(where, value)


@check
def node_port(value: int, where: str, place: Place) -> Iterator[FieldError]:
    """A port of the nodes, which only some services have."""
    kind = _service(place).get("type")
    if value and kind not in EXTERNAL:
        yield forbidden_field(where, f"may not be used when `type` is '{kind}'")


def _service(port: Place) -> Obj:
    """Return the spec of the service that a port belongs to."""
    spec: Obj = port.above.value["spec"] if port.above else {}
    return spec


@check
def cluster_address(address: str, where: str, place: Place) -> Iterator[FieldError]:
    """The address of a service: one of its range, or None."""
    kind = place.value["spec"].get("type")
    if address == "None" and kind in EXTERNAL:
        yield invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if address in ("", "None"):
        return
    if not is_address(address):
        yield invalid_value("spec.clusterIPs[0]", address, ADDRESS_TEXT)
    elif ipaddress.ip_address(address) not in SERVICE_RANGE:
        why = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of "
        yield invalid_value("spec.clusterIPs", [address], f"{why}valid IPs is {SERVICE_RANGE}")


def service_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A service keeps its address."""
    before, after = old["spec"], new["spec"]
    if "ExternalName" in (before.get("type"), after.get("type")) or not before.get("clusterIP"):
        return []
    if before["clusterIP"] == after.get("clusterIP"):
        return []
    return [invalid_value("spec.clusterIPs[0]", [after.get("clusterIP", "")], "may not change once set")]


@check
def address(text: str, where: str, place: Place) -> Iterator[FieldError]:
    """An address of any family."""
    if not is_address(text):
        yield invalid_value(where, text, ADDRESS_TEXT)


def is_address(text: str) -> bool:
    """Tell whether a text is an IP address; a leading nought is none too many, as it was once."""
    text = LEADING_NOUGHTS.sub("", text)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@check
def no_address(host: str, where: str, place: Place) -> Iterator[FieldError]:
    """The host of an ingress is a name."""
    if is_address(host):
        yield invalid_value(where, host, "must be a DNS name, not an IP address")


@check
def host_name(host: str, where: str, place: Place) -> Iterator[FieldError]:
    """The host of an ingress, which may begin with a star."""
    if not is_address(host):
        yield from subdomain(host.removeprefix("*."), where, place)


@check
def peer(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """Whom a network policy lets through: pods, namespaces, or a range of addresses."""
    others = [name for name in ("podSelector", "namespaceSelector") if name in value]
    if not others and "ipBlock" not in value:
        yield required(where, "must specify a peer")
    elif others and "ipBlock" in value:
        yield forbidden_field(where, "may not specify both ipBlock and another peer")
    elif "ipBlock" in value:
        yield from _block_errors(value["ipBlock"], f"{where}.ipBlock")


def _block_errors(block: Obj, path: str) -> Iterator[FieldError]:
    whole = _network(block.get("cidr", ""))
    if whole is None:
        yield invalid_value(f"{path}.cidr", block.get("cidr", ""), CIDR_TEXT)
        return
    for at, text in enumerate(block.get("except") or ()):
        part = _network(text)
        if part is None:
            yield invalid_value(f"{path}.except[{at}]", text, CIDR_TEXT)
        elif part.version != whole.version or not part.subnet_of(whole) or part == whole:  # type: ignore[arg-type]
            yield invalid_value(f"{path}.except[{at}]", text, "must be a strict subset of `cidr`")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
