"""Disruption budgets: what they count, what an eviction takes from them, and what it answers."""

from __future__ import annotations

import pytest

from kubesim.errors import ApiError
from kubesim.tests.world import container, deployment, pod, world

BUDGETS = "poddisruptionbudgets.policy"


def budget(name="b", app="web", **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


async def evict(w, name, **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    body |= {"deleteOptions": options} if options else {}
    return await w.client.create("pods", body, namespace="default", subresource="eviction")


async def refused(w, name):
    with pytest.raises(ApiError) as caught:
        await evict(w, name)
    assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
    assert caught.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    return caught.value.details


async def the_budget(w):
    (found,) = await w.items(BUDGETS)
    return found["status"]


async def test_an_eviction_takes_one_from_the_budget_until_its_pod_is_replaced():
    async with world() as w:
        await w.create(BUDGETS, budget(minAvailable=2))
        await w.create("deployments.apps", deployment("web", replicas=3))
        await w.tick(5)
        first, second, _ = [each["metadata"]["name"] for each in await w.items("pods")]
        await evict(w, first)
        status = await the_budget(w)
        assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, [first])
        assert status["conditions"][0]["reason"] == "InsufficientPods"
        cause = (await refused(w, second))["causes"][0]
        assert cause == {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 3 currently",
        }
        gone = await w.client.get("pods", first, "default")
        (mark,) = [each for each in gone["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert (mark["reason"], mark["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")
        await w.tick(40)
        status = await the_budget(w)
        assert (status["disruptionsAllowed"], status.get("disruptedPods")) == (1, None)


async def test_a_changed_budget_must_be_counted_first():
    async with world() as w:
        await w.create(BUDGETS, budget(minAvailable=1))
        await w.create("deployments.apps", deployment("web", replicas=2))
        await w.tick(5)
        name = (await w.items("pods"))[0]["metadata"]["name"]
        await w.client.patch(BUDGETS, "b", "default", {"spec": {"minAvailable": 0}})
        details = await refused(w, name)
        text = "The disruption budget b is still being processed by the server."
        assert details == {"causes": [{"reason": "DisruptionBudget", "message": text}], "retryAfterSeconds": 10}


async def test_pods_that_are_not_ready_go_as_the_budget_allows():
    async with world() as w:
        await w.create(BUDGETS, budget(minAvailable=1))
        crash = container("busybox:1.36", "sh", "-c", "sleep 1; exit 1")
        await w.create("pods", pod("web", crash))
        await w.tick(15)
        await refused(w, "web")
        spec = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
        await w.client.patch(BUDGETS, "b", "default", {"spec": spec})
        await w.tick(1)
        await evict(w, "web")
        assert (await w.pod("web"))["metadata"]["deletionTimestamp"]


async def test_an_eviction_on_trial_changes_nothing():
    async with world() as w:
        await w.create(BUDGETS, budget(minAvailable=0))
        await w.create("pods", pod("web"))
        await w.tick(5)
        await evict(w, "web", dryRun=["All"])
        assert "deletionTimestamp" not in (await w.pod("web"))["metadata"]
        assert "disruptedPods" not in await the_budget(w)


async def test_pods_without_a_controller_cannot_be_counted_in_percent():
    async with world() as w:
        await w.create(BUDGETS, budget(maxUnavailable="50%"))
        await w.create("pods", pod("web"))
        await w.tick(5)
        (text,) = set(await w.messages("UnmanagedPods"))
        assert text.startswith(
            "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{"
            "app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged."
        )


async def test_pods_of_a_controller_without_a_size_fail_the_count():
    async with world() as w:
        await w.create(BUDGETS, budget(maxUnavailable=1))
        spec = {"template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", restartPolicy="Never")["spec"]}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec}
        await w.create("jobs.batch", job)
        await w.tick(5)
        condition = (await the_budget(w))["conditions"][0]
        text = "jobs.batch does not implement the scale subresource"
        assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", text)
        (event,) = set(await w.messages("CalculateExpectedPodCountFailed"))
        assert event == f"Failed to calculate the number of expected pods: {text}"


async def test_a_pod_of_two_budgets_cannot_be_evicted():
    async with world() as w:
        for name in ("a", "b"):
            await w.create(BUDGETS, budget(name, minAvailable=0))
        await w.create("pods", pod("web"))
        await w.tick(5)
        with pytest.raises(ApiError) as caught:
            await evict(w, "web")
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        assert (caught.value.code, caught.value.message) == (500, text)
