"""HorizontalPodAutoscalers: they bring their target to the size that the use of its pods asks for, and say what they
lack. Metrics other than the use of resources are served by nobody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from kubesim.api.quantity import Format, parse, write
from kubesim.api.selectors import LabelSelector, format_struct, from_struct
from kubesim.conditions import condition_of, renewed, replaced
from kubesim.controllers.base import Context, Keeper, is_ending, queue_key
from kubesim.controllers.rates import Bounds, Past
from kubesim.controllers.replicas import TOLERANCE, Aim, NoCount, count, samples
from kubesim.controllers.shown import selector_text
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry
from kubesim.schema.registry import Kind
from kubesim.times import stamp

SYNC_S = 15.0
NOT_FETCHED = "unable to fetch metrics from {} metrics API: {}"
NOT_MEASURED = "unable to get metrics for resource {}: {}"
MEASURED = {"Resource": "resource", "ContainerResource": "containerResource"}
"""The metrics that pods have by using something, and the field that tells of each."""
NO_CUSTOM = NOT_FETCHED.format("custom", "no custom metrics API (custom.metrics.k8s.io) registered")
NO_EXTERNAL = NOT_FETCHED.format(
    "external", "the server could not find the requested resource (get {name}.external.metrics.k8s.io)"
)
UNSERVED = {
    "External": (
        "{name} external metric",
        f"unable to get external metric {{namespace}}/{{name}}/{{selector}}: {NO_EXTERNAL}",
        "failed to get external metric {name}: ",
    ),
    "Object": (
        "object metric",
        f"unable to get metric {{name}}: {{object[kind]}} on {{namespace}} {{object[name]}}/{NO_CUSTOM}",
        "failed to get {name} object metric: ",
    ),
    "Pods": ("pods metric", f"unable to get metric {{name}}: {NO_CUSTOM}", ""),
}
"""Of metrics that nobody serves: what is asked for, why it is not there, what a whole error says before that."""
COUNT = "the HPA was unable to compute the replica count: {}"


class AutoscalerController(Keeper):
    """Keeps the conditions of every autoscaler."""

    source = "horizontal-pod-autoscaler"
    resource = "horizontalpodautoscalers.autoscaling"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = self.informers["pods"]
        self.pods.add_index("namespace", lambda pod: [pod["metadata"]["namespace"]])
        self.usage = context.usage
        self._selectors: dict[str, LabelSelector] = {}
        self._pasts: dict[str, Past] = {}

    def listen(self) -> None:
        """Watch autoscalers; each is looked at every 15 seconds, first one period after its making."""
        self.own.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.queue.add_after(queue_key(new), SYNC_S)
        elif old is not None:
            self._selectors.pop(queue_key(old), None)
            self._pasts.pop(queue_key(old), None)

    async def look_after(self, scaler: Obj) -> None:
        """Look at one autoscaler's target and metrics."""
        if is_ending(scaler):
            return
        self.queue.add_after(queue_key(scaler), SYNC_S)
        status: Obj = {"currentMetrics": None, "desiredReplicas": 0, **scaler.get("status", {})}
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
        spec, size = scaler["spec"], int(target["spec"].get("replicas", 0))
        least, most = int(spec.get("minReplicas", 1)), int(spec["maxReplicas"])
        status["currentReplicas"] = size
        if size == 0 and least:
            text = "scaling is disabled since the replica count of the target is zero"
            self._set(status, "ScalingActive", "False", "ScalingDisabled", text)
            status["desiredReplicas"], status["currentMetrics"] = 0, None
        elif size > most:
            status["currentMetrics"] = None
            await self._resize(scaler, kind, most, "Current number of replicas above Spec.MaxReplicas", status)
        elif size < least:
            status["currentMetrics"] = None
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
        self._past(scaler).changes.append((self.clock.now().timestamp(), size - status["currentReplicas"]))
        status |= {"desiredReplicas": size, "lastScaleTime": stamp(self.clock.now())}

    async def _measure(self, scaler: Obj, kind: Kind, target: Obj, status: Obj) -> str:
        """Go by the metrics; returns the text of the event about those that are missing, if nothing comes of them."""
        status["currentMetrics"] = None
        rivals = self._rivals(scaler, target)
        if len(rivals) > 1:
            chosen = format_struct(_selector(target))
            text = f"pods by selector {chosen} are controlled by multiple HPAs: [{' '.join(rivals)}]"
            await self.recorder.warning(scaler, "AmbiguousSelector", text)
            self._set(status, "ScalingActive", "False", "AmbiguousSelector", text)
            return text
        found = [await self._proposed(scaler, target, metric) for metric in scaler["spec"]["metrics"]]
        failures = [entry for entry in found if isinstance(entry, Failure)]
        proposals = [entry for entry in found if isinstance(entry, Proposal)]
        for failure in failures:
            await self.recorder.warning(scaler, failure.reason, failure.detail)
        status["currentMetrics"] = [entry.status if isinstance(entry, Proposal) else {"type": ""} for entry in found]
        best = max(proposals, key=lambda proposal: proposal.replicas, default=None)
        if best is None or (failures and best.replicas < status["currentReplicas"]):
            self._set(status, "ScalingActive", "False", failures[0].reason, COUNT.format(failures[0].detail))
            counted = f"{len(failures)} invalid out of {len(found)}"
            return f"invalid metrics ({counted}), first error is: {failures[0].whole}"
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._set(status, "ScalingActive", "True", "ValidMetricFound", text)
        await self._follow(scaler, kind, best, status)
        return ""

    async def _proposed(self, scaler: Obj, target: Obj, metric: Obj) -> Proposal | Failure:
        """Return what one metric asks for."""
        namespace = scaler["metadata"]["namespace"]
        if metric["type"] not in MEASURED:
            return _failure(metric, namespace)
        source, kind = metric[MEASURED[metric["type"]]], metric["type"]
        aim, chosen = _aim(source, scaler["spec"].get("behavior") or {}), _selector(target)
        own = from_struct(chosen)
        pods = [pod for pod in self.pods.by("namespace", namespace) if own.selects(pod)]
        try:
            found = await self.usage(namespace, format_struct(chosen))
            if not found:
                raise NoCount(NOT_MEASURED.format(aim.resource, "no metrics returned from resource metrics API"))
            measured = samples(found, aim.resource, aim.container)
            counted = count(aim, int(target["spec"].get("replicas", 0)), pods, measured, self.clock.now())
        except ApiError as error:
            return _missed(
                kind, source, NOT_MEASURED.format(aim.resource, NOT_FETCHED.format("resource", error.message))
            )
        except NoCount as error:
            return _missed(kind, source, str(error))
        form: Format = "binary" if aim.resource == "memory" else "decimal"
        current = {"averageValue": write(Fraction(counted.value, 1000), form)}
        if aim.percent:
            current = {"averageUtilization": counted.percent, **current}  # type: ignore[dict-item]
        shown = {"name": aim.resource, "current": current} | ({"container": aim.container} if aim.container else {})
        told = {"type": kind, MEASURED[kind]: shown}
        return Proposal(counted.replicas, _name(aim), told)

    async def _follow(self, scaler: Obj, kind: Kind, best: Proposal, status: Obj) -> None:
        """Bring the target as near to a proposal as bounds and behaviour let it go."""
        spec, size, past = scaler["spec"], status["currentReplicas"], self._past(scaler)
        bounds = Bounds(int(spec.get("minReplicas", 1)), int(spec["maxReplicas"]), spec.get("behavior"))
        why = f"{best.name} above target" if best.replicas > size else "All metrics below target"
        wanted, able, limited = bounds.settled(size, best.replicas, past, self.clock.now().timestamp())
        self._set(status, "AbleToScale", *able)
        self._set(status, "ScalingLimited", *limited)
        status["desiredReplicas"] = size
        if wanted != size:
            await self._resize(scaler, kind, wanted, why, status)

    def _past(self, scaler: Obj) -> Past:
        """Return what an autoscaler remembers; at first, the size that it found."""
        key, now = queue_key(scaler), self.clock.now().timestamp()
        if key not in self._pasts:
            self._pasts[key] = Past([(now, int((scaler.get("status") or {}).get("currentReplicas") or 0))])
        return self._pasts[key]

    def _rivals(self, scaler: Obj, target: Obj) -> list[str]:
        """Return the autoscalers, this one among them, that control the same pods."""
        own = self._selectors[queue_key(scaler)] = from_struct(_selector(target))
        space = scaler["metadata"]["namespace"]
        found = [pod for pod in self.pods.by("namespace", space) if own.selects(pod)]
        others = {key: chosen for key, chosen in self._selectors.items() if key.startswith(f"{space}/")}
        return [key for key, chosen in others.items() if any(chosen.selects(pod) for pod in found)]

    def _set(self, status: Obj, kind: str, truth: str, reason: str, message: str) -> None:
        fresh = renewed(condition_of(status, kind), kind, (truth, reason, message), self.clock.now())
        status["conditions"] = replaced(status["conditions"], fresh)


def _selector(target: Obj) -> Obj:
    """Return a target's selector; that of a ReplicationController is a plain map of labels."""
    selector: Obj = target["spec"].get("selector") or {}
    return {"matchLabels": selector} if target["kind"] == "ReplicationController" else selector


@dataclass(frozen=True, slots=True)
class Proposal:
    """The replicas that a metric asks for, what it is called, and what the status says of it."""

    replicas: int
    name: str
    status: Obj


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a metric asks for nothing: the reason, the whole error, and its inner part."""

    reason: str
    whole: str
    detail: str


def _aim(source: Obj, behavior: Obj) -> Aim:
    """Return what a resource metric aims at."""
    target, container = source["target"], source.get("container", "")
    given = [(behavior.get(name) or {}).get("tolerance") for name in ("scaleDown", "scaleUp")]
    below, above = (TOLERANCE if text is None else float(parse(str(text))) for text in given)
    aim = Aim(source["name"], container=container, tolerance=(below, above))
    if target.get("averageValue") is not None:
        return replace(aim, value=int(parse(target["averageValue"]) * 1000))
    return replace(aim, percent=int(target["averageUtilization"]))


def _name(aim: Aim) -> str:
    """Return what conditions and events call a metric."""
    if aim.value:
        return f"{aim.resource} resource"
    return f"{aim.resource} {'container ' if aim.container else ''}resource utilization (percentage of request)"


def _missed(kind: str, source: Obj, why: str) -> Failure:
    """Return the failure of a resource metric."""
    name, container = source["name"], source.get("container")
    shown = "usage" if source["target"].get("averageValue") is not None else "utilization"
    what = f"{container} container metric" if container else f"{name} resource metric"
    detail = f"failed to get {name} {shown}: {why}"
    return Failure(f"FailedGet{kind}Metric", f"failed to get {what} value: {detail}", detail)


def _failure(metric: Obj, namespace: str) -> Failure:
    """Return the failure of a metric that nobody serves."""
    kind = metric["type"]
    source = metric[kind[:1].lower() + kind[1:]]
    selector = source["metric"].get("selector")
    words = {"name": source["metric"]["name"], "namespace": namespace, "object": source.get("describedObject")}
    words["selector"] = selector_text(selector) if selector is not None else "nil"
    what, inner, wrapping = (text.format(**words) for text in UNSERVED[kind])
    if kind == "Object" and source["target"].get("averageValue") is None:
        wrapping = ""
    return Failure(f"FailedGet{kind}Metric", f"failed to get {what} value: {wrapping}{inner}", inner)
