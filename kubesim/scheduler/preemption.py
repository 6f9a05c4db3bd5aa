"""The pods that another may turn out to make room for itself: as few as must be, and the least important ones.

The texts of FailedScheduling events are here, too. Since dynamic resource allocation is on by default (1.34), its
plugin speaks before preemption does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubesim.api.selectors import from_struct
from kubesim.errors import Obj
from kubesim.scheduler.filters import prepare, refuse
from kubesim.scheduler.state import Cluster, HinderedError, NodeState, PodInfo, Refusal
from kubesim.times import parse

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate"
STILL = "still not schedulable"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NOBODY = Refusal((NO_VICTIMS,))
BY_US = "PreemptionByScheduler"
MOST_CANDIDATES = 100
LARGEST_PRIORITY = 2**31
"""Added to every priority of a sum, so that more victims never make it smaller."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, and who must go for the pod to fit, the most important first."""

    node: str
    victims: list[PodInfo]
    violations: int

    def rank(self, now: datetime) -> tuple[float, ...]:
        """Sort key: the best candidate comes first."""
        highest = self.victims[0].priority
        started = min(_started(pod, now) for pod in self.victims if pod.priority == highest)
        total = sum(pod.priority + LARGEST_PRIORITY for pod in self.victims)
        return self.violations, highest, total, len(self.victims), -started


def preempt(
    pod: PodInfo, refusals: Mapping[str, Refusal], cluster: Cluster, now: datetime
) -> tuple[Candidate | None, str]:
    """Return the best candidate, or None and why there is none."""
    if why := _ineligible(pod, refusals, cluster):
        return None, why
    candidates: list[Candidate] = []
    statuses: list[Refusal] = []
    potential = [name for name, refusal in refusals.items() if refusal.resolvable]
    for name in potential:
        found = _victims(pod, cluster.nodes[name], cluster, now)
        if isinstance(found, Refusal):
            statuses.append(found)
        else:
            candidates.append(found)
        if len(candidates) >= max(MOST_CANDIDATES, len(potential) // 10) and not candidates[-1].violations:
            break
    if candidates:
        return min(candidates, key=lambda candidate: candidate.rank(now)), ""
    reasons = [reason for status in statuses for reason in status.reasons]
    reasons += [NOT_HELPFUL] * (len(cluster.nodes) - len(statuses))
    return None, available(len(cluster.nodes), reasons)


def _ineligible(pod: PodInfo, refusals: Mapping[str, Refusal], cluster: Cluster) -> str:
    """Return why a pod may turn out nobody (now)."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return NEVER
    refusal, node = refusals.get(pod.nominated), cluster.nodes.get(pod.nominated)
    if node is None or (refusal is not None and not refusal.resolvable):
        return ""
    leaving = any(other.priority < pod.priority and _is_leaving(other) for other in node.pods.values())
    return TERMINATING if leaving else ""


def _is_leaving(pod: PodInfo) -> bool:
    conditions = pod.obj.get("status", {}).get("conditions") or ()
    return pod.ending and any(c["type"] == "DisruptionTarget" and c.get("reason") == BY_US for c in conditions)


def _victims(pod: PodInfo, node: NodeState, cluster: Cluster, now: datetime) -> Candidate | Refusal:
    """Return who must go from a node, or why nobody's going would help."""
    lesser = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lesser:
        return NOBODY
    refusal = _refusal_without(lesser, pod, node, cluster)
    if refusal is not None:
        return refusal
    lesser.sort(key=lambda other: (-other.priority, _started(other, now)))
    guarded = _guarded(lesser, cluster.relations.budgets())
    gone, violations = list(lesser), 0
    for other in sorted(lesser, key=lambda other: other.uid not in guarded):
        without = [found for found in gone if found is not other]
        if _refusal_without(without, pod, node, cluster) is None:
            gone = without
        else:
            violations += other.uid in guarded
    return Candidate(node.name, gone, violations)


def _refusal_without(gone: list[PodInfo], pod: PodInfo, node: NodeState, cluster: Cluster) -> Refusal | None:
    with cluster.supposing(node.name, go=gone):
        try:
            return refuse(pod, node, cluster, prepare(pod, cluster))
        except HinderedError as hindrance:
            return Refusal((str(hindrance),))


def _guarded(pods: list[PodInfo], budgets: list[Obj]) -> set[str]:
    """Return the pods (by uid) whose going their disruption budgets do not allow."""
    left = [budget.get("status", {}).get("disruptionsAllowed", 0) for budget in budgets]
    found: set[str] = set()
    for pod in pods:
        for index, budget in enumerate(budgets):
            if _covers(budget, pod):
                left[index] -= 1
                if left[index] < 0:
                    found.add(pod.uid)
    return found


def _covers(budget: Obj, pod: PodInfo) -> bool:
    """Tell whether a budget guards a pod; an empty selector guards none here."""
    if budget["metadata"]["namespace"] != pod.namespace or not pod.labels:
        return False
    selector = from_struct(budget["spec"].get("selector"))
    processed = pod.obj["metadata"]["name"] in (budget.get("status", {}).get("disruptedPods") or {})
    return bool(selector.requirements) and selector.matches(pod.labels) and not processed


def _started(pod: PodInfo, now: datetime) -> float:
    at = pod.obj.get("status", {}).get("startTime")
    return (parse(at) if at else now).timestamp()


def available(nodes: int, reasons: Iterable[str]) -> str:
    """Return how many of ``nodes`` were refused for which reasons, sorted as texts."""
    counted = ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
    return f"0/{nodes} nodes are available: {counted}."


def hindered(nodes: int, why: str) -> str:
    """Return the text for a pod that can be on no node, whatever the nodes are."""
    return f"0/{nodes} nodes are available: {why}. not found"


def unhelped(text: str, preemption: str, claims: str = NO_CLAIMS) -> str:
    """Return the text for a pod for which no room can be made, either; ``claims``: what the plugin of claims says."""
    return f"{text} {claims}, preemption: {preemption}"
