"""The rules that differ between tiers of clusters: the only place that may ask for a cluster's tier."""

from __future__ import annotations

from dataclasses import dataclass

from faults.models import Cluster


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """Rules for a cluster of one tier.

    ``may_be_dropped``: it was made for one session and goes with it, whatever is in it. ``is_exclusive``: nobody else
    changes it meanwhile, so that any difference in it is ours. ``revert_seconds``: for how long it is reverted and
    examined before it is dropped.
    """

    may_be_dropped: bool
    is_exclusive: bool
    revert_seconds: float | None = None


_POLICIES = {
    Cluster.Tier.PRACTICE: TierPolicy(may_be_dropped=True, is_exclusive=True, revert_seconds=20.0),
    Cluster.Tier.DEDICATED: TierPolicy(may_be_dropped=False, is_exclusive=True),
    Cluster.Tier.SHARED: TierPolicy(may_be_dropped=False, is_exclusive=False),
}


def policy_of(cluster: Cluster) -> TierPolicy:
    """Return the rules for a cluster."""
    return policy_of_tier(cluster.tier)


def policy_of_tier(tier: str) -> TierPolicy:
    """Return the rules for clusters of a tier."""
    return _POLICIES[Cluster.Tier(tier)]
