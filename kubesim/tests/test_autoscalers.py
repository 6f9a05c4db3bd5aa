"""Autoscalers: they keep their target within its bounds, and say why they cannot do more."""

from __future__ import annotations

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
