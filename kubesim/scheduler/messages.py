"""The text of a FailedScheduling event and of the PodScheduled condition, as 1.34 words it.

Since dynamic resource allocation is on by default (1.34), its plugin speaks before preemption does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate"
STILL = "still not schedulable"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."


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
