"""The candidate's identity: a token of a service account, whose rights are taken and given back by its bindings."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime

from faults import environment, practice, selectors
from faults.errors import NotFound
from faults.kube.config import render
from faults.models import Cluster, FaultRun
from faults.services.work import working


@dataclass(frozen=True, slots=True)
class CandidateAccess:
    """All that the candidate's kubectl needs. ``kubeconfig`` holds the token; it is shown to nobody else."""

    server: str
    ca_pem: str
    token: str = field(repr=False)
    namespace: str
    username: str
    kubeconfig: str = field(repr=False)


def candidate_access(*, run: FaultRun, seconds: int) -> CandidateAccess:
    """Ask the cluster for a token of the candidate's service account, valid for ``seconds`` (at least 600).

    ``run`` is the session's environment. Raises ClusterError.
    """
    kube = selectors.kube_for(run.cluster)
    home = selectors.namespaces_of(run)[0]
    token, _expires = kube.token_request(home, environment.SERVICE_ACCOUNT, seconds=seconds)
    server, ca_pem = kube.access.server, kube.access.ca_pem
    return CandidateAccess(
        server=server,
        ca_pem=ca_pem,
        token=token,
        namespace=home,
        username=environment.username(home),
        kubeconfig=render(
            server=server,
            ca_pem=ca_pem,
            token=token,
            namespace=home,
            user=environment.SERVICE_ACCOUNT,
            cluster=run.cluster.name,
        ),
    )


def revoke_access(*, run: FaultRun) -> None:
    """Take every right from the candidate by deleting the bindings, which also cuts open streams.

    The token stays valid but may do nothing, so that a reopened session goes on with the kubeconfig the candidate
    has. Raises LeaseHeld and ClusterError: try again.
    """
    if _active(run):
        with working(run.pk, _holder()) as work:
            work.engine().revert(only=environment.grants)


def restore_access(*, run: FaultRun) -> None:
    """Give the rights back. Raises LeaseHeld and ClusterError: try again."""
    if _active(run):
        with working(run.pk, _holder()) as work:
            work.engine().apply(selectors.changes_of(run), mend=True)


def first_request_at(*, run: FaultRun) -> datetime | None:
    """Return when the candidate first asked the cluster anything; None before, or where nobody counts it."""
    if run.cluster.tier != Cluster.Tier.PRACTICE:
        return None
    try:
        users = practice.activity(run.cluster.name)
    except NotFound:
        return None
    seen = users.get(environment.username(selectors.namespaces_of(run)[0]))
    return datetime.fromisoformat(seen["first"]) if seen else None


def _active(run: FaultRun) -> bool:
    run.refresh_from_db()
    return run.status == FaultRun.Status.ACTIVE


def _holder() -> str:
    return f"access:{uuid.uuid4().hex}"
