"""What a service gets from the cluster: families and addresses of its range, ports of the nodes.

Upstream gives them before it asks its rules, so that what cannot be given is told alone. In a dry run nothing is
taken: the address is the first of the range, and ports follow those that are asked for.
https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubesim.api import status
from kubesim.api.addresses import ADDRESS_TEXT, fourth, is_six, parsed
from kubesim.api.options import Options
from kubesim.api.status import FieldError, invalid_value
from kubesim.errors import ApiError, Obj

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

RANGE = ipaddress.IPv4Network("10.96.0.0/16")
STATIC, DYNAMIC = range(1, 257), range(257, 65_535)
PORTS = range(30000, 32768)
EXTERNAL = ("NodePort", "LoadBalancer")
SINGLE, BOTH = "SingleStack", "RequireDualStack"
OUT_OF_PORTS = f"provided port is not in the valid range. The range of valid ports is {PORTS[0]}-{PORTS[-1]}"
NO_RANGE = "the provided network does not match the current range"
OUT_OF_RANGE = f"is not in the valid range. The range of valid IPs is {RANGE}"
MOST = 2**31 - 1
ADDRESSES = ("clusterIP", "clusterIPs")
POLICY = "spec.ipFamilyPolicy"


def create(ops: Operations, new: Obj, options: Options) -> None:
    """Complete a new service in place. Raises 422."""
    spec = new["spec"]
    new["status"] = {"loadBalancer": {}}
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _without_inside(spec)
    if spec["type"] != "ExternalName":
        _refuse(ops, new, _family_errors(spec, None))
        _give_address(ops, new, options)
    if spec["type"] in EXTERNAL:
        ports = _Ports.of(ops, new, options)
        _refuse(ops, new, _give_ports(spec, ports))
        if needs_health_check(spec):
            ports.health_check(spec)


def update(ops: Operations, old: Obj, new: Obj, options: Options) -> None:
    """Complete a changed service in place. Raises 422."""
    before, after = old["spec"], new["spec"]
    _keep(before, after)
    if after["type"] != "ExternalName":
        _refuse(ops, new, _family_errors(after, before))
        if before["type"] == "ExternalName":
            _give_address(ops, new, options)
    if after["type"] in EXTERNAL:
        ports = _Ports.of(ops, old, options)
        _refuse(ops, new, _change_ports(before, after, ports))
        if needs_health_check(after) and not needs_health_check(before):
            ports.health_check(after)
    _drop(before, after)
    _without_inside(after)


def _without_inside(spec: Obj) -> None:
    """What is only a name has no inside to which traffic goes."""
    if spec["type"] == "ExternalName" and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
        del spec["internalTrafficPolicy"]


def needs_health_check(spec: Obj) -> bool:
    """Tell whether nodes tell a load balancer on a port whether they have endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _refuse(ops: Operations, new: Obj, errors: list[FieldError]) -> None:
    if errors:
        kind = ops.registry.by_resource("services")
        raise status.invalid(kind, new["metadata"].get("name") or new["metadata"].get("generateName", ""), errors)


# --- families and addresses -----------------------------------------------------------------------------------------


def _family_errors(spec: Obj, before: Obj | None) -> list[FieldError]:
    """Settle the policy and the families; return what cannot be on a cluster of IPv4 alone."""
    everywhere = headless(spec) and not spec.get("selector")
    kept = (before or {}).get("ipFamilyPolicy") or (BOTH if everywhere else SINGLE)
    policy = spec.setdefault("ipFamilyPolicy", kept)
    errors = list(_address_errors(spec))
    if everywhere:
        both = () if policy == SINGLE else ("IPv4", "IPv6")
        spec["ipFamilies"] = [*dict.fromkeys((*(spec.get("ipFamilies") or ["IPv4"]), *both))]
        return errors
    if policy == BOTH:
        errors.append(invalid_value(POLICY, BOTH, "this cluster is not configured for dual-stack services"))
    spec["ipFamilies"] = spec.get("ipFamilies") or ["IPv4"]
    for at, family in enumerate(spec["ipFamilies"]):
        if family != "IPv4":
            errors.append(invalid_value(f"spec.ipFamilies[{at}]", family, "not configured on this cluster"))
    return errors


def _address_errors(spec: Obj) -> Iterator[FieldError]:
    """Yield what is wrong with the addresses that a service asks for: the first is the one of IPv4, and alone."""
    every = spec.get("clusterIPs") or []
    if "".join(every[:1]) != spec.get("clusterIP", ""):
        yield invalid_value("spec.clusterIPs", every, "first value must match `clusterIP`")
    for at, text in enumerate(every):
        if parsed(text) is None and (at or text != "None"):
            yield invalid_value(f"spec.clusterIPs[{at}]", text, ADDRESS_TEXT)
        elif at or is_six(text):
            yield invalid_value(f"spec.clusterIPs[{at}]", every, "IPv6 is not configured on this cluster")


def headless(spec: Obj) -> bool:
    """Tell whether a service has no address and wants none."""
    return spec.get("clusterIPs") == ["None"]


def _give_address(ops: Operations, new: Obj, options: Options) -> None:
    """Give a service the address that it asks for, or any that is free."""
    spec = new["spec"]
    if headless(spec):
        return
    services = ops.store.list(ops.registry.by_resource("services"))
    address = (spec.get("clusterIPs") or [""])[0]
    if not address:
        taken = {obj["spec"].get("clusterIP") for obj in services}
        address = str(RANGE[0]) if options.dry_run else _free(taken)
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
        return
    why = ""
    wanted = fourth(address)
    if wanted is None or not RANGE[1] <= wanted <= RANGE[-2]:
        why = f"the provided IP ({wanted or address}) {OUT_OF_RANGE}" if options.dry_run else NO_RANGE
    elif not options.dry_run and any(fourth(obj["spec"].get("clusterIP", "")) == wanted for obj in services):
        why = "provided IP is already allocated"
    if why:
        why = f"failed to allocate IP {address}: {why}"
        _refuse(ops, new, [invalid_value("spec.clusterIPs", spec["clusterIPs"], why)])


def _free(taken: set[str | None]) -> str:
    """Return a random free address, of the lower band (kept for those who ask for one by name) only if need be."""
    for band in DYNAMIC, STATIC:
        for number in random.sample(band, min(len(taken) + 1, len(band))):
            if (address := str(RANGE[number])) not in taken:
                return address
    raise ApiError(500, "InternalError", "Internal error occurred: failed to allocate a serviceIP: range is full")


# --- ports of the nodes ---------------------------------------------------------------------------------------------


@dataclass
class _Ports:
    """The ports of the nodes while a service gets its own."""

    taken: set[int]
    dry: bool
    given: set[int] = field(default_factory=set)
    _highest: int = 0
    _free: list[int] | None = None
    """Those that may be given next, in an order of their own."""

    @classmethod
    def of(cls, ops: Operations, new: Obj, options: Options) -> _Ports:
        """Return the ports that all services but this one have."""
        services, own = ops.store.list(ops.registry.by_resource("services")), new["metadata"].get("uid")
        others = [obj["spec"] for obj in services if obj["metadata"]["uid"] != own]
        ports = {port.get("nodePort", 0) for spec in others for port in spec.get("ports", ())}
        return cls(ports | {spec.get("healthCheckNodePort", 0) for spec in others}, options.dry_run)

    def refusal(self, port: int) -> str:
        """Take a port; return why it cannot be had."""
        if port not in PORTS and not self.dry:
            return OUT_OF_PORTS
        if port in self.taken or port in self.given:
            return "provided port is already allocated"
        self._give(port)
        return ""

    def _give(self, port: int) -> None:
        self.given.add(port)
        self._highest = max(self._highest, port)

    def next(self) -> int:
        """Take any port."""
        if self.dry:
            last = self._highest if self.given else PORTS.stop
            port: int | None = last + 1 if last < MOST else -MOST - 1  # as a number of 32 bits goes on
        else:
            if self._free is None:
                self._free = random.sample(PORTS, len(PORTS))
            free = (self._free.pop() for _ in range(len(self._free)))
            port = next((number for number in free if number not in self.taken and number not in self.given), None)
        if port is None:
            why = "failed to allocate a nodePort: range is full"
            raise ApiError(500, "InternalError", f"Internal error occurred: {why}")
        self._give(port)
        return port

    def health_check(self, spec: Obj) -> None:
        """Take the port on which nodes tell a load balancer how they are."""
        wanted = spec.get("healthCheckNodePort")
        if not wanted:
            spec["healthCheckNodePort"] = self.next()
        elif why := self.refusal(wanted):
            why = f"failed to allocate requested HealthCheck NodePort {wanted}: {why}"
            raise ApiError(500, "InternalError", f"Internal error occurred: {why}")


def _give_ports(spec: Obj, ports: _Ports) -> list[FieldError]:
    """Give each port of a new service a port of the nodes; those with one number share it."""
    shared: dict[int, int] = {}
    entries = spec.get("ports") or ()
    wanted: dict[int, int] = {}
    for one in entries:
        if one.get("nodePort"):
            wanted.setdefault(one.get("port", 0), one["nodePort"])
    for at, port in enumerate(entries):
        number, own = port.get("port", 0), port.get("nodePort", 0)
        if not own and spec.get("allocateLoadBalancerNodePorts") is False:
            continue
        if number in shared and own in (0, shared[number]):
            port["nodePort"] = shared[number]
            continue
        asked = own if number in shared else wanted.get(number, own)
        if asked and (why := ports.refusal(asked)):
            return [invalid_value(f"spec.ports[{at}].nodePort", asked, why)]
        port["nodePort"] = asked or ports.next()
        shared.setdefault(number, port["nodePort"])
    return []


def _change_ports(before: Obj, after: Obj, ports: _Ports) -> list[FieldError]:
    """Give what is new of a changed service ports of the nodes."""
    had = {port.get("nodePort") for port in before.get("ports") or ()}
    for at, port in enumerate(after.get("ports") or ()):
        own = port.get("nodePort", 0)
        if own and own not in had and own not in ports.given and (why := ports.refusal(own)):
            return [invalid_value(f"spec.ports[{at}].nodePort", own, why)]
        if not own and after.get("allocateLoadBalancerNodePorts") is not False:
            port["nodePort"] = ports.next()
    return []


# --- what a changed service keeps, and what it loses ----------------------------------------------------------------


def _keep(before: Obj, after: Obj) -> None:
    """Write what a client has left out of what the service was given."""
    if "ExternalName" not in (before["type"], after["type"]):
        for name in ADDRESSES:
            if not after.get(name) and before.get(name):
                after[name] = before[name]
    if before["type"] in EXTERNAL and after["type"] in EXTERNAL:
        _keep_ports(before, after)
    if needs_health_check(before) and needs_health_check(after) and not after.get("healthCheckNodePort"):
        after["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)
    address = after.get("clusterIP", "")
    if before.get("clusterIP", "") != address and before.get("clusterIPs") == after.get("clusterIPs"):
        after["clusterIPs"] = [address] if address else []


def _keep_ports(before: Obj, after: Obj) -> None:
    """A port without a port of the nodes keeps the one that it had by its name, where no other has taken it."""
    used = {port.get("nodePort") for port in after.get("ports") or ()}
    had = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
    for port in after.get("ports") or ():
        old = had.get(port.get("name", ""))
        if not port.get("nodePort") and old and old not in used:
            port["nodePort"] = old


def _drop(before: Obj, after: Obj) -> None:
    """Take away what a service of this type has no use for, where nobody has changed it."""
    gone: list[str] = []
    if after["type"] == "ExternalName" != before["type"]:
        gone += ADDRESSES if all(before.get(name) == after.get(name) for name in ADDRESSES) else ()
        gone += [name for name in ("ipFamilies", "ipFamilyPolicy") if before.get(name) == after.get(name)]
    if before["type"] in EXTERNAL and after["type"] not in EXTERNAL:
        _drop_ports(before, after)
    lost = [
        ("healthCheckNodePort", needs_health_check(before), needs_health_check(after)),
        ("externalTrafficPolicy", accessible(before), accessible(after)),
        *(
            (name, before["type"] == "LoadBalancer", after["type"] == "LoadBalancer")
            for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
        ),
    ]
    gone += [name for name, did, does in lost if did and not does and before.get(name) == after.get(name)]
    for name in gone:
        after.pop(name, None)


def _drop_ports(before: Obj, after: Obj) -> None:
    had = {port.get("nodePort") for port in before.get("ports") or ()}
    ports = after.get("ports") or ()
    if {port["nodePort"] for port in ports if port.get("nodePort")} <= had:
        for port in ports:
            port.pop("nodePort", None)


def accessible(spec: Obj) -> bool:
    """Tell whether a service can be reached from outside of the cluster."""
    return spec["type"] in EXTERNAL or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))
