"""How many replicas a metric asks for, as upstream's autoscaler reckons it from what pods use (pure functions)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from kubesim.api.durations import parse_time
from kubesim.api.quantity import parse
from kubesim.conditions import condition_of
from kubesim.errors import Obj

TOLERANCE = 0.1
START_UP = timedelta(minutes=5)
"""How long after its start a pod's CPU may be that of its starting."""
INITIAL_READINESS = timedelta(seconds=30)
NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"
NO_PODS = "no pods returned by selector while calculating replica count"
NO_MATCH = "no metrics returned matched known pods"
ENDED = "Failed"


class NoCount(Exception):
    """No count can be reckoned; the message says why, in upstream's words."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a pod uses, in thousandths, and when that was measured over how many seconds."""

    value: int
    at: datetime
    window_s: float


@dataclass(frozen=True, slots=True)
class Aim:
    """What is aimed at: a share of what is requested in per cent, or a use per pod in thousandths."""

    resource: str
    percent: int = 0
    value: int = 0
    container: str = ""
    tolerance: tuple[float, float] = (TOLERANCE, TOLERANCE)
    """Below and above 1."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many replicas there should be, and what they use now: per cent of the requests, and per pod."""

    replicas: int
    percent: int
    value: int


def samples(found: Iterable[Obj], resource: str, container: str = "") -> dict[str, Sample]:
    """Return what each pod uses of a resource, or a container of its; pods of which a part is missing are left out.

    Raises ``NoCount`` for metrics that lack the container.
    """
    told = {}
    for pod in found:
        chosen = [entry for entry in pod.get("containers") or () if container in ("", entry["name"])]
        if container and not chosen:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            why = f"container {container} not present in metrics for pod {name}"
            raise NoCount(f"unable to get metrics for resource {resource}: failed to get container metrics: {why}")
        used = [entry.get("usage", {}).get(resource) for entry in chosen]
        if used and None not in used:
            total = math.ceil(sum(parse(text) for text in used if text is not None) * 1000)
            window = float(pod["window"].removesuffix("s"))
            told[pod["metadata"]["name"]] = Sample(total, _time(pod["timestamp"]), window)
    return told


def _time(text: str) -> datetime:
    """Return a time that a part of the cluster has written."""
    moment = parse_time(text)
    assert moment is not None
    return moment


def count(aim: Aim, current: int, pods: list[Obj], measured: dict[str, Sample], now: datetime) -> Count:
    """Return the replicas that an aim asks for. Raises ``NoCount``."""
    if not pods:
        raise NoCount(NO_PODS)
    ready, unready, missing, ignored = _grouped(pods, measured, aim.resource, now)
    used = {name: sample.value for name, sample in measured.items() if name not in unready | ignored}
    if not used:
        raise NoCount(NO_METRICS)
    requests = {pod["metadata"]["name"]: _requested(pod, aim) for pod in pods} if aim.percent else {}
    ratio, percent, value = _ratio(aim, used, requests)
    rising = bool(unready) and ratio > 1
    if not rising and not missing:
        wanted = current if _is_within(aim, ratio) else math.ceil(round(ratio * ready, 9))
        return Count(wanted, percent, value)
    if ratio < 1:
        used |= {name: _full(aim, requests.get(name, 0)) for name in missing}
    elif ratio > 1:
        used |= dict.fromkeys(missing, 0)
    if rising:
        used |= dict.fromkeys(unready, 0)
    again = _ratio(aim, used, requests)[0]
    wanted = math.ceil(round(again * len(used), 9))
    turned = (ratio - 1) * (again - 1) < 0 or (again - 1) * (wanted - current) < 0
    return Count(current if turned or _is_within(aim, again) else wanted, percent, value)


def _grouped(
    pods: list[Obj], measured: dict[str, Sample], resource: str, now: datetime
) -> tuple[int, set[str], set[str], set[str]]:
    """Return the number of pods that count, and the names of the unready, the unmeasured and the ending ones."""
    ready, groups = 0, (set[str](), set[str](), set[str]())
    unready, missing, ignored = groups
    for pod in pods:
        name, status = pod["metadata"]["name"], pod.get("status") or {}
        if pod["metadata"].get("deletionTimestamp") or status.get("phase") == ENDED:
            ignored.add(name)
        elif status.get("phase") == "Pending":
            unready.add(name)
        elif name not in measured:
            missing.add(name)
        elif resource == "cpu" and _is_starting(status, measured[name], now):
            unready.add(name)
        else:
            ready += 1
    return ready, *groups


def _is_starting(status: Obj, sample: Sample, now: datetime) -> bool:
    """Tell whether a pod's CPU says nothing yet of its work."""
    condition, start = condition_of(status, "Ready"), status.get("startTime")
    if not condition or not start:
        return True
    since, started = _time(condition["lastTransitionTime"]), _time(start)
    if started + START_UP > now:
        return condition["status"] == "False" or sample.at < since + timedelta(seconds=sample.window_s)
    return condition["status"] == "False" and started + INITIAL_READINESS > since


def _requested(pod: Obj, aim: Aim) -> int:
    """Return what a pod requests, in thousandths. Raises ``NoCount`` for a container that requests nothing."""
    spec = pod["spec"]
    lasting = [entry for entry in spec.get("initContainers") or () if entry.get("restartPolicy") == "Always"]
    total = Fraction(0)
    for entry in (*spec["containers"], *lasting):
        if aim.container in ("", entry["name"]):
            text = ((entry.get("resources") or {}).get("requests") or {}).get(aim.resource)
            if text is None:
                name = f"container {entry['name']} of Pod {pod['metadata']['name']}"
                raise NoCount(f"missing request for {aim.resource} in {name}")
            total += parse(text)
    return math.ceil(total * 1000)


def _ratio(aim: Aim, used: dict[str, int], requests: dict[str, int]) -> tuple[float, int, int]:
    """Return how far the use is from the aim (1: it is there), the per cent and the use per pod."""
    if not aim.percent:
        average = sum(used.values()) // len(used)
        return average / aim.value, 0, average
    known = [name for name in used if name in requests]
    asked = sum(requests[name] for name in known)
    if not asked:
        raise NoCount(NO_MATCH)
    total = sum(used[name] for name in known)
    percent = total * 100 // asked
    return percent / aim.percent, percent, total // len(known)


def _is_within(aim: Aim, ratio: float) -> bool:
    below, above = aim.tolerance
    return 1 - below <= ratio <= 1 + above


def _full(aim: Aim, request: int) -> int:
    """Return what a pod without metrics is taken to use when fewer would do."""
    return request * max(100, aim.percent) // 100 if aim.percent else aim.value
