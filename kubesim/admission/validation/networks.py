"""The rules of services, ingresses, network policies and endpoints that are more than a line of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kubesim.admission.validation.checks import (
    PORT_RANGE,
    endpoint_errors,
    form_errors,
    is_repeated,
    repeated,
)
from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.api.addresses import ADDRESS_TEXT, CIDR_TEXT, is_six, network, parsed, strict_errors
from kubesim.api.selectors import value_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.paths import dig

RANGES_NOTE = "service.beta.kubernetes.io/load-balancer-source-ranges"
TOPOLOGY, HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
CLASS = "kubernetes.io/ingress.class"
BALANCED = "may only be used when `type` is 'LoadBalancer'"
FAMILIES = ("IPv4", "IPv6")
POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
POLICY_TYPES = ("Ingress", "Egress")
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
def topology_notes(notes: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """Two names of one annotation, which say the same."""
    if HINTS in notes and TOPOLOGY in notes and notes[HINTS] != notes[TOPOLOGY]:
        why = f"must match annotations[{HINTS}] when both are specified"
        yield invalid_value(f"{where}[{TOPOLOGY}]", notes[TOPOLOGY], why)


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


@check
def source_ranges(service: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """From where a load balancer takes connections; once this was an annotation."""
    spec, notes = service.get("spec") or {}, service["metadata"].get("annotations") or {}
    if ranges := spec.get("loadBalancerSourceRanges"):
        path, several = "spec.LoadBalancerSourceRanges", True
    elif RANGES_NOTE in notes:
        path, several = f"metadata.annotations[{RANGES_NOTE}]", False
        ranges = notes[RANGES_NOTE].split(",") if notes[RANGES_NOTE].strip() else []
    else:
        return
    if spec.get("type") != "LoadBalancer":
        yield forbidden_field(path, BALANCED)
    for at, text in enumerate(ranges):
        if network(text.strip()) is None:
            yield invalid_value(f"{path}[{at}]" if several else path, text.strip(), CIDR_TEXT)


@check
def cluster_addresses(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The addresses of a service, and their families."""
    return cluster_address_errors(spec, None)


def headless(spec: Obj) -> bool:
    """Tell whether a service has no address and wants none."""
    return spec.get("clusterIPs") == ["None"]


def cluster_address_errors(spec: Obj, before: Obj | None) -> Iterator[FieldError]:
    """Yield what is wrong with the addresses of a service, where they are new."""
    if spec.get("type") == "ExternalName":
        return
    one, every, families = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    yield from _pair_errors(one, every)
    again = repeated(families)
    for at, family in enumerate(families):
        if family not in FAMILIES:
            yield unsupported(f"spec.ipFamilies[{at}]", family, FAMILIES)
        if at in again:
            yield duplicate(f"spec.ipFamilies[{at}]", family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in POLICIES:
        yield unsupported("spec.ipFamilyPolicy", policy, POLICIES)
    wrong = list(_address_errors(every, (before or {}).get("clusterIPs") or ()))
    yield from wrong
    if len(every) > 2:
        yield invalid_value("spec.clusterIPs", every, "may only hold up to 2 values")
    if wrong:
        return
    if len(every) > 1 and len({is_six(text) for text in every}) < 2:
        yield invalid_value("spec.clusterIPs", every, "may specify no more than one IP for each IP family")
    for at, (text, family) in enumerate(zip(every, families, strict=False)):
        if not headless(spec) and (family == "IPv6") is not is_six(text):
            why = f"expected an {family} value as indicated by `ipFamilies[{at}]`"
            yield invalid_value(f"spec.clusterIPs[{at}]", text, why)


def _pair_errors(one: str, every: list[str]) -> Iterator[FieldError]:
    """The one address is the first of all."""
    if one and not every:
        yield required("spec.clusterIPs")
    elif one and every[0] != one:
        yield invalid_value("spec.clusterIPs", every, "first value must match `clusterIP`")
    elif every and not one:
        yield invalid_value("spec.clusterIPs", every, "must be empty when `clusterIP` is not specified")


def _address_errors(every: list[str], known: Sequence[str]) -> Iterator[FieldError]:
    for at, text in enumerate(every):
        if at == 0 and text == "None":
            if len(every) > 1:
                yield invalid_value("spec.clusterIPs", every, "'None' must be the first and only value")
        elif text not in known and parsed(text) is None:
            yield invalid_value(f"spec.clusterIPs[{at}]", text, ADDRESS_TEXT)


def service_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A service keeps its first address, its family and the class of its load balancer."""
    before, after = old["spec"], new["spec"]
    errors: list[FieldError] = []
    if "ExternalName" not in (before.get("type"), after.get("type")) and not (headless(before) and headless(after)):
        errors += _changed(before, after, "clusterIPs", "clusterIP")
        if headless(before) is headless(after):
            errors += _changed(before, after, "ipFamilies", "ipFamily")
    balancers = [spec.get("type") == "LoadBalancer" for spec in (before, after)]
    named = after.get("loadBalancerClass")
    if all(balancers) and before.get("loadBalancerClass") != named:
        errors.append(invalid_value("spec.loadBalancerClass", named, ONCE))
    local = [spec.get("externalTrafficPolicy") == "Local" for spec in (before, after)]
    ports = [spec.get("healthCheckNodePort", 0) for spec in (before, after)]
    if all(balancers) and all(local) and ports[0] != ports[1]:
        errors.append(forbidden_field("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _changed(before: Obj, after: Obj, field: str, called: str) -> Iterator[FieldError]:
    """Yield where a list of a service's addresses or families is not what it was, but for a second one."""
    had, has = before.get(field) or [], after.get(field) or []
    if len(had) == len(has):
        for at, (old, new) in enumerate(zip(had, has, strict=True)):
            if old != new:
                yield invalid_value(f"spec.{field}[{at if field == 'clusterIPs' else 0}]", has, ONCE)
        return
    if len(had) > len(has) and not after.get("clusterIPs"):
        yield invalid_value(f"spec.{field}[0]", has or None, f"primary {called} can not be unset")
    if had and has and had[0] != has[0]:
        yield invalid_value(f"spec.{field}[0]", after.get("clusterIPs"), ONCE)
    policy = after.get("ipFamilyPolicy")
    if len(had) > len(has) == 1 and policy != "SingleStack":
        why = f"must be set to 'SingleStack' when releasing the secondary {called}"
        yield invalid_value("spec.ipFamilyPolicy", policy, why)


# --- ingresses ------------------------------------------------------------------------------------------------------


@check
def class_note(notes: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The class of an ingress, which once was an annotation."""
    named = place.value["spec"].get("ingressClassName")
    if CLASS in notes and named is not None and notes[CLASS] != named:
        why = "must match `ingressClassName` when both are specified"
        yield invalid_value(f"annotations.{CLASS}", notes[CLASS], why)


# --- network policies -----------------------------------------------------------------------------------------------


@check
def policy_types(values: list[str], where: str, place: Place) -> Iterable[FieldError]:
    """In which ways a policy works."""
    if len(values) > len(POLICY_TYPES):
        return (invalid_value(where, values, "may not specify more than two policyTypes"),)
    wrong = [(at, value) for at, value in enumerate(values) if value not in POLICY_TYPES]
    return [unsupported(f"{where}[{at}]", value, POLICY_TYPES) for at, value in wrong]


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


@check
def slice_addresses(texts: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The addresses of an endpoint, all of the type of their slice."""
    form = place.above.value.get("addressType") if place.above else None
    for at, text in enumerate(texts):
        path = f"{where}[{at}]"
        if form == "FQDN":
            yield from _full_name_errors(text, path)
        elif form in FAMILIES:
            yield from _family_errors(text, form, path, where, place)


def _family_errors(text: str, form: str, path: str, where: str, place: Place) -> Iterator[FieldError]:
    """Yield what is wrong with an address of a family; those of the sixth are written in one way only."""
    wrong = list(strict_errors(text)) if form == "IPv6" else [] if parsed(text) else [ADDRESS_TEXT]
    yield from (invalid_value(path, text, why) for why in wrong)
    if wrong:
        return
    if (form == "IPv6") is not is_six(text):
        yield invalid_value(where, text, f"must be an {form} address")
    yield from (invalid_value(path, text, why) for why in endpoint_errors(text))


def _full_name_errors(text: str, path: str) -> Iterator[FieldError]:
    name = text.removesuffix(".")
    if not text:
        yield required(path)
    elif wrong := dns_errors(name, "subdomain"):
        yield invalid_value(path, name, ",".join(wrong))
    elif "." not in name:
        yield invalid_value(path, name, "should be a domain with at least two segments separated by dots")


@check
def unlike_others(entries: list[Obj], where: str, place: Place, form: str) -> Iterator[FieldError]:
    """A short list of names of a form, none twice."""
    if len(entries) > 8:
        yield FieldError(where, "FieldValueTooMany", f"Too many: {len(entries)}: must have at most 8 items")
        return
    names = [entry.get("name", "") for entry in entries]
    for at, name in enumerate(names):
        path = f"{where}[{at}].name"
        if name in names[:at]:
            yield duplicate(path, name)
        wrong = value_errors(name) if form == "label value" else dns_errors(name, form)
        yield from (invalid_value(path, name, why) for why in wrong)
