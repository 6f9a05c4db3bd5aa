"""Stateful sets: order, identity, claims, updates with a partition, revisions."""

from __future__ import annotations

from kubesim.tests.world import stateful_set, world

SETS = "statefulsets.apps"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def names(cluster):
    return sorted(pod["metadata"]["name"] for pod in await cluster.items("pods"))


async def images(cluster):
    pods = sorted(await cluster.items("pods"), key=lambda pod: pod["metadata"]["name"])
    return [pod["spec"]["containers"][0]["image"] for pod in pods]


async def set_image(cluster, image, **strategy):
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"template": template, **({"updateStrategy": strategy} if strategy else {})}
    await cluster.client.patch(SETS, "web", "default", {"spec": spec}, patch_type="strategic")


async def test_pods_come_one_after_another_each_once_its_predecessor_is_ready():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web"))
        assert await names(cluster) == ["web-0"]
        await cluster.tick(30)
        assert await names(cluster) == ["web-0", "web-1"]
        created = await cluster.messages("SuccessfulCreate")
        assert created == [f"create Pod web-{ordinal} in StatefulSet web successful" for ordinal in (0, 1)]
        await cluster.check_models()


async def test_a_pod_knows_its_name_its_number_and_its_service():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 1))
        pod = await cluster.pod("web-0")
        (revision,) = await cluster.items("controllerrevisions.apps")
        assert pod["metadata"]["labels"] == {
            "app": "web",
            "apps.kubernetes.io/pod-index": "0",
            "controller-revision-hash": revision["metadata"]["name"],
            "statefulset.kubernetes.io/pod-name": "web-0",
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "web")
        assert pod["metadata"]["generateName"] == "web-"


async def test_parallel_pods_come_at_once():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 3, podManagementPolicy="Parallel"))
        assert await names(cluster) == ["web-0", "web-1", "web-2"]


async def test_the_last_pod_goes_first():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 3))
        await cluster.tick(60)
        scale = {"spec": {"replicas": 1}}
        await cluster.client.patch(SETS, "web", "default", scale, subresource="scale")
        await cluster.tick(90)
        assert await names(cluster) == ["web-0"]
        assert await cluster.messages("SuccessfulDelete") == [
            "delete Pod web-2 in StatefulSet web successful",
            "delete Pod web-1 in StatefulSet web successful",
        ]
        (made,) = await cluster.items(SETS)
        assert made["status"]["replicas"] == made["status"]["readyReplicas"] == 1


async def test_each_pod_has_a_claim_that_outlives_it():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 1, volumeClaimTemplates=[CLAIM]))
        pod = await cluster.pod("web-0")
        assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}} in pod["spec"]["volumes"]
        assert await cluster.messages("SuccessfulCreate") == [
            "create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "create Pod web-0 in StatefulSet web successful",
        ]
        await cluster.client.delete(SETS, "web", "default")
        await cluster.tick(60)
        assert [claim["metadata"]["name"] for claim in await cluster.items("persistentvolumeclaims")] == [
            "data-web-0"
        ]


async def test_an_update_goes_down_to_the_partition():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 3))
        await cluster.tick(60)
        await set_image(cluster, "nginx:1.26", type="RollingUpdate", rollingUpdate={"partition": 2})
        await cluster.tick(120)
        assert await images(cluster) == ["nginx:1.27", "nginx:1.27", "nginx:1.26"]
        (made,) = await cluster.items(SETS)
        assert (made["status"]["currentReplicas"], made["status"]["updatedReplicas"]) == (2, 1)
        await set_image(cluster, "nginx:1.26", type="RollingUpdate", rollingUpdate={"partition": 0})
        await cluster.tick(240)
        (made,) = await cluster.items(SETS)
        assert await images(cluster) == ["nginx:1.26"] * 3
        assert made["status"]["currentRevision"] == made["status"]["updateRevision"]
        assert made["status"]["currentReplicas"] == 3


async def test_on_delete_waits_for_somebody_to_delete():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 1, updateStrategy={"type": "OnDelete"}))
        await cluster.tick(30)
        await set_image(cluster, "nginx:1.26")
        await cluster.tick(60)
        assert await images(cluster) == ["nginx:1.27"]
        await cluster.client.delete("pods", "web-0", "default")
        await cluster.tick(60)
        assert await images(cluster) == ["nginx:1.26"]


async def test_a_template_that_comes_back_takes_its_old_revision_again():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 1))
        await cluster.tick(30)
        (first,) = await cluster.items("controllerrevisions.apps")
        for image in ("nginx:1.26", "nginx:1.27"):
            await set_image(cluster, image)
            await cluster.tick(60)
        numbers = {r["metadata"]["name"]: r["revision"] for r in await cluster.items("controllerrevisions.apps")}
        assert (len(numbers), numbers[first["metadata"]["name"]]) == (2, 3)


async def test_a_pod_that_may_not_be_made_is_told_of():
    async with world() as cluster:
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
        await cluster.create("resourcequotas", quota)
        await cluster.create(SETS, stateful_set("web", 1))
        (message, *_) = await cluster.messages("FailedCreate")
        assert message == (
            'create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: exceeded quota: none, '
            "requested: pods=1, used: pods=0, limited: pods=0"
        )


async def test_a_budget_in_percent_counts_a_sets_replicas():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", 4, podManagementPolicy="Parallel"))
        spec = {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
        await cluster.create("poddisruptionbudgets.policy", {"metadata": {"name": "web"}, "spec": spec})
        await cluster.tick(30)
        found = await cluster.client.get("poddisruptionbudgets.policy", "web", "default")
        status = found["status"]
        assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, 2, 2)


async def claims(cluster):
    found = await cluster.items("persistentvolumeclaims")
    owners = {c["metadata"]["name"]: [r["kind"] for r in c["metadata"].get("ownerReferences", ())] for c in found}
    return dict(sorted(owners.items()))


async def test_pods_of_its_name_are_adopted_and_others_let_go():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", replicas=1))
        await cluster.tick(5)
        await cluster.client.patch("pods", "web-0", "default", {"metadata": {"ownerReferences": None}})
        await cluster.tick(1)
        (owner,) = (await cluster.pod("web-0"))["metadata"]["ownerReferences"]
        assert owner["kind"] == "StatefulSet"
        await cluster.client.patch("pods", "web-0", "default", {"metadata": {"labels": {"app": "other"}}})
        await cluster.tick(1)
        assert "ownerReferences" not in (await cluster.pod("web-0"))["metadata"]


async def test_a_pod_gets_its_name_label_back():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", replicas=1))
        await cluster.tick(5)
        label = {"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": None}}}
        await cluster.client.patch("pods", "web-0", "default", label)
        await cluster.tick(1)
        assert (await cluster.pod())["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "web-0"
        assert await cluster.messages("SuccessfulUpdate") == ["update Pod web-0 in StatefulSet web successful"]


async def test_numbers_may_begin_anywhere():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", ordinals={"start": 3}))
        await cluster.tick(30)
        assert await names(cluster) == ["web-3", "web-4"]
        await cluster.client.patch(SETS, "web", "default", {"spec": {"ordinals": {"start": 4}}})
        await cluster.tick(60)
        assert await names(cluster) == ["web-4", "web-5"]


async def test_successors_wait_until_a_pod_has_been_ready_for_long_enough():
    async with world() as cluster:
        await cluster.create(SETS, stateful_set("web", minReadySeconds=20))
        await cluster.tick(15)
        assert await names(cluster) == ["web-0"]
        (made,) = await cluster.items(SETS)
        assert (made["status"]["readyReplicas"], made["status"]["availableReplicas"]) == (1, 0)
        await cluster.tick(10)
        assert await names(cluster) == ["web-0", "web-1"]
