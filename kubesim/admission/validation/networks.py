"""The rules of services, ingresses, network policies and endpoints that are more than a line of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubesim.admission.validation.checks import PORT_RANGE, form_errors, is_repeated
from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.api.addresses import CIDR_TEXT, network
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.errors import Obj
from kubesim.schema.paths import dig

ONCE = "may not change once set"


# --- services -------------------------------------------------------------------------------------------------------


@check_of_missing
def named_among(value: str | None, where: str, place: Place, path: str) -> Iterator[FieldError]:
    """The name of a port, which only a single port can lack."""
    if not value and place.above is not None and len(dig(place.above.value, path) or ()) > 1:
        yield required(where)


@check
def unlike_those_before(value: str, where: str, place: Place, path: str) -> Iterator[FieldError]:
    """The name of a port, which no port before it has."""
    if value and is_repeated(place, "name", value):
        yield duplicate(where, value)


@check
def cname(value: str, where: str, place: Place) -> Iterable[FieldError]:
    """The name for which a service stands; a dot may end it."""
    name = value.removesuffix(".")
    if not name:
        return (required(where),)
    return [invalid_value(where, name, why) for why in dns_errors(name, "subdomain")]


@check
def service_ports(ports: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Ports, none twice: neither those of the nodes, which only some services have, nor their own."""
    given = [(at, port) for at, port in enumerate(ports) if port.get("nodePort")]
    if place.value["spec"].get("type") == "ClusterIP":
        why = "may not be used when `type` is 'ClusterIP'"
        yield from (forbidden_field(f"{where}[{at}].nodePort", why) for at, _ in given)
    seen: set[tuple[Any, ...]] = set()
    for at, port in given:
        key = (port.get("protocol"), "node", port["nodePort"])
        if key in seen:
            yield duplicate(f"{where}[{at}].nodePort", port["nodePort"])
        seen.add(key)
    for at, port in enumerate(ports):
        protocol, number = port.get("protocol", ""), port.get("port", 0)
        if (protocol, number) in seen:
            empty = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            yield duplicate(f"{where}[{at}]", {**empty, "TargetPort": 0, "NodePort": 0})
        seen.add((protocol, number))


def service_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A service keeps its first address."""
    before, after = (obj["spec"].get("clusterIPs") or [] for obj in (old, new))
    named = "ExternalName" in (old["spec"].get("type"), new["spec"].get("type"))
    if named or not before or before[0] == "".join(after[:1]):
        return []
    why = ONCE if after else "primary clusterIP can not be unset"
    return [invalid_value("spec.clusterIPs[0]", after or None, why)]


# --- network policies -----------------------------------------------------------------------------------------------


@check
def policy_port(port: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A port, or a range of them from one number to another."""
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        if not 1 <= first <= 65535:
            yield invalid_value(f"{where}.port", first, PORT_RANGE)
        if last is not None and last < first:
            yield invalid_value(f"{where}.endPort", first, "must be greater than or equal to `port`")
        if last is not None and not 1 <= last <= 65535:
            yield invalid_value(f"{where}.endPort", last, PORT_RANGE)
        return
    if last is not None:
        why = "not specified" if first is None else "non-numeric"
        yield invalid_value(f"{where}.endPort", last, f"may not be specified when `port` is {why}")
    if first is not None:
        yield from (invalid_value(f"{where}.port", first, why) for why in form_errors("port name", first))


@check
def block(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A range of addresses but for parts of it."""
    if not value.get("cidr"):
        yield required(f"{where}.cidr")
        return
    whole = network(value["cidr"])
    if whole is None:
        yield invalid_value(f"{where}.cidr", value["cidr"], CIDR_TEXT)
        return
    for at, text in enumerate(value.get("except") or ()):
        part = network(text)
        if part is None:
            yield invalid_value(f"{where}.except[{at}]", text, CIDR_TEXT)
        elif part.version != whole.version or not part.subnet_of(whole) or part == whole:  # type: ignore[arg-type]
            yield invalid_value(f"{where}.except[{at}]", text, "must be a strict subset of `cidr`")


# --- endpoints ------------------------------------------------------------------------------------------------------
