"""Config Connector's part that manages the VPC firewall: ``ComputeFirewall`` objects become rules of the network."""

from __future__ import annotations

from kubesim.addons.operator import Operator
from kubesim.controllers.base import Context, Controller
from kubesim.errors import ApiError
from kubesim.kubelet.duties import Post
from kubesim.network.firewall import rules
from kubesim.times import stamp

RESOURCE = "computefirewalls.compute.cnrm.cloud.google.com"
UP_TO_DATE = {"type": "Ready", "status": "True", "reason": "UpToDate", "message": "The resource is up to date"}


class FirewallController(Controller):
    """Brings the network's rules to what the objects say; what it has brought stays when it goes."""

    source = "computefirewall-controller"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._firewall = post.fabric.firewall
        self._objects = self.informers[RESOURCE]

    def listen(self) -> None:
        """Watch the rules."""
        self.watch_own(self._objects)

    async def sync(self, namespace: str, name: str) -> None:
        """Take all rules in, and say of one that it is in force."""
        self._firewall.take(RESOURCE, rules(self._objects.items()))
        found = self._objects.get(namespace, name)
        if found is None or (found.get("status") or {}).get("observedGeneration") == found["metadata"].get(
            "generation"
        ):
            return
        ready = {**UP_TO_DATE, "lastTransitionTime": stamp(self.clock.now())}
        status = {"conditions": [ready], "observedGeneration": found["metadata"].get("generation")}
        try:
            await self.client.patch(RESOURCE, name, namespace, {"status": status}, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
            return
        await self.recorder.normal(found, "UpToDate", "The resource is up to date")


def begin(post: Post) -> Operator:
    """Begin to work."""
    return Operator(post, FirewallController)
