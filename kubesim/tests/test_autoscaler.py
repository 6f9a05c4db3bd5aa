"""A pool that grows for pods that find no room, and shrinks when its nodes stand idle."""

from __future__ import annotations

from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import container, pod, world

GROUP = "https://www.googleapis.com/compute/v1/projects/ml-prod/zones/us-central1-a/instanceGroups/gke-ml-prod-h100-pool-grp"


async def autoscaled(w, *args):
    await install(w, "cluster-autoscaler")
    spec = {"containers": [{"name": "cluster-autoscaler", "args": list(args)}]}
    patch = {"spec": {"template": {"spec": spec}}}
    await w.client.patch("deployments.apps", "cluster-autoscaler", "kube-system", patch, patch_type="strategic")
    await w.tick(40)


async def names(w):
    return sorted(node["metadata"]["name"] for node in await w.items("nodes", ""))


async def test_a_pod_that_finds_no_room_brings_a_node():
    async with world(count=1) as w:
        await autoscaled(w, "--nodes=1:3:h100-pool")
        await w.create("pods", pod("first", trainer(8)))
        await w.tick(5)
        await w.create("pods", pod("second", trainer(8)))
        await w.tick(15)
        assert await w.messages("TriggeredScaleUp") == [f"pod triggered scale-up: [{{{GROUP} 1->2 (max: 3)}}]"]
        assert (await w.pod("second"))["status"]["phase"] == "Pending"
        await w.tick(230)
        assert len(await names(w)) == 2
        found = await w.pod("second")
        assert found["status"]["phase"] == "Running"
        assert found["spec"]["nodeName"] not in w.node_names
        assert w.kubelets.gpus(found["spec"]["nodeName"]).board.devices[0].tasks
        await w.check_models()


async def test_two_pods_that_share_a_node_bring_one():
    async with world(count=1) as w:
        await autoscaled(w, "--nodes=1:4:h100-pool")
        for name, gpus in (("a", 8), ("b", 4), ("c", 4)):
            await w.create("pods", pod(name, trainer(gpus)))
        await w.tick(120)
        assert len(await names(w)) == 2
        assert len(await w.messages("TriggeredScaleUp")) == 1


async def test_a_pod_that_no_node_of_any_pool_could_take_brings_none():
    async with world(count=1) as w:
        await autoscaled(w, "--nodes=1:3:h100-pool")
        await w.create("pods", pod("huge", trainer(16)))
        await w.create("pods", pod("choosy", trainer(1), nodeSelector={"zone": "moon"}))
        await w.tick(30)
        assert sorted(await w.messages("NotTriggerScaleUp")) == [
            "pod didn't trigger scale-up: 1 Insufficient nvidia.com/gpu",
            "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector",
        ]
        assert len(await names(w)) == 1


async def test_a_pool_has_an_end():
    async with world(count=1) as w:
        await autoscaled(w, "--nodes=1:1:h100-pool")
        await w.create("pods", pod("a", trainer(8)))
        await w.create("pods", pod("b", trainer(8)))
        await w.tick(30)
        assert await w.messages("NotTriggerScaleUp") == ["pod didn't trigger scale-up: 1 max node group size reached"]


async def test_an_idle_node_goes():
    async with world(count=3) as w:
        await autoscaled(w, "--nodes=1:3:h100-pool", "--scale-down-unneeded-time=5m")
        await w.create("pods", pod("busy", container("busybox:1.36", "sleep", "36000")))
        await w.tick(330)
        left = await names(w)
        assert len(left) < 3
        assert (await w.pod("busy"))["spec"]["nodeName"] in left
        assert "node removed by cluster autoscaler" in await w.messages("ScaleDown")
        await w.tick(120)
        assert (await w.pod("busy"))["status"]["phase"] == "Running"
        assert await names(w) == left


async def test_a_pool_keeps_its_least_size():
    async with world(count=2) as w:
        await autoscaled(w, "--nodes=2:3:h100-pool", "--scale-down-unneeded-time=1m")
        await w.tick(200)
        assert len(await names(w)) == 2
