"""The life of a namespace: what it is given, the order in which it is emptied, and what it says meanwhile."""

import pytest

from kubesim.controllers.base import Context
from kubesim.controllers.namespace import ROOT_CA, ROOT_CA_NOTE, ServiceAccountController
from kubesim.custom.definitions import Definitions
from kubesim.errors import ApiError
from kubesim.informer import Informers
from kubesim.tests.world import pod, world

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
KEEP = "example.com/keep"


def definition(plural, kind, scope="Namespaced"):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": "example.com", "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": versions}
    meta = {"name": f"{plural}.example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": spec,
    }


def widget(name, **meta):
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, **meta}}


def config_map(name, **meta):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}


async def namespace(w, name="ml"):
    await w.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await w.tick(0.1)


async def conditions(w, name="ml"):
    found = (await w.client.get("namespaces", name))["status"].get("conditions") or []
    return {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in found}


async def widgets(w):
    Definitions(w.client.operations)
    await w.client.create(DEFINITIONS, definition("widgets", "Widget"))
    await w.tick(0.1)


async def release(w, resource, name, space="ml"):
    await w.client.patch(resource, name, space, {"metadata": {"finalizers": None}})
    await w.tick(0.1)


async def gone(w, name="ml"):
    with pytest.raises(ApiError, match=f'namespaces "{name}" not found'):
        await w.client.get("namespaces", name)


async def test_pods_go_before_everything_else():
    async with world() as w:
        await namespace(w)
        held = pod("held")
        held["metadata"]["finalizers"] = [KEEP]
        await w.client.create("pods", held, namespace="ml")
        await w.client.create("configmaps", config_map("settings"), namespace="ml")
        await w.tick(2)
        await w.client.delete("namespaces", "ml")
        await w.tick(1)
        said = await conditions(w)
        assert list(said) == [
            "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
            "NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining",
        ]  # fmt: skip
        assert {status for status, _, _ in said.values()} == {"False"}
        assert (await w.client.get("pods", "held", "ml"))["metadata"]["deletionTimestamp"]
        assert await w.client.get("configmaps", "settings", "ml")
        await w.tick(120)
        assert await w.client.get("configmaps", "settings", "ml")
        await release(w, "pods", "held")
        await gone(w)


async def test_a_namespace_tells_which_finalizers_keep_it():
    async with world() as w:
        await namespace(w)
        await w.client.create("configmaps", config_map("settings", finalizers=[KEEP]), namespace="ml")
        await w.client.delete("namespaces", "ml")
        await w.tick(1)
        said = await conditions(w)
        assert said["NamespaceContentRemaining"] == (
            "True", "SomeResourcesRemain", "Some resources are remaining: configmaps. has 1 resource instances",
        )  # fmt: skip
        assert said["NamespaceFinalizersRemaining"] == (
            "True", "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {KEEP} in 1 resource instances",
        )  # fmt: skip
        assert said["NamespaceDeletionContentFailure"][0] == "False"
        await release(w, "configmaps", "settings")
        await gone(w)


async def test_a_namespace_waits_for_the_finalizers_of_custom_objects():
    async with world() as w:
        await widgets(w)
        await namespace(w)
        await w.client.create("widgets.example.com", widget("one", finalizers=[KEEP]), namespace="ml")
        await w.client.create("widgets.example.com", widget("two"), namespace="ml")
        await w.client.delete("namespaces", "ml")
        await w.tick(1)
        _, _, message = (await conditions(w))["NamespaceContentRemaining"]
        assert message == "Some resources are remaining: widgets.example.com has 1 resource instances"
        await release(w, "widgets.example.com", "one")
        await gone(w)


async def test_a_namespace_with_a_finalizer_of_its_own_stays_when_it_is_empty():
    async with world() as w:
        await namespace(w)
        await w.client.patch("namespaces", "ml", "", {"metadata": {"finalizers": [KEEP]}})
        await w.client.delete("namespaces", "ml")
        await w.tick(1)
        found = await w.client.get("namespaces", "ml")
        assert not found["spec"].get("finalizers")
        assert len(found["status"]["conditions"]) == 5
        await release(w, "namespaces", "ml", "")
        await gone(w)


async def test_what_a_custom_object_owns_goes_with_it():
    async with world() as w:
        await widgets(w)
        owner = await w.client.create("widgets.example.com", widget("owner"), namespace="default")
        reference = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        await w.client.create("configmaps", config_map("child", ownerReferences=[reference]), namespace="default")
        inner = widget("grandchild", ownerReferences=[reference])
        await w.client.create("widgets.example.com", inner, namespace="default")
        await w.tick(1)
        assert len(await w.items("widgets.example.com")) == 2
        await w.client.delete("widgets.example.com", "owner", "default", propagation="Foreground")
        await w.tick(1)
        assert await w.items("widgets.example.com") == []
        assert "child" not in [obj["metadata"]["name"] for obj in await w.items("configmaps")]


async def test_an_owner_in_another_namespace_is_no_owner():
    async with world() as w:
        await namespace(w)
        owner = await w.client.create("configmaps", config_map("owner"), namespace="ml")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await w.client.create("configmaps", config_map("child", ownerReferences=[reference]), namespace="default")
        await w.tick(1)
        assert "child" not in [obj["metadata"]["name"] for obj in await w.items("configmaps")]


async def test_objects_of_a_definition_that_came_back_are_followed_again():
    async with world() as w:
        await widgets(w)
        await w.client.delete(DEFINITIONS, "widgets.example.com")
        await w.tick(1)
        await w.client.create(DEFINITIONS, definition("widgets", "Widget"))
        await w.tick(1)
        ghost = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "ghost", "uid": "never-was"}
        await w.client.create("widgets.example.com", widget("child", ownerReferences=[ghost]), namespace="default")
        await w.tick(1)
        assert await w.items("widgets.example.com") == []


async def test_the_authority_of_the_cluster_is_put_back_when_it_is_deleted_or_changed():
    async with world() as w:
        informers = Informers(w.client, w.clock)
        controller = ServiceAccountController(Context(w.client, w.clock, informers), "the authority")
        await informers.start()
        controller.listen()
        controller.queue.start()
        await w.tick(0.1)
        for change in (
            lambda: w.client.delete("configmaps", ROOT_CA, "default"),
            lambda: w.client.patch("configmaps", ROOT_CA, "default", {"data": {"ca.crt": "", "more": "x"}}),
            lambda: w.client.patch("configmaps", ROOT_CA, "default", {"metadata": {"annotations": None}}),
        ):
            await change()
            await w.tick(0.1)
            found = await w.client.get("configmaps", ROOT_CA, "default")
            assert found["data"] == {"ca.crt": "the authority"}
            assert found["metadata"]["annotations"] == ROOT_CA_NOTE
        await controller.queue.stop()
        await informers.stop()


async def test_what_is_deleted_together_with_its_namespace_is_still_there():
    async with world() as w:
        await namespace(w)
        for name in ("a", "b"):
            await w.client.create("configmaps", config_map(name), namespace="ml")
        await w.client.delete("namespaces", "ml")
        for name in ("a", "b"):
            await w.tick(0.1)
            await w.client.delete("configmaps", name, "ml")
        await w.tick(1)
        await gone(w)
