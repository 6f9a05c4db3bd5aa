"""HorizontalPodAutoscalers on a cluster that serves no metrics: they find their target and say what they lack."""

from __future__ import annotations

from kubesim.controllers.base import Context, Controller, is_ending, queue_key
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry
from kubesim.times import stamp

SYNC_S = 15.0
FETCH = "unable to fetch metrics from {} metrics API: {}"
NOT_SERVED = "the server could not find the requested resource (get {}.metrics.k8s.io)"
NO_MATCH = "no custom metrics API (custom.metrics.k8s.io) registered"
NO_EXTERNAL = "no external metrics API (external.metrics.k8s.io) registered"


class AutoscalerController(Controller):
    """Keeps the conditions of every autoscaler."""

    source = "horizontal-pod-autoscaler"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.scalers = self.informers["horizontalpodautoscalers.autoscaling"]

    def listen(self) -> None:
        """Watch autoscalers; each is looked at every 15 seconds, first one period after its making."""
        self.scalers.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.queue.add_after(queue_key(new), SYNC_S)

    async def sync(self, namespace: str, name: str) -> None:
        """Look at one autoscaler's target and metrics."""
        scaler = self.scalers.get(namespace, name)
        if scaler is None or is_ending(scaler):
            return
        self.queue.add_after(queue_key(scaler), SYNC_S)
        status = dict(scaler.get("status", {}))
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        scale, text = await self._scale(scaler)
        if scale is None:
            await self.recorder.warning(scaler, "FailedGetScale", text)
            text = f"the HPA controller was unable to get the target's current scale: {text}"
            self._set(conditions, "AbleToScale", "False", "FailedGetScale", text)
        else:
            text = "the HPA controller was able to get the target's current scale"
            self._set(conditions, "AbleToScale", "True", "SucceededGetScale", text)
            await self._measure(scaler, scale, status, conditions)
        status["conditions"] = list(conditions.values())
        status.setdefault("currentMetrics", None)
        status.setdefault("desiredReplicas", 0)
        await self.write_status(self.scalers, scaler, status)

    async def _scale(self, scaler: Obj) -> tuple[Obj | None, str]:
        """Return the target, or why it cannot be had."""
        target, namespace = scaler["spec"]["scaleTargetRef"], scaler["metadata"]["namespace"]
        group = target.get("apiVersion", "").rpartition("/")[0]
        try:
            kind = registry.by_kind(target.get("apiVersion", "v1"), target["kind"])
        except ApiError:
            shown = f'no matches for kind "{target["kind"]}" in group "{group}"'
            return None, shown
        if kind.scale is None:
            return None, "the server could not find the requested resource"
        try:
            return await self.client.get(kind.resource, target["name"], namespace), ""
        except ApiError as error:
            return None, error.message

    async def _measure(self, scaler: Obj, target: Obj, status: Obj, conditions: dict[str, Obj]) -> None:
        status["currentReplicas"] = target.get("status", {}).get("replicas", 0)
        if target["spec"].get("replicas") == 0:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(conditions, "ScalingActive", "False", "ScalingDisabled", text)
            return
        metrics = scaler["spec"]["metrics"]
        failures = [_failure(metric) for metric in metrics]
        for reason, _, detail in failures:
            await self.recorder.warning(scaler, reason, detail)
        reason, prefix, detail = failures[0]
        text = f"the HPA was unable to compute the replica count: {detail}"
        self._set(conditions, "ScalingActive", "False", reason, text)
        count = len(metrics)
        whole = f"invalid metrics ({count} invalid out of {count}), first error is: {prefix}: {detail}"
        await self.recorder.warning(scaler, "FailedComputeMetricsReplicas", whole)
        status["currentMetrics"] = [{"type": ""} for _ in metrics]

    def _set(self, conditions: dict[str, Obj], kind: str, truth: str, reason: str, message: str) -> None:
        old = conditions.get(kind)
        same = old is not None and old["status"] == truth
        since = old["lastTransitionTime"] if old is not None and same else stamp(self.clock.now())
        fresh = {"type": kind, "status": truth, "lastTransitionTime": since, "reason": reason, "message": message}
        conditions[kind] = fresh


def _failure(metric: Obj) -> tuple[str, str, str]:
    """Return (reason, what fails, why) of one metric."""
    kind = metric["type"]
    source = metric[kind[:1].lower() + kind[1:]]
    name = source.get("name") or source.get("metric", {}).get("name", "")
    if kind in ("Resource", "ContainerResource"):
        pods = FETCH.format("resource", NOT_SERVED.format("pods"))
        shown = "usage" if source["target"].get("averageValue") is not None else "utilization"
        why = f"failed to get {name} {shown}: unable to get metrics for resource {name}: {pods}"
        if kind == "Resource":
            return "FailedGetResourceMetric", f"failed to get {name} resource metric value", why
        container = source.get("container", "")
        return "FailedGetContainerResourceMetric", f"failed to get {container} container metric value", why
    if kind == "External":
        why = f"unable to get external metric {name}: {FETCH.format('external', NO_EXTERNAL)}"
        return "FailedGetExternalMetric", f"failed to get {name} external metric value", why
    why = f"unable to get metric {name}: {FETCH.format('custom', NO_MATCH)}"
    return f"FailedGet{kind}Metric", f"failed to get {kind.lower()} metric value", why
