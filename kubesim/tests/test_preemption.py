"""Who makes room for whom, and which waiting pod is looked at again."""

from kubesim.tests.world import container, pod, world


def sized(name, gpus, priority="", **spec):
    main = container("busybox:1.36", "sleep", "9999", resources={"limits": {"nvidia.com/gpu": str(gpus)}})
    return pod(name, main, **({"priorityClassName": priority} if priority else {}), **spec)


async def classes(w, **values):
    for name, value in values.items():
        body = {"metadata": {"name": name}, "value": value}
        await w.client.create("priorityclasses.scheduling.k8s.io", body)


async def refused(w, name):
    """How often a pod has been refused."""
    found = [e for e in await w.events("FailedScheduling") if e["involvedObject"]["name"] == name]
    return sum((event.get("series") or {}).get("count", 1) for event in found)


async def test_a_victim_ends_and_the_higher_priority_takes_its_place():
    async with world(count=1) as w:
        await classes(w, high=1000)
        await w.create("pods", sized("small", 8, terminationGracePeriodSeconds=5))
        await w.tick()
        await w.create("pods", sized("large", 8, "high"))
        large, small = await w.pod("large"), await w.pod("small")
        assert large["status"]["nominatedNodeName"] == w.node_names[0]
        assert small["metadata"]["deletionTimestamp"]
        (text,) = await w.messages("Preempted")
        assert text == f"Preempted by pod {large['metadata']['uid']} on node {w.node_names[0]}"
        await w.tick(20)
        assert (await w.pod("large"))["status"]["phase"] == "Running"
        assert [found["metadata"]["name"] for found in await w.items("pods")] == ["large"]
        await w.check_models()


async def test_a_victim_is_told_why_it_goes():
    async with world(count=1) as w:
        await classes(w, high=1000)
        await w.create("pods", sized("small", 8))
        await w.tick()
        await w.create("pods", sized("large", 8, "high"))
        conditions = (await w.pod("small"))["status"]["conditions"]
        found = next(c for c in conditions if c["type"] == "DisruptionTarget")
        assert (found["status"], found["reason"]) == ("True", "PreemptionByScheduler")
        assert found["message"] == "default-scheduler: preempting to accommodate a higher priority pod"


async def test_of_two_waiting_pods_the_more_important_goes_first():
    async with world(count=1) as w:
        await classes(w, high=1000, higher=2000)
        await w.create("pods", sized("first", 8, "higher"))
        await w.create("pods", sized("less", 8))
        await w.create("pods", sized("more", 8, "high"))
        await w.client.delete("pods", "first", "default", grace_seconds=0)
        await w.tick(5)
        assert (await w.pod("more"))["spec"].get("nodeName")
        assert not (await w.pod("less"))["spec"].get("nodeName")


async def test_a_change_that_cannot_help_gives_no_second_look():
    async with world(count=2) as w:
        await w.create("pods", sized("waits", 16))
        await w.client.patch("nodes", w.node_names[0], "", {"metadata": {"labels": {"colour": "red"}}})
        await w.client.patch("nodes", w.node_names[1], "", {"spec": {"unschedulable": True}})
        await w.create("pods", sized("other", 1))
        await w.tick(20)
        assert await refused(w, "waits") == 1


async def test_a_pod_that_fits_nowhere_is_looked_at_again_after_five_minutes():
    async with world(count=1) as w:
        await w.create("pods", sized("waits", 16))
        await w.tick(299)
        assert await refused(w, "waits") == 1
        await w.tick(2)
        assert await refused(w, "waits") == 2
