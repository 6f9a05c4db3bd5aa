"""The candidate's rights beyond the usual ones, as interviewers read them before and during an interview."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from faults.environment import EVERYWHERE, IN_NAMESPACES
from faults.packs import AccessRule, Pack, Workspace
from faults.packs.denied_rights import takes_identities
from faults.packs.model import DIRECT_PLACEMENT, EPHEMERAL_CONTAINERS, PRIVILEGED_PODS
from faults.packs.rights import subtract
from faults.packs.workspaces import together

LIMITS = {
    PRIVILEGED_PODS: "run privileged pods, with which the nodes are theirs",
    EPHEMERAL_CONTAINERS: "add containers to running pods (kubectl debug)",
    DIRECT_PLACEMENT: "put pods on a node of their choice (nodeName)",
}


@dataclass(frozen=True, slots=True)
class CandidateRights:
    """Lines for people: rules, limits that do not hold, and rights that lead to other accounts of the cluster."""

    rules: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules or self.limits)

    @property
    def lines(self) -> list[str]:
        """All of it, a line for each."""
        return [*self.rules, *self.limits]


def rights_of(packs: Iterable[Pack]) -> CandidateRights:
    """Return what the packs, bound to their names, add together to the rights that every candidate has."""
    bound = list(packs)
    own = sorted({name for pack in bound for name in pack.namespaces.values()})
    usual = [*(AccessRule(rule.resources, rule.verbs, tuple(own)) for rule in IN_NAMESPACES), *EVERYWHERE]
    rules = subtract([rule for pack in bound for rule in pack.access], usual if own else [])
    words = sorted({word for pack in bound for word in pack.rights})
    workspaces = _by_state(pack.workspace for pack in bound if pack.workspace)
    by_terraform = [rule for each in workspaces for rule in each.rights]
    return CandidateRights(
        rules=(*map(str, rules), *(line for each in workspaces for line in _of_terraform(each))),
        limits=tuple(LIMITS[word] for word in words),
        identities=(
            *takes_identities([*rules, *by_terraform], own),
            *(["privileged pods"] if PRIVILEGED_PODS in words else []),
        ),
    )


def _by_state(found: Iterable[Workspace]) -> list[Workspace]:
    """Return what workspaces of one state say together; more states than one are refused elsewhere."""
    rows = list(found)
    states = dict.fromkeys(row.state for row in rows)
    return [whole for state in states if (whole := together(row for row in rows if row.state == state))]


def _of_terraform(workspace: Workspace) -> list[str]:
    """Return what Terraform's account may do, which the candidate works with."""
    names = [*workspace.namespaces, *(f"{kind} {name}" for kind, name in workspace.objects)]
    made = [f"Terraform: make {', '.join(names)} and nothing else outside of {workspace.state}"] if names else []
    cloud = [f"Terraform: {', '.join(workspace.cloud_roles)} in the cloud's project"] if workspace.cloud_roles else []
    return [*(f"Terraform: {rule}" for rule in workspace.rights), *made, *cloud]
