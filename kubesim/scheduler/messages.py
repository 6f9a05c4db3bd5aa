"""The text of a FailedScheduling event and of the PodScheduled condition, as 1.34 words it.

Since dynamic resource allocation is on by default (1.34), its plugin speaks before preemption does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubesim.scheduler.filters import Refusal

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."


def unschedulable(refusals: list[Refusal], *, preempts: bool) -> str:
    """Return the whole message for the refusals of all nodes."""
    if not refusals:
        return f"0/0 nodes are available: {NO_NODES}."
    reasons = histogram(reason for refusal in refusals for reason in refusal.reasons)
    nodes = f"0/{len(refusals)} nodes are available: "
    return f"{nodes}{reasons}. {NO_CLAIMS}, preemption: {_preemption(refusals, nodes) if preempts else NEVER}"


def _preemption(refusals: list[Refusal], nodes: str) -> str:
    return nodes + histogram(NO_VICTIMS if refusal.resolvable else NOT_HELPFUL for refusal in refusals) + "."


def histogram(reasons: Iterable[str]) -> str:
    """Return ``count reason`` pairs, sorted as texts."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(reasons).items()))
