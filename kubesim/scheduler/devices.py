"""Which devices a claim gets on a node: the first ones, in the order of slices, that its requests choose.

Requests take devices one after the other and never give one back, where upstream would try another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kubesim.cel.functions import FUNCTIONS
from kubesim.cel.program import CelError, compiled
from kubesim.errors import Obj
from kubesim.scheduler.state import NodeState
from kubesim.scheduler.terms import matches_term


class Device(NamedTuple):
    """A device of a slice, and whether it can be had on one node alone."""

    driver: str
    pool: str
    name: str
    local: bool
    obj: Obj

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what no other device is called."""
        return self.driver, self.pool, self.name


def on_node(slices: Iterable[Obj], node: NodeState) -> list[Device]:
    """Return the devices that can be had on a node."""
    return [device for found in slices if _reaches(found["spec"], node) for device in _devices(found["spec"])]


def taken(claims: Iterable[Obj]) -> set[tuple[str, str, str]]:
    """Return the devices that claims have."""
    allocations = ((claim.get("status") or {}).get("allocation") or {} for claim in claims)
    return {
        (result["driver"], result["pool"], result["device"])
        for allocation in allocations
        for result in (allocation.get("devices") or {}).get("results") or ()
    }


def allocate(claim: Obj, node: NodeState, free: list[Device], classes: dict[str, Obj]) -> Obj | None:
    """Return the allocation that a claim gets of free devices, which are taken from the list; None without enough."""
    results: list[Obj] = []
    used: list[Device] = []
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        found = next((chosen for chosen in _choices(request, free, classes) if chosen is not None), None)
        if found is None:
            return None
        name, devices = found
        for device in devices:
            free.remove(device)
            results.append({"request": name, "driver": device.driver, "pool": device.pool, "device": device.name})
        used += devices
    here = {"key": "metadata.name", "operator": "In", "values": [node.name]}
    local = any(device.local for device in used)
    term = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]}} if local else {}
    return {"devices": {"results": results}, **term}


def _choices(request: Obj, free: list[Device], classes: dict[str, Obj]) -> Iterator[tuple[str, list[Device]] | None]:
    """Yield what a request, or each of its alternatives, would get."""
    if "exactly" in request:
        yield _chosen(request["name"], request["exactly"], free, classes)
    for choice in request.get("firstAvailable") or ():
        yield _chosen(f"{request['name']}/{choice['name']}", choice, free, classes)


def _chosen(name: str, request: Obj, free: list[Device], classes: dict[str, Obj]) -> tuple[str, list[Device]] | None:
    selectors = (classes.get(request.get("deviceClassName", "")) or {"spec": {}})["spec"].get("selectors") or []
    texts = [
        entry["cel"]["expression"] for entry in (*selectors, *(request.get("selectors") or ())) if "cel" in entry
    ]
    fit = [device for device in free if all(_is(text, device) for text in texts)]
    if request.get("allocationMode") == "All":
        return (name, fit) if fit else None
    count = request.get("count") or 1
    return (name, fit[:count]) if len(fit) >= count else None


def _is(text: str, device: Device) -> bool:
    """Tell whether an expression chooses a device; one that has no value chooses none."""
    try:
        return compiled(text).run({"device": _shown(device)}) is True
    except CelError:
        return False


def _shown(device: Device) -> Obj:
    """Return a device as expressions see it."""
    attributes = {name: _value(value) for name, value in (device.obj.get("attributes") or {}).items()}
    capacity = {
        name: FUNCTIONS["quantity"](found["value"]) for name, found in (device.obj.get("capacity") or {}).items()
    }
    return {
        "driver": device.driver,
        "attributes": _by_domain(attributes, device.driver),
        "capacity": _by_domain(capacity, device.driver),
    }


def _value(attribute: Obj) -> Any:
    kind, value = next(iter(attribute.items()), ("string", ""))
    return FUNCTIONS["semver"](value) if kind == "version" else value


def _by_domain(values: dict[str, Any], driver: str) -> Obj:
    """Return values by domain and name; a name without a domain is the driver's."""
    found: Obj = {driver: {}}
    for full, value in values.items():
        domain, _, name = full.rpartition("/")
        found.setdefault(domain or driver, {})[name] = value
    return found


def _devices(spec: Obj) -> Iterator[Device]:
    local, pool = bool(spec.get("nodeName")), spec["pool"]["name"]
    return (Device(spec["driver"], pool, device["name"], local, device) for device in spec.get("devices") or ())


def _reaches(spec: Obj, node: NodeState) -> bool:
    if spec.get("nodeSelector"):
        return any(matches_term(term, node) for term in spec["nodeSelector"].get("nodeSelectorTerms") or ())
    return bool(spec.get("allNodes")) or spec.get("nodeName") == node.name
