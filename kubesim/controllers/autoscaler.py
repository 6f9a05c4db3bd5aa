"""HorizontalPodAutoscalers on a cluster that serves no metrics: they keep their target within its bounds and say what
they lack."""

from __future__ import annotations

from typing import Any

from kubesim.api.selectors import LabelSelector, format_struct, from_struct
from kubesim.controllers.base import Context, Controller, is_ending, queue_key
from kubesim.controllers.shown import selector_text
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry
from kubesim.schema.registry import Kind
from kubesim.times import stamp

SYNC_S = 15.0
NOT_FETCHED = "unable to fetch metrics from {} metrics API: {}"
NOT_SERVED = "the server could not find the requested resource (get {}.metrics.k8s.io)"
NO_CUSTOM = NOT_FETCHED.format("custom", "no custom metrics API (custom.metrics.k8s.io) registered")
COUNT = "the HPA was unable to compute the replica count: {}"


class AutoscalerController(Controller):
    """Keeps the conditions of every autoscaler."""

    source = "horizontal-pod-autoscaler"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.scalers = self.informers["horizontalpodautoscalers.autoscaling"]
        self.pods = self.informers["pods"]
        self._selectors: dict[str, LabelSelector] = {}

    def listen(self) -> None:
        """Watch autoscalers; each is looked at every 15 seconds, first one period after its making."""
        self.scalers.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.queue.add_after(queue_key(new), SYNC_S)
        elif old is not None:
            self._selectors.pop(queue_key(old), None)

    async def sync(self, namespace: str, name: str) -> None:
        """Look at one autoscaler's target and metrics."""
        scaler = self.scalers.get(namespace, name)
        if scaler is None or is_ending(scaler):
            return
        self.queue.add_after(queue_key(scaler), SYNC_S)
        status: Obj = {"currentMetrics": None, "desiredReplicas": 0, **scaler.get("status", {})}
        status["conditions"] = [dict(condition) for condition in status.get("conditions") or ()]
        failure = ""
        try:
            kind, target = await self._target(scaler)
        except ApiError as error:
            await self.recorder.warning(scaler, "FailedGetScale", error.message)
            text = f"the HPA controller was unable to get the target's current scale: {error.message}"
            self._set(status, "AbleToScale", "False", "FailedGetScale", text)
        else:
            text = "the HPA controller was able to get the target's current scale"
            self._set(status, "AbleToScale", "True", "SucceededGetScale", text)
            failure = await self._scale(scaler, kind, target, status)
        await self.write_status(self.scalers, scaler, status)
        if failure:
            await self.recorder.warning(scaler, "FailedComputeMetricsReplicas", failure)

    async def _target(self, scaler: Obj) -> tuple[Kind, Obj]:
        """Return what is scaled. Raises ``ApiError``."""
        target, namespace = scaler["spec"]["scaleTargetRef"], scaler["metadata"]["namespace"]
        group = target.get("apiVersion", "").rpartition("/")[0]
        try:
            kind = registry.by_kind(target.get("apiVersion", "v1"), target["kind"])
        except ApiError as error:
            text = f'no matches for kind "{target["kind"]}" in group "{group}"'
            raise ApiError(404, "NotFound", text) from error
        if kind.scale is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return kind, await self.client.get(kind.resource, target["name"], namespace)

    async def _scale(self, scaler: Obj, kind: Kind, target: Obj, status: Obj) -> str:
        """Bring the target within its bounds, else look at the metrics; returns why nothing comes of them."""
        spec, size = scaler["spec"], int(target["spec"].get("replicas", 0))
        least, most = int(spec.get("minReplicas", 1)), int(spec["maxReplicas"])
        status["currentReplicas"] = size
        if size == 0 and least:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(status, "ScalingActive", "False", "ScalingDisabled", text)
            status["desiredReplicas"], status["currentMetrics"] = 0, None
        elif size > most:
            await self._resize(scaler, kind, most, "Current number of replicas above Spec.MaxReplicas", status)
        elif size < least:
            await self._resize(scaler, kind, least, "Current number of replicas below Spec.MinReplicas", status)
        else:
            return await self._measure(scaler, target, status)
        return ""

    async def _resize(self, scaler: Obj, kind: Kind, size: int, why: str, status: Obj) -> None:
        name, namespace = scaler["spec"]["scaleTargetRef"]["name"], scaler["metadata"]["namespace"]
        patch = {"spec": {"replicas": size}}
        status["currentMetrics"] = None
        try:
            await self.client.patch(kind.resource, name, namespace, patch, subresource="scale")
        except ApiError as error:
            text = f"New size: {size}; reason: {why}; error: {error.message}"
            await self.recorder.warning(scaler, "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error.message}"
            self._set(status, "AbleToScale", "False", "FailedUpdateScale", text)
            return
        text = f"the HPA controller was able to update the target scale to {size}"
        self._set(status, "AbleToScale", "True", "SucceededRescale", text)
        await self.recorder.normal(scaler, "SuccessfulRescale", f"New size: {size}; reason: {why}")
        status |= {"desiredReplicas": size, "lastScaleTime": stamp(self.clock.now())}

    async def _measure(self, scaler: Obj, target: Obj, status: Obj) -> str:
        """Say that no metric can be had; returns the text of the event about it."""
        status["currentMetrics"] = None
        rivals = self._rivals(scaler, target)
        if len(rivals) > 1:
            chosen = format_struct(_selector(target))
            text = f"pods by selector {chosen} are controlled by multiple HPAs: [{' '.join(rivals)}]"
            await self.recorder.warning(scaler, "AmbiguousSelector", text)
            self._set(status, "ScalingActive", "False", "AmbiguousSelector", text)
            return text
        metrics = scaler["spec"]["metrics"]
        failures = [_failure(metric, scaler["metadata"]["namespace"]) for metric in metrics]
        for reason, _, detail in failures:
            await self.recorder.warning(scaler, reason, detail)
        reason, whole, detail = failures[0]
        self._set(status, "ScalingActive", "False", reason, COUNT.format(detail))
        status["currentMetrics"] = [{"type": ""} for _ in metrics]
        count = len(metrics)
        return f"invalid metrics ({count} invalid out of {count}), first error is: {whole}"

    def _rivals(self, scaler: Obj, target: Obj) -> list[str]:
        """Return the autoscalers, this one among them, that control the same pods."""
        own = self._selectors[queue_key(scaler)] = from_struct(_selector(target))
        space = scaler["metadata"]["namespace"]
        found = [pod for pod in self.pods.by("namespace", space) if own.selects(pod)]
        others = {key: chosen for key, chosen in self._selectors.items() if key.startswith(f"{space}/")}
        return [key for key, chosen in others.items() if any(chosen.selects(pod) for pod in found)]

    def _set(self, status: Obj, kind: str, truth: str, reason: str, message: str) -> None:
        conditions = status["conditions"]
        old = next((condition for condition in conditions if condition["type"] == kind), None)
        if old is None:
            conditions.append(old := {"type": kind, "status": ""})
        since = old["lastTransitionTime"] if old["status"] == truth else stamp(self.clock.now())
        old |= {"status": truth, "lastTransitionTime": since, "reason": reason, "message": message}


def _selector(target: Obj) -> Obj:
    """Return a target's selector; that of a ReplicationController is a plain map of labels."""
    selector: Obj = target["spec"].get("selector") or {}
    return {"matchLabels": selector} if target["kind"] == "ReplicationController" else selector


def _failure(metric: Obj, namespace: str) -> tuple[str, str, str]:
    """Return (reason, the whole error, its inner part) of one metric."""
    kind = metric["type"]
    source = metric[kind[:1].lower() + kind[1:]]
    what, inner = FAILURES[kind](source, namespace)
    # The whole error of what an outer function wraps once more has that wrapping, the event has not.
    wrapped = f"{WRAPPED[kind].format(source['metric']['name'])}: {inner}" if _is_wrapped(kind, source) else inner
    return f"FailedGet{kind}Metric", f"failed to get {what} value: {wrapped}", inner


def _resource(source: Obj, namespace: str) -> tuple[str, str]:
    name, served = source["name"], NOT_FETCHED.format("resource", NOT_SERVED.format("pods"))
    shown = "usage" if source["target"].get("averageValue") is not None else "utilization"
    why = f"failed to get {name} {shown}: unable to get metrics for resource {name}: {served}"
    container = source.get("container")
    return f"{container} container metric" if container else f"{name} resource metric", why


def _external(source: Obj, namespace: str) -> tuple[str, str]:
    name, selector = source["metric"]["name"], source["metric"].get("selector")
    served = NOT_FETCHED.format("external", NOT_SERVED.format(f"{name}.external"))
    shown = selector_text(selector) if selector is not None else "nil"
    return f"{name} external metric", f"unable to get external metric {namespace}/{name}/{shown}: {served}"


def _object(source: Obj, namespace: str) -> tuple[str, str]:
    described = source["describedObject"]
    # In this order, which is upstream's.
    why = f"{described['kind']} on {namespace} {described['name']}/{NO_CUSTOM}"
    return "object metric", f"unable to get metric {source['metric']['name']}: {why}"


def _pods(source: Obj, namespace: str) -> tuple[str, str]:
    return "pods metric", f"unable to get metric {source['metric']['name']}: {NO_CUSTOM}"


FAILURES: dict[str, Any] = {
    "Resource": _resource,
    "ContainerResource": _resource,
    "External": _external,
    "Object": _object,
    "Pods": _pods,
}
WRAPPED = {"External": "failed to get external metric {}", "Object": "failed to get {} object metric"}


def _is_wrapped(kind: str, source: Obj) -> bool:
    return kind == "External" or (kind == "Object" and source["target"].get("averageValue") is not None)
