"""EndpointSlices of Endpoints that somebody wrote by hand, for services that select no pods."""

from __future__ import annotations

import ipaddress

from kubesim.controllers.base import Context, Keeper, is_ending
from kubesim.controllers.slices import SLICES, TRIGGER, Group, SliceKeeper
from kubesim.errors import Obj

SKIP = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


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
