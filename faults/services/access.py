"""The candidate's identity: a token of a service account, whose rights are taken and given back by its bindings."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db.models import F

from faults import clock, environment, practice, selectors, terraform_access
from faults.engine import Record
from faults.errors import Conflict, Forbidden
from faults.injectors import Create, Manifest
from faults.kube.client import Kube
from faults.kube.config import render
from faults.models import FaultRun, Step
from faults.packs import Workspace
from faults.services.establishing import establish
from faults.services.panic_state import refuse_while_engaged
from faults.services.work import working
from faults.tiers import policy_of

CREATION = Manifest()
MAX_DELETIONS = 5  # of one binding in one go; beyond that somebody else is at work


@dataclass(frozen=True, slots=True)
class CandidateAccess:
    """All that the candidate's kubectl needs. ``kubeconfig`` holds the token; it is shown to nobody else."""

    server: str
    ca_pem: str
    token: str = field(repr=False)
    namespace: str
    username: str
    cluster: str

    @property
    def kubeconfig(self) -> str:
        """The file for kubectl: made for whoever reads it, as a preparation, which asks for proof, does not."""
        return render(
            server=self.server,
            ca_pem=self.ca_pem,
            token=self.token,
            namespace=self.namespace,
            user=environment.SERVICE_ACCOUNT,
            cluster=self.cluster,
        )


@dataclass(frozen=True, slots=True)
class CandidateGrants:
    """The bindings of one candidate, with a client that waits a second at most.

    Whoever holds one can cut the candidate off with neither database nor disk. ``terraform``: all that the session's
    packs say of it, and the namespace of its account.
    """

    kube: Kube
    records: tuple[Record, ...]
    terraform: tuple[Workspace, str] | None = None

    def revoke(self) -> None:
        """Delete every binding, whoever made it anew meanwhile, and see that it is gone. Raises ClusterError."""
        for record in self.records:
            _delete(self.kube, record)
        if self.terraform:
            terraform_access.cut(self.kube, *self.terraform)

    def hold(self) -> bool:
        """Return whether every binding is there, and what Terraform has bound. Raises ClusterError."""
        is_bound = all(CREATION.holds(self.kube, record) for record in self.records)
        return is_bound and (not self.terraform or terraform_access.is_whole(self.kube, *self.terraform))


def _delete(kube: Kube, record: Record) -> None:
    for _ in range(MAX_DELETIONS):
        found = CREATION.identified(kube, record)
        if not found.uid:
            return
        CREATION.take_back(kube, found)
    raise Conflict(f"{record.target} is made again as fast as it is deleted.", retryable=True)


def candidate_access(*, run: FaultRun, seconds: int) -> CandidateAccess:
    """Ask the cluster for a token of the candidate's service account, valid for ``seconds`` (at least 600).

    ``run`` is the session's environment. Raises ClusterError.
    """
    kube = selectors.kube_for(run.cluster)
    namespaces = selectors.namespaces_of(run)
    home = environment.home_of(namespaces, selectors.toolbox_of(run))
    token, _expires = kube.token_request(home, environment.SERVICE_ACCOUNT, seconds=seconds)
    return CandidateAccess(
        server=kube.access.server,
        ca_pem=kube.access.ca_pem,
        token=token,
        namespace=namespaces[0],
        username=environment.username(home),
        cluster=run.cluster.name,
    )


def revoke_access(*, run: FaultRun) -> None:
    """Take every right from the candidate by deleting the bindings, which also cuts open streams.

    Needs no lease and writes nothing down, since deleting is idempotent and must wait for nobody:
    ``note_access_revoked`` follows. The token stays valid but may do nothing, so that a reopened session goes on with
    the kubeconfig the candidate has. Raises ClusterError: try again.
    """
    grants = candidate_grants(run=run)
    if grants is not None:
        _unless_dropped(run, grants.revoke)


def note_access_revoked(*, run: FaultRun) -> None:
    """Record that the bindings are gone, and fence off whoever was about to make them again.

    Belongs into the transaction that records the decision. A worker whose write is under way finds its epoch
    overtaken and takes the binding back (``Engine``).
    """
    active = FaultRun.objects.filter(pk=run.pk, status=FaultRun.Status.ACTIVE)
    if active.update(epoch=F("epoch") + 1, lease_holder="", lease_until=None):
        steps = Step.objects.filter(run=run, target__kind__in=environment.GRANTING_KINDS)
        steps.exclude(status=Step.Status.REVERTED).update(
            status=Step.Status.REVERTED, outcome="access ended", reverted_at=clock.now()
        )


def restore_access(*, run: FaultRun) -> None:
    """Give the rights back. Raises LeaseHeld and ClusterError: try again."""
    if _active(run):
        with working(run.pk, _holder()) as work:
            refuse_while_engaged(run.cluster)
            establish(work, work.run())
            if terraform := _terraform_of(run):
                terraform_access.give_back(selectors.kube_for(run.cluster), *terraform)


def access_is_open(*, run: FaultRun) -> bool:
    """Return whether every binding of the candidate is in the cluster. Raises ClusterError."""
    grants = candidate_grants(run=run)
    return grants is None or grants.hold()


def candidate_grants(*, run: FaultRun) -> CandidateGrants | None:
    """Return what gives the candidate rights; None where the cluster has gone, or was never touched."""
    if run.reverted_at is not None or run.cluster.released_at is not None or not run.cluster.kubeconfig:
        return None
    changes = enumerate(selectors.changes_of(run))
    records = [CREATION.record(index, change) for index, change in changes if isinstance(change, Create)]
    granting = tuple(record for record in records if environment.grants(record))
    return CandidateGrants(selectors.impatient_kube_for(run.cluster), granting, _terraform_of(run))


def _terraform_of(run: FaultRun) -> tuple[Workspace, str] | None:
    box = selectors.toolbox_of(run)
    return (box.terraform, box.namespace) if box and box.terraform else None


def _unless_dropped(run: FaultRun, act: Callable[[], None]) -> None:
    """Do something in a cluster; a refusal counts for nothing where the cluster has been dropped."""
    try:
        act()
    except Forbidden:
        if not policy_of(run.cluster).may_be_dropped or practice.exists(run.cluster.name):
            raise


def _active(run: FaultRun) -> bool:
    run.refresh_from_db()
    return run.status == FaultRun.Status.ACTIVE


def _holder() -> str:
    return f"access:{uuid.uuid4().hex}"
