"""Autoscalers: they keep their target within its bounds, and say why they cannot do more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubesim.controllers.autoscaler import AutoscalerController
from kubesim.controllers.base import Context
from kubesim.controllers.rates import (
    FAST_DOWN,
    FAST_UP,
    HELD_DOWN,
    HELD_UP,
    READY,
    TOO_FEW,
    TOO_MANY,
    WITHIN,
    Bounds,
    Past,
)
from kubesim.controllers.replicas import Aim, NoCount, count, samples
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


async def test_two_autoscalers_of_the_same_pods_are_told_of():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=2))
        for name in ("a", "b"):
            await w.create(HPA, scaler(name))
        await w.tick(35)
        text = "pods by selector app=web are controlled by multiple HPAs: [default/a default/b]"
        for name in ("a", "b"):
            assert (await conditions(w, name))["ScalingActive"] == ("False", "AmbiguousSelector", text)
        assert text in await w.messages("FailedComputeMetricsReplicas")


async def test_each_kind_of_metric_is_missed_in_its_own_words():
    value = {"type": "Value", "value": "10"}
    described = {"kind": "Service", "name": "s", "apiVersion": "v1"}
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=2))
        metrics = [
            {"type": "External", "external": {"metric": {"name": "q"}, "target": value}},
            {"type": "Object", "object": {"metric": {"name": "o"}, "describedObject": described, "target": value}},
        ]
        await w.create(HPA, scaler(metrics=metrics))
        await w.tick(16)
        inner = (
            "unable to get external metric default/q/nil: unable to fetch metrics from external metrics API: the "
            "server could not find the requested resource (get q.external.metrics.k8s.io)"
        )
        assert await w.messages("FailedGetExternalMetric") == [inner]
        assert await w.messages("FailedGetObjectMetric") == [
            "unable to get metric o: Service on default s/unable to fetch metrics from custom metrics API: no custom "
            "metrics API (custom.metrics.k8s.io) registered"
        ]
        assert await w.messages("FailedComputeMetricsReplicas") == [
            "invalid metrics (2 invalid out of 2), first error is: failed to get q external metric value: failed to "
            f"get external metric q: {inner}"
        ]
        text = f"the HPA was unable to compute the replica count: {inner}"
        assert (await conditions(w))["ScalingActive"] == ("False", "FailedGetExternalMetric", text)


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


NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
HALF = Aim("cpu", percent=50)


def counted(aim, pods, told, current=None):
    return count(aim, current or len(pods), pods, samples(told, aim.resource, aim.container), NOW)


@pytest.mark.parametrize(
    ("used", "replicas", "percent"),
    [((100, 100), 4, 100), ((50, 54), 2, 52), ((56, 56), 3, 56), ((10, 10), 1, 10), ((50, 50), 2, 50)],
)
def test_replicas_follow_the_share_of_the_requests_that_is_used(used, replicas, percent):
    told = [busy(name, milli) for name, milli in zip("ab", used, strict=True)]
    found = counted(HALF, [running("a"), running("b")], told)
    assert (found.replicas, found.percent, found.value) == (replicas, percent, sum(used) // 2)


def test_pods_that_are_not_measured_damp_both_directions():
    pods = [running(name) for name in "abc"]
    assert counted(HALF, pods, [busy("a", 100), busy("b", 100)]).replicas == 4
    assert counted(HALF, pods, [busy("a", 10), busy("b", 10)]).replicas == 3
    pods[2] = running("c", phase="Pending")
    assert counted(HALF, pods, [busy("a", 100), busy("b", 100)]).replicas == 4
    assert counted(HALF, pods, [busy("a", 20), busy("b", 20)]).replicas == 1


def test_a_use_per_pod_can_be_aimed_at():
    found = counted(Aim("memory", value=(32 << 20) * 1000), [running("a")], [busy("a", 1, "96Mi")])
    assert found.replicas == 3
    assert found.value == (96 << 20) * 1000


@pytest.mark.parametrize(
    ("aim", "pods", "told", "why"),
    [
        (HALF, [], [busy("a", 1)], "no pods returned by selector while calculating replica count"),
        (
            Aim("gpu", percent=5),
            [running("a")],
            [],
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        (
            HALF,
            [{**running("a"), "spec": {"containers": [{"name": "main"}]}}],
            [busy("a", 1)],
            "missing request for cpu in container main of Pod a",
        ),
        (
            Aim("cpu", percent=5, container="side"),
            [running("a")],
            [busy("a", 1)],
            "unable to get metrics for resource cpu: failed to get container metrics: container side not present in "
            "metrics for pod default/a",
        ),
    ],
)
def test_what_keeps_a_count_from_being_reckoned_is_said(aim, pods, told, why):
    with pytest.raises(NoCount) as caught:
        counted(aim, pods, told)
    assert str(caught.value) == why


def test_without_a_behaviour_growth_is_bounded_and_shrinking_waits_five_minutes():
    past, bounds = Past(), Bounds(1, 20)
    assert bounds.settled(2, 15, past, 0.0) == (4, READY, FAST_UP)
    assert bounds.settled(4, 15, past, 15.0) == (8, READY, FAST_UP)
    assert bounds.settled(12, 25, past, 30.0) == (20, READY, TOO_MANY)
    assert bounds.settled(20, 3, past, 45.0) == (20, HELD_DOWN, TOO_MANY)
    assert bounds.settled(20, 3, past, 331.0) == (3, READY, WITHIN)
    assert Bounds(2, 20).settled(3, 1, Past(), 0.0) == (2, READY, TOO_FEW)


def test_a_behaviour_says_how_fast_to_go():
    pods = [{"type": "Pods", "value": 2, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]
    rules = {"selectPolicy": "Max", "policies": pods, "stabilizationWindowSeconds": 0}
    bounds = Bounds(1, 50, {"scaleUp": rules, "scaleDown": rules})
    assert bounds.settled(10, 40, Past(), 0.0) == (15, READY, FAST_UP)
    assert bounds.settled(10, 1, Past(), 0.0) == (5, READY, FAST_DOWN)
    assert bounds.settled(15, 40, Past(changes=[(10.0, 5)]), 30.0) == (15, READY, FAST_UP)
    least = {"scaleUp": {**rules, "selectPolicy": "Min"}, "scaleDown": {"selectPolicy": "Disabled"}}
    assert Bounds(1, 50, least).settled(10, 40, Past(), 0.0)[0] == 12
    assert Bounds(1, 50, least).settled(10, 2, Past(), 400.0)[0] == 10
    slow = {"scaleUp": {**rules, "stabilizationWindowSeconds": 60}, "scaleDown": rules}
    assert Bounds(1, 50, slow).settled(4, 6, Past([(0.0, 4)]), 30.0) == (4, HELD_UP, WITHIN)


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
