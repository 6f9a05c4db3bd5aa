"""Autoscalers: they keep their target within its bounds, and say why they cannot do more."""

from __future__ import annotations

import pytest

from kubesim.controllers.autoscaler import (
    FAST_UP,
    HELD_DOWN,
    HELD_UP,
    READY,
    TOO_FEW,
    TOO_MANY,
    WITHIN,
    AutoscalerController,
    MetricError,
    counted,
    limit,
    steadied,
)
from kubesim.controllers.base import Context
from kubesim.informer import Informers
from kubesim.tests.world import deployment, world

HPA = "horizontalpodautoscalers.autoscaling"


def scaler(name="web", target="web", metrics=None, **spec):
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec = {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": reference, **spec}
    spec |= {"metrics": metrics} if metrics else {}
    metadata = {"name": name}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


async def conditions(w, name="web"):
    status = (await w.client.get(HPA, name, "default"))["status"]
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


async def test_a_target_is_brought_within_its_bounds():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=5))
        await w.create(HPA, scaler())
        await w.tick(16)
        assert (await w.items("deployments.apps"))[0]["spec"]["replicas"] == 3
        text = "New size: 3; reason: Current number of replicas above Spec.MaxReplicas"
        assert await w.messages("SuccessfulRescale") == [text]
        rescaled = ("True", "SucceededRescale", "the HPA controller was able to update the target scale to 3")
        assert (await conditions(w))["AbleToScale"] == rescaled
        assert (await w.client.get(HPA, "web", "default"))["status"]["lastScaleTime"]
        await w.client.patch(HPA, "web", "default", {"spec": {"minReplicas": 6, "maxReplicas": 9}})
        await w.tick(16)
        assert (await w.items("deployments.apps"))[0]["spec"]["replicas"] == 6
        await w.check_models()


async def test_a_target_without_replicas_is_left_alone():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=0))
        await w.create(HPA, scaler())
        await w.tick(16)
        text = "scaling is disabled since the replica count of the target is zero"
        assert (await conditions(w))["ScalingActive"] == ("False", "ScalingDisabled", text)


@pytest.mark.parametrize(
    ("kind", "source", "why"),
    [
        ("External", {}, "external metrics API: no external metrics API (external.metrics.k8s.io) registered"),
        ("Pods", {}, "custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"),
        ("ContainerResource", {"name": "cpu", "container": "main"}, "single containers: they are not served on"),
    ],
)
async def test_a_metric_that_nobody_serves_is_missed_in_words(kind, source, why):
    value = {"type": "AverageValue", "averageValue": "10"}
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=2))
        source = source or {"metric": {"name": "q"}}
        metrics = [{"type": kind, kind[0].lower() + kind[1:]: {**source, "target": value}}]
        await w.create(HPA, scaler(metrics=metrics))
        await w.tick(16)
        (inner,) = await w.messages(f"FailedGet{kind}Metric")
        assert why in inner
        (whole,) = await w.messages("FailedComputeMetricsReplicas")
        assert whole.startswith("invalid metrics (1 invalid out of 1), first error is: failed to get ")
        text = f"the HPA was unable to compute the replica count: {inner}"
        assert (await conditions(w))["ScalingActive"] == ("False", f"FailedGet{kind}Metric", text)


def busy(name, milli, memory="64Mi", at="2026-01-01T01:00:00Z"):
    """What metrics.k8s.io tells of a pod."""
    metadata = {"name": name, "namespace": "default"}
    usage = {"cpu": f"{milli}m", "memory": memory}
    return {"metadata": metadata, "timestamp": at, "window": "15s", "containers": [{"name": "main", "usage": usage}]}


def running(name, cpu="100m", ready="True", **more):
    requests = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:10Z"}
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [condition], **more}
    containers = [{"name": "main", "resources": requests}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": containers}, "status": status}


HALF = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}


@pytest.mark.parametrize(
    ("used", "replicas", "percent"),
    [((100, 100), 4, 100), ((50, 54), 2, 52), ((56, 56), 3, 56), ((10, 10), 1, 10), ((50, 50), 2, 50)],
)
def test_replicas_follow_the_share_of_the_requests_that_is_used(used, replicas, percent):
    told = [busy(name, milli) for name, milli in zip("ab", used, strict=True)]
    found = counted(HALF, 2, [running("a"), running("b")], told)
    current = {"averageUtilization": percent, "averageValue": f"{sum(used) // 2}m"}
    assert (found.replicas, found.status["resource"]["current"]) == (replicas, current)


def test_pods_that_do_not_run_do_not_count():
    pods = [running("a"), running("b", ready="False"), running("c", phase="Succeeded"), running("d")]
    told = [busy(name, 100) for name in "abc"]
    assert counted(HALF, 4, pods, told).replicas == 2


def test_a_use_per_pod_can_be_aimed_at():
    aim = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "32Mi"}}
    found = counted(aim, 1, [running("a")], [busy("a", 1, "96Mi")])
    assert (found.replicas, found.status["resource"]["current"]) == (3, {"averageValue": "96Mi"})


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([], "did not receive metrics for targeted pods (pods might be unready)"),
        ([running("a", cpu="0")], "no metrics returned matched known pods"),
        ([{**running("a"), "spec": {"containers": [{"name": "main"}]}}], "missing request for cpu in container main"),
    ],
)
def test_what_keeps_a_count_from_being_reckoned_is_said(pods, why):
    with pytest.raises(MetricError, match=why.replace("(", "[(]").replace(")", "[)]")):
        counted(HALF, 1, pods, [busy("a", 1)])


def test_growth_is_bounded():
    assert limit((1, 20), 2, 15) == (4, FAST_UP)
    assert limit((1, 20), 4, 15) == (8, FAST_UP)
    assert limit((1, 20), 12, 25) == (20, TOO_MANY)
    assert limit((2, 20), 3, 1) == (2, TOO_FEW)
    assert limit((2, 20), 3, 4) == (4, WITHIN)


def test_shrinking_waits_five_minutes_or_as_long_as_the_behaviour_says():
    past = [(0.0, 20)]
    assert steadied({}, 20, 3, past, 45.0) == (20, HELD_DOWN)
    assert steadied({}, 20, 3, past, 331.0) == (3, READY)
    slow = {"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {"stabilizationWindowSeconds": 0}}
    assert steadied(slow, 4, 6, [(0.0, 4)], 30.0) == (4, HELD_UP)
    assert steadied(slow, 4, 2, [(0.0, 4)], 30.0) == (2, READY)
    assert steadied({"scaleDown": {"selectPolicy": "Disabled"}}, 4, 2, [], 400.0) == (4, READY)


async def test_a_busy_deployment_grows_and_its_autoscaler_says_why():
    async with world() as w:
        used = {"milli": 90}

        async def usage(namespace, selector):
            assert (namespace, selector) == ("default", "app=web")
            stamp = w.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            return [busy(pod["metadata"]["name"], used["milli"], at=stamp) for pod in await w.items("pods")]

        informers = Informers(w.client, w.clock)
        controller = AutoscalerController(Context(w.client, w.clock, informers, usage))
        made = deployment("web", replicas=2)
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        await w.create("deployments.apps", made)
        await w.tick(400)
        await informers.start()
        controller.listen()
        await w.create(HPA, scaler(maxReplicas=9))
        await w.tick(1)
        try:
            await controller.sync("default", "web")
            assert (await w.items("deployments.apps"))[0]["spec"]["replicas"] == 3
            name = "cpu resource utilization (percentage of request)"
            assert f"New size: 3; reason: {name} above target" in await w.messages("SuccessfulRescale")
            found = await conditions(w)
            text = f"the HPA was able to successfully calculate a replica count from {name}"
            assert found["ScalingActive"] == ("True", "ValidMetricFound", text)
            assert found["ScalingLimited"] == WITHIN
            shown = {"name": "cpu", "current": {"averageUtilization": 90, "averageValue": "90m"}}
            status = (await w.client.get(HPA, "web", "default"))["status"]
            assert status["currentMetrics"] == [{"type": "Resource", "resource": shown}]
            await w.check_models()
        finally:
            await informers.stop()
