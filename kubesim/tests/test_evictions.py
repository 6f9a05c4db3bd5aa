"""Taints that turn pods out, nodes that are gone, and autoscalers in two versions."""

from __future__ import annotations

from kubesim import kubelet
from kubesim.schema.kinds import registry
from kubesim.tests.world import deployment, pod, world

UNREACHABLE = "node.kubernetes.io/unreachable"
HPA = "horizontalpodautoscalers.autoscaling"


async def lose(cluster, *names):
    """Let only the other kubelets live on."""
    await cluster.kubelets.stop()
    rest = [name for name in cluster.node_names if name not in names]
    cluster.kubelets = await kubelet.start(cluster.client, cluster.clock, *rest)


async def taints(cluster, number):
    node = await cluster.client.get("nodes", cluster.node_names[number])
    return [(found["key"], found["effect"]) for found in node["spec"].get("taints") or ()]


async def taint(cluster, name, effect="NoExecute", key="team"):
    entry = {"key": key, "value": "a", "effect": effect}
    await cluster.client.patch("nodes", name, "", {"spec": {"taints": [entry]}})
    await cluster.tick(1)


async def test_a_pod_that_does_not_bear_a_taint_goes_at_once():
    async with world(1) as cluster:
        await cluster.create("pods", pod("a"))
        await cluster.tick(10)
        await taint(cluster, cluster.node_names[0])
        made = await cluster.pod("a")
        (condition,) = [c for c in made["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert condition["reason"] == "DeletionByTaintManager"
        assert condition["message"] == "Taint manager: deleting due to NoExecute taint"
        assert made["metadata"]["deletionTimestamp"]
        assert await cluster.messages("TaintManagerEviction") == ["Marking for deletion Pod default/a"]


async def test_a_pod_that_bears_a_taint_for_a_while_goes_later_or_not_at_all():
    async with world(1) as cluster:
        bears = {"key": "team", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
        for name in ("a", "b"):
            await cluster.create("pods", pod(name, tolerations=[bears]))
        await cluster.tick(10)
        await taint(cluster, cluster.node_names[0])
        await cluster.tick(50)
        assert not any("deletionTimestamp" in each["metadata"] for each in await cluster.items("pods"))
        await cluster.client.patch("nodes", cluster.node_names[0], "", {"spec": {"taints": None}})
        await cluster.tick(60)
        assert len(await cluster.items("pods")) == 2
        cancelled = await cluster.messages("TaintManagerEviction")
        assert sorted(cancelled) == [f"Cancelling deletion of Pod default/{name}" for name in ("a", "b")]


async def test_a_silent_node_loses_its_pods_after_five_minutes():
    async with world(2) as cluster:
        await cluster.create("deployments.apps", deployment("web", replicas=2))
        await cluster.tick(30)
        await lose(cluster, cluster.node_names[1])
        await cluster.tick(75)
        lost = f"Node {cluster.node_names[1]} status is now: NodeNotReady"
        assert set(await cluster.messages("NodeNotReady")) == {"Node is not ready", lost}
        assert await taints(cluster, 1) == [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
        assert not any("deletionTimestamp" in each["metadata"] for each in await cluster.items("pods"))
        await cluster.tick(310)
        going = [each for each in await cluster.items("pods") if "deletionTimestamp" in each["metadata"]]
        assert [each["spec"]["nodeName"] for each in going] == [cluster.node_names[1]]


async def test_nodes_that_are_all_silent_lose_no_pods():
    async with world(2) as cluster:
        await cluster.create("deployments.apps", deployment("web", replicas=2))
        await cluster.tick(30)
        await lose(cluster, *cluster.node_names)
        await cluster.tick(500)
        assert await taints(cluster, 0) == [(UNREACHABLE, "NoSchedule")]
        assert not any("deletionTimestamp" in each["metadata"] for each in await cluster.items("pods"))


async def test_all_lost_nodes_are_emptied_while_others_are_heard_of():
    async with world(5) as cluster:
        await cluster.tick(30)
        await lose(cluster, *cluster.node_names[3:])
        await cluster.tick(60)
        assert [len(await taints(cluster, number)) for number in range(5)] == [0, 0, 0, 2, 2]


async def test_a_node_that_is_heard_of_again_loses_its_taints():
    async with world(2) as cluster:
        await cluster.tick(30)
        await lose(cluster, cluster.node_names[1])
        await cluster.tick(75)
        await kubelet.start(cluster.client, cluster.clock, cluster.node_names[1])
        await cluster.tick(10)
        assert await taints(cluster, 1) == []


async def test_pressure_keeps_pods_off_a_node():
    async with world(2) as cluster:
        await cluster.tick(5)
        (node, _) = await cluster.items("nodes", "")
        conditions = [{**c, "status": "True"} for c in node["status"]["conditions"] if c["type"] == "MemoryPressure"]
        patch = {"status": {"conditions": conditions}}
        name = node["metadata"]["name"]
        await cluster.client.patch("nodes", name, "", patch, patch_type="strategic", subresource="status")
        await cluster.tick(1)
        found = (await cluster.client.get("nodes", name))["spec"]["taints"]
        assert [(t["key"], t["effect"]) for t in found] == [("node.kubernetes.io/memory-pressure", "NoSchedule")]


async def test_a_node_that_never_reports_is_unknown_after_a_minute():
    async with world(1) as cluster:
        await cluster.client.create("nodes", {"metadata": {"name": "new"}})
        await cluster.tick(70)
        conditions = (await cluster.client.get("nodes", "new"))["status"]["conditions"]
        told = {(c["status"], c["reason"], c["message"]) for c in conditions}
        assert told == {("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")}
        assert [c["type"] for c in conditions] == ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]


async def test_nodes_are_greeted_and_taken_leave_of():
    async with world(1) as cluster:
        name = cluster.node_names[0]
        await cluster.client.delete("nodes", name)
        await cluster.tick(6)
        assert await cluster.messages("RegisteredNode") == [
            f"Node {name} event: Registered Node {name} in Controller"
        ]
        assert await cluster.messages("RemovingNode") == [f"Node {name} event: Removing Node {name} from Controller"]


async def test_a_going_pod_of_a_node_out_of_service_is_removed():
    async with world(2) as cluster:
        await cluster.create("pods", pod("a", nodeName=cluster.node_names[1]))
        await cluster.tick(30)
        await lose(cluster, cluster.node_names[1])
        await cluster.tick(60)
        await cluster.client.delete("pods", "a", "default")
        await taint(cluster, cluster.node_names[1], key="node.kubernetes.io/out-of-service")
        await cluster.tick(40)
        assert await cluster.items("pods") == []


async def test_the_pods_of_a_deleted_node_are_collected():
    async with world(1) as cluster:
        await cluster.create("pods", pod("a"))
        await cluster.tick(10)
        await cluster.client.delete("nodes", cluster.node_names[0])
        await cluster.tick(30)
        assert len(await cluster.items("pods")) == 1
        await cluster.tick(60)
        assert await cluster.items("pods") == []


async def test_an_autoscaler_of_the_old_version_is_the_same_in_the_new_one():
    async with world() as cluster:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        old = registry.by_path("autoscaling", "v1", "horizontalpodautoscalers")
        wanted = {"maxReplicas": 5, "targetCPUUtilizationPercentage": 40, "scaleTargetRef": reference}
        operations = cluster.client.operations
        made = operations.create(old, "default", {"metadata": {"name": "web"}, "spec": wanted})
        assert made["spec"] == {**wanted, "minReplicas": 1}
        new = await cluster.client.get(HPA, "web", "default")
        target = {"type": "Utilization", "averageUtilization": 40}
        cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        assert new["spec"]["metrics"] == [cpu]
        operations.patch(old, "default", "web", {"spec": {"targetCPUUtilizationPercentage": 60}})
        new = await cluster.client.get(HPA, "web", "default")
        assert [metric["resource"]["target"]["averageUtilization"] for metric in new["spec"]["metrics"]] == [60]
