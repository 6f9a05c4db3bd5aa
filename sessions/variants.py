"""The names that a session draws: decided by its identifier, so that texts are right before anything is injected."""

from __future__ import annotations

from uuid import UUID

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.models import Cluster
from faults.packs import Pack
from sessions.models import InterviewSession, SessionScenario

MAX_NAMESPACE = 56  # with the session's own ending it stays a DNS label


def variant_seed(uuid: UUID) -> int:
    """Return the number that decides which variants a session with this identifier has."""
    return uuid.int % 2**31


def real_namespaces(session: InterviewSession, pack: Pack) -> dict[str, str]:
    """Return a pack's names of namespaces -> those in the cluster: on a shared one each session has its own."""
    if session.tier != Cluster.Tier.SHARED:
        return dict(pack.namespaces)
    return {logical: own_namespace(session, real) for logical, real in pack.namespaces.items()}


def own_namespace(session: InterviewSession, name: str) -> str:
    """Return the name with the session's own ending."""
    return f"{name[:MAX_NAMESPACE]}-{session.uuid.hex[:6]}"


def expected_pack(scenario: SessionScenario) -> Pack:
    """Return the pack with the names that the scenario's run will have; only what a cluster decides is still open."""
    session, version = scenario.session, scenario.scenario_version
    pack = fault_selectors.pack_of(version)
    drawn = fault_services.draw_variant(pack, variant_seed(session.uuid))
    return fault_selectors.pack_with(version, real_namespaces(session, pack), drawn)
