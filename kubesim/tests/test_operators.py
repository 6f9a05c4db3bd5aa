"""An add-on that works on a cluster's objects: a cloud's firewall, and how it is broken."""

from __future__ import annotations

from kubesim.tests.installed import install
from kubesim.tests.test_network import curl, furnish
from kubesim.tests.world import container, pod, world

FIREWALLS = "computefirewalls.compute.cnrm.cloud.google.com"


async def test_a_firewall_rule_closes_a_way_until_it_is_deleted():
    async with world(count=1) as w:
        await install(w, "config-connector")
        await furnish(w)
        deny = [{"protocol": "tcp", "ports": ["443"]}]
        spec = {"direction": "EGRESS", "deny": deny, "destinationRanges": ["0.0.0.0/0"], "priority": 900}
        rule = {"apiVersion": "compute.cnrm.cloud.google.com/v1beta1", "kind": "ComputeFirewall"}
        await w.create(FIREWALLS, {**rule, "metadata": {"name": "deny-egress"}, "spec": spec})
        await w.tick(2)
        assert (await curl(w, "https://pypi.org", "-m", "5"))[0] == 28
        found = await w.client.get(FIREWALLS, "deny-egress", "default")
        assert found["status"]["conditions"][0]["reason"] == "UpToDate"
        await w.create("pods", pod("late", container("redis:7")))
        await w.tick(45)
        (state,) = (await w.pod("late"))["status"]["containerStatuses"]
        assert state["state"]["waiting"]["reason"] == "ImagePullBackOff"
        await w.client.delete(FIREWALLS, "deny-egress", "default")
        await w.tick(2)
        assert (await curl(w, "https://pypi.org"))[0] == 0
