"""Deployments and ReplicaSets: scale, roll over, roll back."""

from kubesim.controllers.deployment_sets import HISTORY, bounds, template_hash
from kubesim.tests.world import container, deployment, pod, world


def conditions(obj):
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in obj["status"].get("conditions", [])}


async def the_deployment(w):
    (found,) = await w.items("deployments.apps")
    return found


async def set_image(w, image):
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    await w.client.patch("deployments.apps", "web", "default", patch, patch_type="strategic")
    await w.tick(0)


def rolling(surge, unavailable):
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def test_the_bounds_of_a_roll_out_are_rounded_apart():
    assert bounds(deployment("web", replicas=3, strategy=rolling("25%", "25%"))) == (1, 0)
    assert bounds(deployment("web", replicas=10, strategy=rolling("25%", "25%"))) == (3, 2)
    assert bounds(deployment("web", replicas=3, strategy=rolling(0, 0))) == (0, 1)
    assert bounds(deployment("web", replicas=3, strategy={"type": "Recreate"})) == (0, 0)


def test_the_hash_follows_the_template_alone():
    template = deployment("web")["spec"]["template"]
    labelled = {**template, "metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}}
    assert template_hash(template) == template_hash(labelled)
    assert template_hash(template) != template_hash(deployment("web", "nginx:1.26")["spec"]["template"])


async def test_a_deployment_becomes_available():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(2)
        obj = await the_deployment(w)
        (rs,) = await w.items("replicasets.apps")
        counts = {k: v for k, v in obj["status"].items() if k != "conditions"}
        names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        assert counts == {"observedGeneration": 1} | dict.fromkeys(names, 3)
        name = rs["metadata"]["name"]
        assert conditions(obj) == {
            "Available": ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            "Progressing": ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'),
        }
        assert obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert await w.messages("ScalingReplicaSet") == [f"Scaled up replica set {name} from 0 to 3"]
        assert all(p["metadata"]["name"].startswith(f"{name}-") for p in await w.items("pods"))
        await w.check_models()


async def test_a_roll_out_never_drops_below_its_bounds():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=4))
        await w.tick(2)
        await set_image(w, "nginx:1.28")
        for _ in range(40):
            obj = await the_deployment(w)
            assert obj["status"].get("availableReplicas", 0) >= 3
            assert obj["status"].get("replicas", 0) <= 5
            await w.tick(0.1)
        await w.tick(5)
        obj = await the_deployment(w)
        assert obj["status"]["updatedReplicas"] == obj["status"]["replicas"] == 4
        assert {p["spec"]["containers"][0]["image"] for p in await w.items("pods")} == {"nginx:1.28"}
        revisions = {
            rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: rs["spec"]["replicas"]
            for rs in await w.items("replicasets.apps")
        }
        assert revisions == {"1": 0, "2": 4}
        await w.check_models()


async def test_rolling_back_brings_the_old_set_up_again():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(2)
        await set_image(w, "nginx:1.28")
        await w.tick(8)
        await set_image(w, "nginx:1.27")
        await w.tick(8)
        sets = {
            rs["spec"]["template"]["spec"]["containers"][0]["image"]: rs for rs in await w.items("replicasets.apps")
        }
        assert len(sets) == 2
        back = sets["nginx:1.27"]
        assert back["spec"]["replicas"] == 3
        assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


async def test_a_roll_out_to_a_missing_image_keeps_the_old_pods():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", progressDeadlineSeconds=60))
        await w.tick(2)
        await set_image(w, "nginx:nosuch")
        await w.tick(30)
        obj = await the_deployment(w)
        assert obj["status"]["availableReplicas"] == 3
        assert obj["status"]["unavailableReplicas"] == 1
        assert conditions(obj)["Progressing"][1] == "ReplicaSetUpdated"
        await w.tick(60)
        assert conditions(await the_deployment(w))["Progressing"][:2] == ("False", "ProgressDeadlineExceeded")
        await w.check_models()


async def test_scaling_goes_both_ways():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(2)
        for replicas in (5, 1, 0):
            await w.client.patch("deployments.apps", "web", "default", {"spec": {"replicas": replicas}})
            await w.tick(3)
            assert len(await w.items("pods")) == replicas
        texts = [text.split(" from ")[1] for text in await w.messages("ScalingReplicaSet")]
        assert texts == ["0 to 3", "3 to 5", "5 to 1", "1 to 0"]


async def test_recreate_stops_all_before_it_starts_any():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", strategy={"type": "Recreate"}))
        await w.tick(2)
        await set_image(w, "nginx:1.28")
        for _ in range(20):
            images = {p["spec"]["containers"][0]["image"] for p in await w.items("pods")}
            assert len(images) <= 1
            await w.tick(0.1)
        await w.tick(2)
        assert (await the_deployment(w))["status"]["availableReplicas"] == 3


async def test_a_deleted_pod_is_replaced_and_a_matching_one_adopted():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=2))
        await w.tick(2)
        (first, _) = await w.items("pods")
        await w.client.delete("pods", first["metadata"]["name"], "default")
        await w.tick(2)
        assert len(await w.items("pods")) == 2
        (rs,) = await w.items("replicasets.apps")
        stray = pod("stray", container("nginx:1.27"))
        stray["metadata"]["labels"] = rs["spec"]["selector"]["matchLabels"]
        await w.create("pods", stray)
        await w.tick(2)
        assert len(await w.items("pods")) == 2


async def sizes(w):
    found = await w.items("replicasets.apps")
    return sorted(rs["spec"]["replicas"] for rs in found)


async def test_scaling_in_mid_roll_out_is_shared_in_proportion():
    async with world() as w:
        made = deployment("web", replicas=10, strategy=rolling(3, 2))
        await w.create("deployments.apps", made)
        await w.tick(3)
        await set_image(w, "nginx:404")
        await w.tick(3)
        assert await sizes(w) == [5, 8]
        await w.client.patch("deployments.apps", "web", "default", {"spec": {"replicas": 30}})
        await w.tick(3)
        assert await sizes(w) == [13, 20]


async def test_scaling_down_in_mid_roll_out_keeps_as_many_pods_as_must_be_there():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=14, strategy=rolling(3, 2)))
        await w.tick(3)
        await set_image(w, "nginx:404")
        await w.tick(3)
        await w.client.patch("deployments.apps", "web", "default", {"spec": {"replicas": 3}})
        await w.tick(3)
        assert await sizes(w) == [1, 3]


async def test_a_roll_out_that_stands_still_is_told_after_its_deadline():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", "nginx:404", progressDeadlineSeconds=60))
        await w.tick(50)
        assert conditions(await the_deployment(w))["Progressing"][1] == "ReplicaSetUpdated"
        await w.tick(20)
        (rs,) = await w.items("replicasets.apps")
        text = f'ReplicaSet "{rs["metadata"]["name"]}" has timed out progressing.'
        assert conditions(await the_deployment(w))["Progressing"] == ("False", "ProgressDeadlineExceeded", text)


async def test_a_pause_and_its_end_are_told_and_hold_the_roll_out():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(3)
        await w.client.patch("deployments.apps", "web", "default", {"spec": {"paused": True}})
        await set_image(w, "nginx:1.28")
        await w.tick(3)
        paused = ("Unknown", "DeploymentPaused", "Deployment is paused")
        assert conditions(await the_deployment(w))["Progressing"] == paused
        assert await sizes(w) == [3]
        await w.client.patch("deployments.apps", "web", "default", {"spec": {"replicas": 5}})
        await w.tick(3)
        assert await sizes(w) == [5]
        await w.client.patch("deployments.apps", "web", "default", {"spec": {"paused": False}})
        await w.tick(0)
        await w.tick(10)
        assert conditions(await the_deployment(w))["Progressing"][1] == "NewReplicaSetAvailable"
        assert await sizes(w) == [0, 5]


async def test_a_template_that_comes_back_remembers_its_old_revisions():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(3)
        for image in ("nginx:1.28", "nginx:1.27", "nginx:1.28", "nginx:1.27"):
            await set_image(w, image)
            await w.tick(5)
        notes = [rs["metadata"]["annotations"] for rs in await w.items("replicasets.apps")]
        found = sorted((note["deployment.kubernetes.io/revision"], note[HISTORY]) for note in notes)
        assert found == [("4", "2"), ("5", "1,3")]
        assert (await the_deployment(w))["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "5"


async def test_the_failure_of_a_replica_set_is_shown_above_until_it_is_over():
    async with world() as w:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        await w.create("resourcequotas", quota | {"spec": {"hard": {"pods": "1"}}})
        await w.tick(1)
        await w.create("deployments.apps", deployment("web", replicas=2))
        await w.tick(3)
        status, reason, text = conditions(await the_deployment(w))["ReplicaFailure"]
        assert (status, reason) == ("True", "FailedCreate")
        assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in text
        await w.client.patch("resourcequotas", "q", "default", {"spec": {"hard": {"pods": "5"}}})
        await w.tick(1100)
        assert "ReplicaFailure" not in conditions(await the_deployment(w))


async def test_pods_that_are_selected_no_more_are_let_go_and_replaced():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=1))
        await w.tick(3)
        name = (await w.pod())["metadata"]["name"]
        await w.client.patch("pods", name, "default", {"metadata": {"labels": {"app": "other"}}})
        await w.tick(3)
        assert "ownerReferences" not in (await w.client.get("pods", name, "default"))["metadata"]
        assert len(await w.items("pods")) == 2


async def test_pods_that_are_cheap_to_delete_go_first():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=3))
        await w.tick(3)
        names = [each["metadata"]["name"] for each in await w.items("pods")]
        note = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
        await w.client.patch("pods", names[1], "default", note)
        await w.client.patch("deployments.apps", "web", "default", {"spec": {"replicas": 2}})
        await w.tick(3)
        assert sorted(each["metadata"]["name"] for each in await w.items("pods")) == sorted([names[0], names[2]])


async def test_the_generation_of_a_deployment_counts_its_annotations_too():
    async with world() as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(3)
        assert (await the_deployment(w))["metadata"]["generation"] == 1
        note = {"metadata": {"annotations": {"team": "a"}}}
        await w.client.patch("deployments.apps", "web", "default", note)
        assert (await the_deployment(w))["metadata"]["generation"] == 2
