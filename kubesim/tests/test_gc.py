"""Owners and what they own, and the end of a namespace."""

import pytest

from kubesim.errors import ApiError
from kubesim.tests.world import container, deployment, job, pod, world


async def test_deleting_in_the_background_takes_everything_owned():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(2)
        await w.client.delete("deployments.apps", "web", "default", propagation="Background")
        await w.tick(3)
        for resource in ("deployments.apps", "replicasets.apps", "pods"):
            assert await w.items(resource) == []


async def test_deleting_in_the_foreground_takes_the_owner_last():
    async with world() as w:
        main = container("busybox:1.36", "sleep", "9999")
        await w.create("jobs.batch", job("deaf", main))
        await w.tick(2)
        await w.client.delete("jobs.batch", "deaf", "default", propagation="Foreground")
        await w.tick(5)
        (held,) = await w.items("jobs.batch")
        assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
        await w.tick(30)
        assert await w.items("jobs.batch") == []
        assert await w.items("pods") == []


async def test_orphans_stay_and_forget_their_owner():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(2)
        await w.client.delete("deployments.apps", "web", "default", propagation="Orphan")
        await w.tick(3)
        (rs,) = await w.items("replicasets.apps")
        assert "ownerReferences" not in rs["metadata"]
        assert len(await w.items("pods")) == 3


async def test_an_object_whose_owner_never_was_goes():
    async with world() as w:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "00000000-dead-beef"}
        meta = {"name": "child", "ownerReferences": [owner]}
        await w.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await w.tick(1)
        assert "child" not in [obj["metadata"]["name"] for obj in await w.items("configmaps")]


async def test_a_namespace_is_furnished():
    async with world() as w:
        made = await w.client.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
        )
        assert made["status"]["phase"] == "Active"
        await w.tick(1)
        assert [obj["metadata"]["name"] for obj in await w.items("serviceaccounts", "ml")] == ["default"]
        await w.client.delete("serviceaccounts", "default", "ml")
        await w.tick(1)
        assert len(await w.items("serviceaccounts", "ml")) == 1
        await w.check_models()


async def test_a_namespace_takes_everything_along_and_stays_gone():
    async with world() as w:
        await w.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        await w.client.create(
            "jobs.batch", job("j", container("busybox:1.36", "false"), backoffLimit=99), namespace="ml"
        )
        await w.client.create("deployments.apps", deployment("web"), namespace="ml")
        await w.tick(4)
        await w.client.delete("namespaces", "ml")
        await w.tick(0.01)
        assert (await w.client.get("namespaces", "ml"))["status"]["phase"] == "Terminating"
        with pytest.raises(ApiError, match="because it is being terminated"):
            await w.client.create("pods", pod("late"), namespace="ml")
        await w.tick(3)
        with pytest.raises(ApiError, match='namespaces "ml" not found'):
            await w.client.get("namespaces", "ml")
        for resource in ("pods", "jobs.batch", "replicasets.apps", "events", "serviceaccounts"):
            assert await w.items(resource, "ml") == []
        await w.tick(600)
        with pytest.raises(ApiError):
            await w.client.get("namespaces", "ml")


@pytest.mark.parametrize("resource", ["statefulsets.apps", "daemonsets.apps"])
async def test_a_set_that_is_deleted_in_the_foreground_goes_with_its_revisions(resource):
    async with world() as w:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container("busybox:1.36")]}}
        spec = {"serviceName": "web"} if resource == "statefulsets.apps" else {}
        spec |= {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        await w.create(resource, {"apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": spec})
        await w.tick(5)
        await w.client.delete(resource, "web", "default", propagation="Foreground")
        await w.tick(60)
        for kind in (resource, "controllerrevisions.apps", "pods"):
            assert await w.items(kind) == []
