"""What is left in a namespace that goes, and how its conditions say so.

The texts are those of k8s.io/kubernetes/pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from kubesim.api.durations import parse_time
from kubesim.conditions import renewed
from kubesim.errors import Obj

FINALIZER_S = 15
"""How long finalizers are expected to take."""
ENDED = ("Succeeded", "Failed")
CONTENT, REMAINING, FINALIZERS = (
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions", "All legacy kube types successfully parsed"
    ),
    CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}  # fmt: skip
"""The reason and message of each condition where nothing is wrong, in the order in which they are written."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of one resource: how many, by which finalizers, and the seconds that they may take."""

    count: int = 0
    finalizers: Counter[str] = field(default_factory=Counter)
    estimate_s: int = 0
    failures: list[str] = field(default_factory=list)


def left_of(resource: str, items: list[Obj], namespace: Obj, now: datetime) -> Left:
    """Return what the objects that are still there mean; those that nothing holds are a failure."""
    estimate = _grace_s(items, namespace, now) if resource == "pods" else 0
    finalizers = Counter(name for obj in items for name in obj["metadata"].get("finalizers") or ())
    if not items or estimate:
        return Left(len(items), finalizers, estimate)
    if finalizers:
        return Left(len(items), finalizers, FINALIZER_S)
    group, _, version = items[0]["apiVersion"].rpartition("/")
    kind = f"{group}/{version}, Resource={resource.partition('.')[0]}"
    why = f"unexpected items still remain in namespace: {namespace['metadata']['name']} for gvr: {kind}"
    return Left(len(items), finalizers, 0, [why])


def _grace_s(pods: list[Obj], namespace: Obj, now: datetime) -> int:
    """Return the longest time that a running pod gets to end, or 0 where it is over."""
    running = [pod["spec"] for pod in pods if pod.get("status", {}).get("phase") not in ENDED]
    longest = max((spec.get("terminationGracePeriodSeconds") or 0 for spec in running), default=0)
    began = parse_time(namespace["metadata"]["deletionTimestamp"])
    return 0 if began is None or (now - began).total_seconds() >= longest else longest


class Remains:
    """What is left in one namespace, resource by resource."""

    def __init__(self, failures: list[str] | None = None) -> None:
        self.counts: dict[str, int] = {}
        self.estimate_s = 0
        self._failures = failures or []
        self._finalizers: Counter[str] = Counter()

    def add(self, resource: str, left: Left) -> None:
        """Take in what is left of one resource."""
        self._failures += left.failures
        self.estimate_s = max(self.estimate_s, left.estimate_s)
        if left.count:
            self.counts[resource] = left.count
            self._finalizers += left.finalizers

    def conditions(self, before: list[Obj], now: datetime) -> list[Obj]:
        """Return the conditions of the namespace; one whose status stays keeps its time."""
        known, wrong = {entry["type"]: entry for entry in before}, self._wrong()
        for kind, fine in FINE.items():
            says = ("True" if kind in wrong else "False", *wrong.get(kind, fine))
            known[kind] = renewed(known.get(kind, {}), kind, says, now)
        return list(known.values())

    def _wrong(self) -> dict[str, tuple[str, str]]:
        """Return (reason, message) of each condition that holds."""
        wrong = {}
        if failures := sorted(self._failures):
            text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
            wrong[CONTENT] = ("ContentDeletionFailed", text)
        if self.counts:
            named = {f"{name}." if "." not in name else name: count for name, count in self.counts.items()}
            each = sorted(f"{name} has {count} resource instances" for name, count in named.items())
            wrong[REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(each)}")
        if self._finalizers:
            each = sorted(f"{name} in {count} resource instances" for name, count in self._finalizers.items())
            text = f"Some content in the namespace has finalizers remaining: {', '.join(each)}"
            wrong[FINALIZERS] = ("SomeFinalizersRemain", text)
        return wrong
