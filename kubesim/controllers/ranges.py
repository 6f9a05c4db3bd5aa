"""Ranges of service addresses: each is kept, by a finalizer, as long as an address would be left without one."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from kubesim.conditions import Verdict, condition_of, renewed, said
from kubesim.controllers.base import Context, Keeper, is_ending
from kubesim.errors import Obj
from kubesim.times import parse

ADDRESSES = "ipaddresses.networking.k8s.io"
KEEP = "networking.k8s.io/service-cidr-finalizer"
MANAGED_BY, ALLOCATOR = "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"
GRACE_S = 10.0
"""What is unused goes this late: until then somebody may still be given an address of it."""
READY = ("True", "", "Kubernetes Service CIDR is ready")
NEEDED = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


class RangeController(Keeper):
    """Says of each range whether addresses come from it, and lets go of those that nobody needs."""

    source = "service-cidr-controller"
    resource = "servicecidrs.networking.k8s.io"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.addresses = self.informers[ADDRESSES]

    def listen(self) -> None:
        """Any range or address that goes may free the ranges that are to go."""
        super().listen()
        for informer in (self.own, self.addresses):
            informer.add_handler(self._gone)

    def _gone(self, old: Obj | None, new: Obj | None) -> None:
        for span in self.own.items() if new is None or is_ending(new) else ():
            self.queue.add(f"/{span['metadata']['name']}")

    async def look_after(self, span: Obj) -> None:
        """Bring one range to what it should say of itself."""
        if not is_ending(span):
            if KEEP not in span["metadata"].get("finalizers", ()):
                span = await self._patch(span, {"finalizers": [KEEP]})
            await self._say(span, READY)
        elif self._is_needed(span):
            await self._say(span, NEEDED)
        else:
            await self._let_go(span)

    async def _let_go(self, span: Obj) -> None:
        since = parse(span["metadata"]["deletionTimestamp"])
        left = GRACE_S - (self.clock.now() - since).total_seconds()
        if left > 0:
            self.queue.add_after(f"/{span['metadata']['name']}", left)
        elif KEEP in span["metadata"].get("finalizers", ()):
            await self._patch(span, {"$deleteFromPrimitiveList/finalizers": [KEEP]})

    async def _patch(self, span: Obj, metadata: Obj) -> Obj:
        return await self.own.patch(span, {"metadata": metadata}, patch_type="strategic")

    async def _say(self, span: Obj, says: Verdict) -> None:
        old = condition_of(span.get("status"), "Ready")
        if said(old) != says:
            condition = renewed(old, "Ready", says, self.clock.now())
            await self.write_status(self.own, span, {**span.get("status", {}), "conditions": [condition]})

    def _is_needed(self, span: Obj) -> bool:
        """Tell whether an address that was given would belong to no range without this one."""
        own, others = _networks([span]), _networks([other for other in self.own.items() if not _same(other, span)])
        given = (ip_address(found["metadata"]["name"]) for found in self.addresses.items() if _is_given(found))
        return any(any(one in net for net in own) and not any(one in net for net in others) for one in given)


def _networks(spans: list[Obj]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(text) for span in spans for text in span["spec"]["cidrs"]]


def _same(one: Obj, other: Obj) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"])


def _is_given(address: Obj) -> bool:
    """Tell whether an address was given to a service, and not written down by somebody."""
    return (address["metadata"].get("labels") or {}).get(MANAGED_BY) == ALLOCATOR
