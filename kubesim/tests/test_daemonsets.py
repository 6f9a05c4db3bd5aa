"""Daemon sets: a pod per node, taints, updates."""

from __future__ import annotations

from kubesim.tests.world import daemon_set, world

SETS = "daemonsets.apps"


async def placed(cluster):
    return sorted(pod["spec"].get("nodeName", "") for pod in await cluster.items("pods"))


async def test_every_node_has_a_pod_bound_by_the_scheduler():
    async with world() as cluster:
        await cluster.create(SETS, daemon_set("agent"))
        await cluster.tick(30)
        assert await placed(cluster) == sorted(cluster.node_names)
        (made,) = await cluster.items(SETS)
        status = made["status"]
        assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (3, 3, 3)
        assert "numberUnavailable" not in status
        assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
        await cluster.check_models()


async def test_a_cordoned_node_keeps_its_pod_and_a_tainted_one_gets_none():
    async with world() as cluster:
        first, second, _ = cluster.node_names
        await cluster.client.patch("nodes", first, "", {"spec": {"unschedulable": True}})
        taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
        await cluster.client.patch("nodes", second, "", {"spec": {"taints": [taint]}})
        await cluster.create(SETS, daemon_set("agent"))
        await cluster.tick(30)
        assert second not in await placed(cluster)
        assert first in await placed(cluster)


async def test_what_does_not_bear_a_new_taint_is_told_to_go():
    async with world() as cluster:
        await cluster.create(SETS, daemon_set("agent"))
        await cluster.tick(30)
        name = cluster.node_names[0]
        taint = {"key": "team", "value": "a", "effect": "NoExecute"}
        await cluster.client.patch("nodes", name, "", {"spec": {"taints": [taint]}})
        await cluster.tick(60)
        assert name not in await placed(cluster)


async def test_only_selected_nodes_have_a_pod():
    async with world() as cluster:
        wanted = daemon_set("agent")
        wanted["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
        await cluster.create(SETS, wanted)
        assert await placed(cluster) == []
        await cluster.client.patch("nodes", cluster.node_names[1], "", {"metadata": {"labels": {"disk": "fast"}}})
        await cluster.tick(10)
        assert await placed(cluster) == [cluster.node_names[1]]


async def test_an_update_takes_one_node_at_a_time():
    async with world() as cluster:
        await cluster.create(SETS, daemon_set("agent"))
        await cluster.tick(30)
        template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.26"}]}}
        await cluster.client.patch(SETS, "agent", "default", {"spec": {"template": template}}, patch_type="strategic")
        await cluster.tick(0.1)
        pods = await cluster.items("pods")
        assert sum("deletionTimestamp" in pod["metadata"] for pod in pods) == 1
        await cluster.tick(180)
        assert {pod["spec"]["containers"][0]["image"] for pod in await cluster.items("pods")} == {"nginx:1.26"}
        (made,) = await cluster.items(SETS)
        assert made["status"]["updatedNumberScheduled"] == 3
        assert made["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == "2"


async def test_a_surge_replaces_as_many_pods_at_a_time():
    async with world() as cluster:
        rolling = {"maxSurge": 1, "maxUnavailable": 0}
        await cluster.create(
            SETS, daemon_set("agent", updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
        )
        await cluster.tick(30)
        template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.26"}]}}
        await cluster.client.patch(SETS, "agent", "default", {"spec": {"template": template}}, patch_type="strategic")
        await cluster.tick(0.1)
        assert sum("deletionTimestamp" in pod["metadata"] for pod in await cluster.items("pods")) == 1
        await cluster.tick(240)
        assert {pod["spec"]["containers"][0]["image"] for pod in await cluster.items("pods")} == {"nginx:1.26"}
        assert await placed(cluster) == sorted(cluster.node_names)


async def test_pods_are_adopted_and_let_go():
    async with world() as cluster:
        await cluster.create(SETS, daemon_set("agent"))
        await cluster.tick(5)
        first, second, _ = [pod["metadata"]["name"] for pod in await cluster.items("pods")]
        await cluster.client.patch("pods", first, "default", {"metadata": {"ownerReferences": None}})
        await cluster.client.patch("pods", second, "default", {"metadata": {"labels": {"app": "other"}}})
        await cluster.tick(5)
        assert (await cluster.client.get("pods", first, "default"))["metadata"]["ownerReferences"]
        assert "ownerReferences" not in (await cluster.client.get("pods", second, "default"))["metadata"]
        assert len(await cluster.items("pods")) == 4


async def test_on_delete_waits_for_somebody_to_delete():
    async with world() as cluster:
        await cluster.create(SETS, daemon_set("agent", updateStrategy={"type": "OnDelete"}))
        await cluster.tick(5)
        template = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
        await cluster.client.patch(SETS, "agent", "default", {"spec": {"template": template}}, patch_type="strategic")
        await cluster.tick(20)
        assert {pod["spec"]["containers"][0]["image"] for pod in await cluster.items("pods")} == {"nginx:1.27"}
        (made,) = await cluster.items(SETS)
        assert "updatedNumberScheduled" not in made["status"]
        await cluster.client.delete("pods", (await cluster.items("pods"))[0]["metadata"]["name"], "default")
        await cluster.tick(40)
        (made,) = await cluster.items(SETS)
        assert made["status"]["updatedNumberScheduled"] == 1


async def test_revisions_with_living_pods_are_kept_beyond_the_limit():
    async with world() as cluster:
        made = daemon_set("agent", updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=0)
        await cluster.create(SETS, made)
        await cluster.tick(5)
        for image in ("nginx:1.26", "nginx:1.28"):
            template = {"spec": {"containers": [{"name": "main", "image": image}]}}
            spec = {"spec": {"template": template}}
            await cluster.client.patch(SETS, "agent", "default", spec, patch_type="strategic")
            await cluster.tick(5)
        revisions = [each["revision"] for each in await cluster.items("controllerrevisions.apps")]
        assert sorted(revisions) == [1, 3]
