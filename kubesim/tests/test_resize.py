"""Pods that are resized while they run: what is asked, what the node grants, and what is told of it."""

from kubesim.tests.containers import state
from kubesim.tests.world import container, pod, world


async def resize(w, **amounts):
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": amounts}}]}}
    await w.client.patch("pods", "web", "default", change, patch_type="strategic", subresource="resize")
    await w.clock.advance(0)


async def conditions(w):
    found = (await w.pod("web"))["status"]["conditions"]
    return {item["type"]: item for item in found if item["type"].startswith("PodResize")}


async def begin(w, **more):
    asked = {"requests": {"cpu": "1", "memory": "1Gi"}}
    await w.create("pods", pod("web", container("nginx:1.27", resources=asked, **more)))
    await w.tick(2)


async def test_a_change_is_granted_then_in_force_and_then_told():
    async with world(count=1) as w:
        await begin(w)
        await resize(w, cpu="2")
        (found,) = (await conditions(w)).values()
        assert (found["type"], found["status"], found["observedGeneration"]) == ("PodResizeInProgress", "True", 2)
        status = state(await w.pod())
        assert status["allocatedResources"]["cpu"] == "2"
        assert status["resources"]["requests"]["cpu"] == "1"
        await w.tick(1)
        assert not await conditions(w)
        status = state(await w.pod())
        assert status["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}
        assert status["restartCount"] == 0
        wanted = '{"containers":[{"name":"main","resources":{"requests":{"cpu":"2","memory":"1Gi"}}}]}'
        assert await w.messages("ResizeCompleted") == [f"Pod resize completed: {wanted}"]
        await w.check_models()


async def test_what_no_node_could_give_is_infeasible_and_changes_nothing():
    async with world(count=1) as w:
        await begin(w)
        await resize(w, cpu="10000")
        await w.tick(1)
        found = (await conditions(w))["PodResizePending"]
        assert found["reason"] == "Infeasible"
        assert found["message"].startswith("Node didn't have enough capacity: cpu, requested: 10000000, capacity: ")
        assert state(await w.pod())["resources"]["requests"]["cpu"] == "1"
        await resize(w, cpu="1")
        await w.tick(1)
        assert not await conditions(w)
        assert await w.messages("ResizeCompleted") == []


async def test_what_others_hold_is_deferred_until_they_are_gone():
    async with world(count=1) as w:
        await begin(w)
        (node,) = await w.items("nodes", "")
        cores = int(node["status"]["allocatable"]["cpu"].removesuffix("m")) // (
            1000 if "m" in node["status"]["allocatable"]["cpu"] else 1
        )
        big = {"requests": {"cpu": str(cores - 10)}}
        await w.create("pods", pod("other", container("nginx:1.27", resources=big)))
        await w.tick(2)
        await resize(w, cpu="50")
        await w.tick(1)
        found = (await conditions(w))["PodResizePending"]
        assert found["reason"] == "Deferred"
        assert found["message"].startswith("Node didn't have enough resource: cpu, requested: 50000, used: ")
        await w.client.delete("pods", "other", "default", grace_seconds=0)
        await w.tick(10)
        assert not await conditions(w)
        assert state(await w.pod())["resources"]["requests"]["cpu"] == "50"


async def test_a_container_whose_policy_says_so_starts_anew():
    async with world(count=1) as w:
        await begin(w, resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}])
        await resize(w, cpu="2")
        await w.tick(5)
        assert state(await w.pod())["restartCount"] == 0
        await resize(w, memory="2Gi")
        await w.tick(5)
        status = state(await w.pod())
        assert status["restartCount"] == 1
        assert status["resources"]["requests"] == {"cpu": "2", "memory": "2Gi"}
        assert "running" in status["state"]
        assert await w.messages("Killing") == ["Container main resize requires restart"]
        assert not await conditions(w)
