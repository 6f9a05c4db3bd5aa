"""EndpointSlices: one set for each list of ports, no more than a hundred endpoints in each.

Endpoints that somebody wrote by hand, for services that select no pods, are mirrored in slices.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator

from kubesim.controllers.base import Context, Controller, Keeper, is_ending, owner_reference
from kubesim.errors import Obj, tolerating

SLICES = "endpointslices.discovery.k8s.io"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE = "kubernetes.io/service-name"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
LARGEST = 100

Group = tuple[str, list[Obj], list[Obj]]
"""Address type, ports and endpoints."""
SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class SliceKeeper:
    """Keeps the slices of one controller's objects; ``lone``: one without endpoints where there are none."""

    def __init__(self, controller: Controller, name: str, *, lone: bool = True) -> None:
        self._name = name
        self._lone = lone
        self._slices = controller.informers[SLICES]

    def mine(self, owner: Obj) -> list[Obj]:
        """Return the slices that an object has."""
        found = self._slices.by("controller", owner["metadata"]["uid"])
        return [each for each in found if (each["metadata"].get("labels") or {}).get(MANAGED_BY) == self._name]

    async def keep(self, owner: Obj, meta: Obj, groups: Iterable[Group], trigger: str) -> None:
        """Make the slices of ``owner`` those of ``groups``; ``meta`` has their labels and annotations."""
        old = sorted(self.mine(owner), key=lambda each: str(each["metadata"]["name"]))
        parts = list(_parts(groups, lone=self._lone))
        wanted = {_key(family, ports) for family, ports, _ in parts}
        by_ports: dict[str, list[Obj]] = {}
        for each in old:
            key = _key(each["addressType"], each.get("ports"))
            by_ports.setdefault(key if key in wanted else each["addressType"], []).append(each)
        for family, ports, endpoints in parts:
            same = by_ports.get(_key(family, ports)) or by_ports.get(family) or []
            body = {"addressType": family, "endpoints": endpoints or None, "ports": ports or None}
            await self._write(owner, same.pop(0) if same else None, body, meta, trigger)
        for left in by_ports.values():
            for each in left:
                await self._slices.delete(each)

    async def _write(self, owner: Obj, old: Obj | None, body: Obj, meta: Obj, trigger: str) -> None:
        labels = {**meta["labels"], SERVICE: owner["metadata"]["name"], MANAGED_BY: self._name}
        notes = {**(meta.get("annotations") or {}), **({TRIGGER: trigger} if trigger else {})}
        fresh: Obj = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **body}
        with tolerating(403, 404, 409):  # the namespace is going, or somebody else was first
            if old is None:
                meta = {"generateName": f"{owner['metadata']['name']}-", "namespace": owner["metadata"]["namespace"]}
                meta |= {"labels": labels, "annotations": notes, "ownerReferences": [owner_reference(owner)]}
                await self._slices.create({**fresh, "metadata": meta})
            elif _shows(old) != (labels, body["endpoints"], body["ports"]):
                kept = {**old["metadata"], "labels": labels, "annotations": notes}
                await self._slices.update({**fresh, "metadata": kept})


def _parts(groups: Iterable[Group], *, lone: bool) -> Iterator[Group]:
    """Cut groups that are too large; where nothing is left, one slice without endpoints stays (``lone``)."""
    found: list[Group] = [group for group in groups if group[2]]
    for family, ports, endpoints in found or ([("IPv4", [], [])] if lone else []):
        for start in range(0, max(1, len(endpoints)), LARGEST):
            yield family, ports, endpoints[start : start + LARGEST]


def _key(family: str, ports: list[Obj] | None) -> str:
    return json.dumps([family, ports or []], sort_keys=True)


def _shows(old: Obj) -> tuple[dict[str, str], list[Obj] | None, list[Obj] | None]:
    return old["metadata"].get("labels") or {}, old.get("endpoints") or None, old.get("ports") or None


class MirroringController(Keeper):
    """Keeps the slices of Endpoints that have no other keeper."""

    source = "endpoint-slice-mirroring-controller"
    resource = "endpoints"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.services = self.informers["services"]
        self.slices = self.informers[SLICES]
        self._keeper = SliceKeeper(self, "endpointslicemirroring-controller.k8s.io", lone=False)

    def listen(self) -> None:
        """Watch Endpoints, their services and their slices."""
        super().listen()
        self.watch_own(self.services)
        self.watch_owned(self.slices, self.kind)

    async def look_after(self, endpoints: Obj) -> None:
        """Mirror one Endpoints where that is ours to do; slices go with their owner."""
        meta = endpoints["metadata"]
        service = self.services.get(meta["namespace"], meta["name"])
        if service is None or service["spec"].get("selector") or is_ending(endpoints) or not _is_wanted(endpoints):
            return
        notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in (TRIGGER, LAST_APPLIED)}
        trigger = (meta.get("annotations") or {}).get(TRIGGER, "")
        labels = dict(meta.get("labels") or {})
        await self._keeper.keep(endpoints, {"labels": labels, "annotations": notes}, _groups(endpoints), trigger)


def _is_wanted(endpoints: Obj) -> bool:
    meta = endpoints["metadata"]
    return (meta.get("labels") or {}).get(SKIP) != "true" and LEADER not in (meta.get("annotations") or {})


def _groups(endpoints: Obj) -> list[Group]:
    found: list[Group] = []
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", **port} for port in subset.get("ports") or ()]
        families: dict[str, list[Obj]] = {}
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(field) or ():
                families.setdefault(_family(address["ip"]), []).append(_endpoint(address, ready))
        found += [(family, ports, listed) for family, listed in families.items()]
    return found


def _family(ip: str) -> str:
    return f"IPv{ipaddress.ip_address(ip).version}"


def _endpoint(address: Obj, ready: bool) -> Obj:
    more = {key: address[key] for key in ("hostname", "nodeName", "targetRef") if address.get(key)}
    return {"addresses": [address["ip"]], "conditions": {"ready": ready}, **more}
