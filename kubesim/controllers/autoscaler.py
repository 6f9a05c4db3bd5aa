"""HorizontalPodAutoscalers: they bring their target to the size that the use of its pods asks for, and say what they
lack. Metrics other than what pods use of a resource are served by nobody; of a behaviour only its windows count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from kubesim.api.quantity import Format, parse, write
from kubesim.api.selectors import format_struct, from_struct
from kubesim.conditions import condition_of, renewed, replaced
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Keeper, is_ending, queue_key
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry
from kubesim.schema.registry import Kind
from kubesim.times import stamp

SYNC_S = 15.0
WINDOWS_S = {"scaleUp": 0, "scaleDown": 300}
"""The seconds for which a direction remembers what was recommended, unless its behaviour says otherwise."""
FACTOR, LEAST_LIMIT = 2, 4
"""The most that a target may grow at once: to so many times its size, and to so many replicas at any rate."""
TOLERANCE = 0.1
NOT_FETCHED = "unable to fetch metrics from {} metrics API: {}"
UNSERVED = {
    "External": NOT_FETCHED.format("external", "no external metrics API (external.metrics.k8s.io) registered"),
    "ContainerResource": "unable to get metrics of single containers: they are not served on this cluster",
}
NO_CUSTOM = NOT_FETCHED.format("custom", "no custom metrics API (custom.metrics.k8s.io) registered")
NO_METRICS = "unable to get metrics for resource {}: no metrics returned from resource metrics API"
NO_PODS = "did not receive metrics for targeted pods (pods might be unready)"
COUNT = "the HPA was unable to compute the replica count: {}"
READY = ("True", "ReadyForNewScale", "recommended size matches current size")
RECENT = "recent recommendations were {} than current one, applying the {} recent recommendation"
HELD_DOWN = ("True", "ScaleDownStabilized", RECENT.format("higher", "highest"))
HELD_UP = ("True", "ScaleUpStabilized", RECENT.format("lower", "lowest"))
WITHIN = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY = ("True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
TOO_FEW = ("True", "TooFewReplicas", "the desired replica count is less than the minimum replica count")
FAST_UP = ("True", "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
Words = tuple[str, str, str]
"""A condition's status, reason and message."""
Past = list[tuple[float, int]]
"""Earlier recommendations, and their times in seconds."""


class MetricError(Exception):
    """A metric asks for nothing; the message says why, in upstream's words."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The replicas that a metric asks for, what it is called, and what the status says of it."""

    replicas: int
    name: str
    status: Obj


class AutoscalerController(Keeper):
    """Keeps every autoscaler's target at its size, and the conditions that tell of it."""

    source = "horizontal-pod-autoscaler"
    resource = "horizontalpodautoscalers.autoscaling"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = self.informers["pods"]
        self.pods.add_index("namespace", lambda pod: [pod["metadata"]["namespace"]])
        self.usage = context.usage
        self._pasts: dict[str, Past] = {}

    def listen(self) -> None:
        """Watch autoscalers; each is looked at every 15 seconds, first one period after its making."""
        self.own.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.queue.add_after(queue_key(new), SYNC_S)
        elif old is not None:
            self._pasts.pop(queue_key(old), None)

    async def look_after(self, scaler: Obj) -> None:
        """Look at one autoscaler's target and metrics."""
        if is_ending(scaler):
            return
        self.queue.add_after(queue_key(scaler), SYNC_S)
        status: Obj = {"desiredReplicas": 0, **scaler.get("status", {}), "currentMetrics": None}
        status.setdefault("conditions", [])
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
        await self.write_status(self.own, scaler, status)
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
        least, most = _bounds(scaler)
        size = status["currentReplicas"] = int(target["spec"].get("replicas", 0))
        if size == 0 and least:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(status, "ScalingActive", "False", "ScalingDisabled", text)
            status["desiredReplicas"] = 0
        elif size > most:
            await self._resize(scaler, kind, most, "Current number of replicas above Spec.MaxReplicas", status)
        elif size < least:
            await self._resize(scaler, kind, least, "Current number of replicas below Spec.MinReplicas", status)
        else:
            return await self._measure(scaler, kind, target, status)
        return ""

    async def _resize(self, scaler: Obj, kind: Kind, size: int, why: str, status: Obj) -> None:
        name, namespace = scaler["spec"]["scaleTargetRef"]["name"], scaler["metadata"]["namespace"]
        patch = {"spec": {"replicas": size}}
        try:
            await self.client.patch(kind.resource, name, namespace, patch, subresource="scale")
        except ApiError as error:
            await self.tell(scaler, "FailedRescale", size=size, why=why, error=error.message)
            text = f"the HPA controller was unable to update the target scale: {error.message}"
            self._set(status, "AbleToScale", "False", "FailedUpdateScale", text)
            return
        text = f"the HPA controller was able to update the target scale to {size}"
        self._set(status, "AbleToScale", "True", "SucceededRescale", text)
        await self.tell(scaler, "SuccessfulRescale", size=size, why=why)
        status |= {"desiredReplicas": size, "lastScaleTime": stamp(self.clock.now())}

    async def _measure(self, scaler: Obj, kind: Kind, target: Obj, status: Obj) -> str:
        """Go by the metrics; returns the text of the event about those that are missing, if nothing comes of them."""
        proposals: list[Proposal] = []
        failures: list[tuple[str, str, str]] = []
        for metric in scaler["spec"]["metrics"]:
            try:
                proposals.append(await self._proposed(scaler, target, metric))
            except MetricError as error:
                failures.append((f"FailedGet{metric['type']}Metric", *_failure(metric, str(error))))
        for reason, _, detail in failures:
            await self.recorder.warning(scaler, reason, detail)
        status["currentMetrics"] = [*(proposal.status for proposal in proposals), *({"type": ""} for _ in failures)]
        best = max(proposals, key=lambda proposal: proposal.replicas, default=None)
        if best is None or (failures and best.replicas < status["currentReplicas"]):
            reason, whole, detail = failures[0]
            self._set(status, "ScalingActive", "False", reason, COUNT.format(detail))
            counted = f"{len(failures)} invalid out of {len(scaler['spec']['metrics'])}"
            return f"invalid metrics ({counted}), first error is: {whole}"
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set(status, "ScalingActive", "True", "ValidMetricFound", text)
        await self._follow(scaler, kind, best, status)
        return ""

    async def _proposed(self, scaler: Obj, target: Obj, metric: Obj) -> Proposal:
        """Return what one metric asks for. Raises ``MetricError``."""
        if metric["type"] != "Resource":
            raise MetricError(UNSERVED.get(metric["type"], NO_CUSTOM))
        source, namespace, chosen = metric["resource"], scaler["metadata"]["namespace"], _selector(target)
        try:
            found = await self.usage(namespace, format_struct(chosen))
        except ApiError as error:
            why = NOT_FETCHED.format("resource", error.message)
            raise MetricError(f"unable to get metrics for resource {source['name']}: {why}") from error
        if not found:
            raise MetricError(NO_METRICS.format(source["name"]))
        own = from_struct(chosen)
        selected = [pod for pod in self.pods.by("namespace", namespace) if own.selects(pod)]
        return counted(source, int(target["spec"].get("replicas", 0)), selected, found)

    async def _follow(self, scaler: Obj, kind: Kind, best: Proposal, status: Obj) -> None:
        """Bring the target as near to a proposal as bounds and windows let it go."""
        size, now = status["currentReplicas"], self.clock.now().timestamp()
        past = self._pasts.setdefault(queue_key(scaler), [(now, int(status.get("currentReplicas") or 0))])
        steady, able = steadied(scaler["spec"].get("behavior") or {}, size, best.replicas, past, now)
        wanted, limited = limit(_bounds(scaler), size, steady)
        self._set(status, "AbleToScale", *able)
        self._set(status, "ScalingLimited", *limited)
        status["desiredReplicas"] = size
        if wanted != size:
            why = f"{best.name} above target" if best.replicas > size else "All metrics below target"
            await self._resize(scaler, kind, wanted, why, status)

    def _set(self, status: Obj, kind: str, truth: str, reason: str, message: str) -> None:
        fresh = renewed(condition_of(status, kind), kind, (truth, reason, message), self.clock.now())
        status["conditions"] = replaced(status["conditions"], fresh)


def _bounds(scaler: Obj) -> tuple[int, int]:
    return int(scaler["spec"].get("minReplicas", 1)), int(scaler["spec"]["maxReplicas"])


def _selector(target: Obj) -> Obj:
    """Return a target's selector; that of a ReplicationController is a plain map of labels."""
    selector: Obj = target["spec"].get("selector") or {}
    return {"matchLabels": selector} if target["kind"] == "ReplicationController" else selector


def _failure(metric: Obj, why: str) -> tuple[str, str]:
    """Return the whole error of a metric that asks for nothing, and its inner part."""
    if metric["type"] != "Resource":
        return f"failed to get {metric['type'].lower()} metric value: {why}", why
    source = metric["resource"]
    shown = "usage" if source["target"].get("averageValue") is not None else "utilization"
    detail = f"failed to get {source['name']} {shown}: {why}"
    return f"failed to get {source['name']} resource metric value: {detail}", detail


def counted(source: Obj, current: int, selected: list[Obj], found: list[Obj]) -> Proposal:
    """Return the replicas that a resource's metric asks for, by the pods that run. Raises ``MetricError``."""
    name, target = source["name"], source["target"]
    running = {pod["metadata"]["name"]: pod for pod in selected if pods.ready_since(pod) and pods.is_active(pod)}
    used = {key: use for pod in found if (key := pod["metadata"]["name"]) in running and (use := _used(pod, name))}
    if not used:
        raise MetricError(NO_PODS)
    average = sum(used.values(), Fraction(0)) / len(used)
    form: Format = "binary" if name == "memory" else "decimal"
    current_value: Obj = {"averageValue": write(Fraction(int(average * 1000), 1000), form)}
    if target.get("averageValue") is not None:
        ratio, shown = float(average / parse(target["averageValue"])), f"{name} resource"
    else:
        asked = sum(_requested(running[key], name) for key in used)
        if not asked:
            raise MetricError("no metrics returned matched known pods")
        percent = int(sum(used.values()) * 100 // asked)
        ratio, shown = percent / target["averageUtilization"], f"{name} resource utilization (percentage of request)"
        current_value = {"averageUtilization": percent, **current_value}
    wanted = current if abs(ratio - 1) <= TOLERANCE else math.ceil(round(ratio * len(used), 9))
    return Proposal(wanted, shown, {"type": "Resource", "resource": {"name": name, "current": current_value}})


def _used(pod: Obj, resource: str) -> Fraction:
    """Return what metrics.k8s.io tells of a pod's use."""
    told = [entry.get("usage", {}).get(resource) for entry in pod.get("containers") or ()]
    return sum((parse(text) for text in told if text), Fraction(0))


def _requested(pod: Obj, resource: str) -> Fraction:
    """Return what a pod requests. Raises ``MetricError`` for a container that requests nothing."""
    total = Fraction(0)
    for entry in pod["spec"]["containers"]:
        text = ((entry.get("resources") or {}).get("requests") or {}).get(resource)
        if text is None:
            where = f"container {entry['name']} of Pod {pod['metadata']['name']}"
            raise MetricError(f"missing request for {resource} in {where}")
        total += parse(text)
    return total


def steadied(behavior: Obj, current: int, wanted: int, past: Past, now: float) -> tuple[int, Words]:
    """Return a recommendation that does not swing, for it remembers those of its windows; and why it is another."""
    rules = {name: behavior.get(name) or {} for name in WINDOWS_S}
    windows = {name: rules[name].get("stabilizationWindowSeconds", default) for name, default in WINDOWS_S.items()}
    past[:] = [entry for entry in past if entry[0] > now - max(windows.values())]
    seen = {name: [wanted, *(size for at, size in past if at > now - windows[name])] for name in WINDOWS_S}
    past.append((now, wanted))
    highest = max(seen["scaleDown"])
    steady = min(max(current, min(seen["scaleUp"])), highest) if behavior else highest
    direction = "scaleUp" if steady > current else "scaleDown"
    if rules[direction].get("selectPolicy") == "Disabled":
        return current, READY
    return steady, READY if steady == wanted else HELD_DOWN if steady > wanted else HELD_UP


def limit(bounds: tuple[int, int], current: int, wanted: int) -> tuple[int, Words]:
    """Return a recommendation within the bounds, and what has bounded it."""
    (least, most), fastest = bounds, max(FACTOR * current, LEAST_LIMIT)
    if wanted > min(most, fastest):
        return min(most, fastest), FAST_UP if most > fastest else TOO_MANY
    return (least, TOO_FEW) if wanted < least else (wanted, WITHIN)
