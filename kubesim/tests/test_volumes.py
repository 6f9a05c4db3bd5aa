"""Volumes: binding at once and with the first consumer, provisioning, release, protection."""

from __future__ import annotations

from kubesim import storage_classes
from kubesim.tests.world import pod, stateful_set, world

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def volume(name, size="5Gi", storage_class="manual", **spec):
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    return {"metadata": {"name": name}, "spec": {**body, "storageClassName": storage_class, **spec}}


def claim(name, size="1Gi", storage_class="manual"):
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": {**body, "storageClassName": storage_class}}


def user(name, claim_name):
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


async def create_class(cluster, name, provisioner, mode="Immediate"):
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    await cluster.client.create("storageclasses.storage.k8s.io", body)


async def phase(cluster, resource, name):
    namespace = "default" if resource == CLAIMS else ""
    return (await cluster.client.get(resource, name, namespace))["status"]["phase"]


async def test_a_claim_gets_the_smallest_volume_that_will_do():
    async with world() as cluster:
        for name, size in (("small", "500Mi"), ("large", "10Gi"), ("fits", "2Gi")):
            await cluster.client.create(VOLUMES, volume(name, size))
        await cluster.create(CLAIMS, claim("data"))
        await cluster.tick(1)
        made = await cluster.client.get(CLAIMS, "data", "default")
        assert made["spec"]["volumeName"] == "fits"
        assert made["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
        assert set(made["metadata"]["annotations"]) == {
            "pv.kubernetes.io/bind-completed",
            "pv.kubernetes.io/bound-by-controller",
        }
        assert await phase(cluster, VOLUMES, "fits") == "Bound"
        assert await phase(cluster, VOLUMES, "large") == "Available"
        await cluster.check_models()


async def test_a_claim_without_a_volume_says_what_it_waits_for():
    async with world() as cluster:
        await create_class(cluster, "csi", "disk.example.com")
        await create_class(cluster, "late", "disk.example.com", "WaitForFirstConsumer")
        for name, storage_class in (("none", ""), ("gone", "gone"), ("asked", "csi"), ("late", "late")):
            await cluster.create(CLAIMS, claim(name, storage_class=storage_class))
        await cluster.tick(1)
        told = {event["involvedObject"]["name"]: event["message"] for event in await cluster.events()
                if event["involvedObject"]["kind"] == "PersistentVolumeClaim"}  # fmt: skip
        assert told["none"] == "no persistent volumes available for this claim and no storage class is set"
        assert told["gone"] == 'storageclass.storage.k8s.io "gone" not found'
        assert told["late"] == "waiting for first consumer to be created before binding"
        assert told["asked"].startswith(
            "Waiting for a volume to be created either by the external provisioner 'disk."
        )


async def test_a_pod_waits_for_its_claim():
    async with world() as cluster:
        await cluster.create("pods", user("a", "data"))
        assert await cluster.messages("FailedScheduling") == [
            '0/3 nodes are available: persistentvolumeclaim "data" not found. not found'
        ]
        await cluster.create(CLAIMS, claim("data"))
        await cluster.tick(5)
        (_, message, *_) = await cluster.messages("FailedScheduling")
        assert message == "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        await cluster.client.create(VOLUMES, volume("disk"))
        await cluster.tick(30)
        assert (await cluster.pod("a"))["status"]["phase"] == "Running"


async def test_the_claims_of_others_are_no_reason_to_look_at_a_pod_again():
    async with world() as cluster:
        await cluster.create("pods", user("a", "data"))
        await cluster.create(CLAIMS, claim("other"))
        await cluster.client.create("namespaces", {"metadata": {"name": "elsewhere"}})
        await cluster.client.create(CLAIMS, claim("data"), namespace="elsewhere")
        await cluster.tick(5)
        (event,) = [event for event in await cluster.events() if event["reason"] == "FailedScheduling"]
        assert event.get("series") is None


async def test_a_local_volume_is_bound_on_the_node_that_has_it():
    async with world() as cluster:
        await create_class(cluster, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
        name = cluster.node_names[1]
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
        affinity = {"required": {"nodeSelectorTerms": [term]}}
        await cluster.client.create(VOLUMES, volume("disk", storage_class="local", nodeAffinity=affinity))
        await cluster.create(CLAIMS, claim("data", storage_class="local"))
        await cluster.tick(1)
        assert await phase(cluster, CLAIMS, "data") == "Pending"
        await cluster.create("pods", user("a", "data"))
        await cluster.tick(30)
        made = await cluster.pod("a")
        assert (made["spec"]["nodeName"], made["status"]["phase"]) == (name, "Running")
        assert await phase(cluster, CLAIMS, "data") == "Bound"


async def test_a_driver_of_the_cluster_makes_the_volume_where_the_pod_goes():
    async with world() as cluster:
        await cluster.client.create(
            "csidrivers.storage.k8s.io", {"metadata": {"name": "disk.example.com"}, "spec": {}}
        )
        await create_class(cluster, "fast", "disk.example.com", "WaitForFirstConsumer")
        await cluster.create(CLAIMS, claim("data", storage_class="fast"))
        await cluster.create("pods", user("a", "data"))
        await cluster.tick(60)
        assert (await cluster.pod("a"))["status"]["phase"] == "Running"
        (made,) = await cluster.items(VOLUMES, "")
        assert made["spec"]["csi"]["driver"] == "disk.example.com"
        assert made["metadata"]["name"] in (await cluster.messages("ProvisioningSucceeded"))[0]
        await cluster.client.delete("pods", "a", "default")
        await cluster.client.delete(CLAIMS, "data", "default")
        await cluster.tick(90)
        assert await cluster.items(VOLUMES, "") == []


async def test_nothing_in_use_goes():
    async with world() as cluster:
        await cluster.client.create(VOLUMES, volume("disk"))
        await cluster.create(CLAIMS, claim("data"))
        await cluster.create("pods", user("a", "data"))
        await cluster.tick(30)
        await cluster.client.delete(CLAIMS, "data", "default")
        await cluster.client.delete(VOLUMES, "disk")
        await cluster.tick(30)
        assert (await cluster.client.get(CLAIMS, "data", "default"))["metadata"]["deletionTimestamp"]
        await cluster.client.delete("pods", "a", "default")
        await cluster.tick(60)
        assert await cluster.items(CLAIMS) == []
        assert await cluster.items(VOLUMES, "") == []


async def test_a_kept_volume_is_released_and_not_given_away():
    async with world() as cluster:
        await cluster.client.create(VOLUMES, volume("disk"))
        await cluster.create(CLAIMS, claim("data"))
        await cluster.tick(1)
        await cluster.client.delete(CLAIMS, "data", "default")
        await cluster.tick(1)
        assert await phase(cluster, VOLUMES, "disk") == "Released"
        await cluster.create(CLAIMS, claim("other"))
        await cluster.tick(20)
        assert await phase(cluster, CLAIMS, "other") == "Pending"


async def test_claims_of_the_classes_that_gke_has_are_bound():
    async with world(1, 0) as cluster:
        await storage_classes.create(cluster.client)
        await storage_classes.create(cluster.client)
        body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        template = {"metadata": {"name": "data"}, "spec": body}
        await cluster.create("statefulsets.apps", stateful_set("db", 1, volumeClaimTemplates=[template]))
        await cluster.create(CLAIMS, claim("other", storage_class="standard"))
        await cluster.create(CLAIMS, {"metadata": {"name": "unused"}, "spec": body})
        await cluster.tick(30)
        assert await phase(cluster, CLAIMS, "data-db-0") == await phase(cluster, CLAIMS, "other") == "Bound"
        assert await phase(cluster, CLAIMS, "unused") == "Pending"
        assert (await cluster.pod("db-0"))["status"]["phase"] == "Running"
        made = await cluster.client.get(CLAIMS, "data-db-0", "default")
        assert made["spec"]["storageClassName"] == "standard-rwo"
        await cluster.check_models()
