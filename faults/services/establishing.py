"""Building a session's environment, in two steps: between them the cluster has to act.

A namespace gets its default service account, and a quota its first count, from controllers. A pod that comes before
them is refused with 403 ("status unknown for quota"), which nobody could tell from a real refusal. An admission
policy is in force only once the API server has noticed it, up to a second later: a dry run tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from faults import environment, guardrails, selectors, session_agents
from faults.clock import RealClock
from faults.engine import Change, Engine
from faults.engine.node_agents import SESSION
from faults.errors import ClusterError, Forbidden, NotFound
from faults.kube.client import Kube
from faults.models import FaultRun
from faults.services.granting import refuse_denied
from faults.services.work import Work

LOOK_S = 0.05
PATIENCE_S = 20.0
AGENTS = ("apps/v1", "DaemonSet", session_agents.NAME, SESSION.namespace)
NOT_READY = "The cluster does not make the namespaces' accounts, quotas and policies ready."
WAITING = ("Injecting", "Waiting for the namespaces' accounts, quotas and policies")


def establish(work: Work, run: FaultRun) -> None:
    """Make an environment's changes, or those of them that have gone. Raises ClusterError."""
    namespaces, rails = selectors.namespaces_of(run), selectors.guardrails_of(run)
    box = selectors.toolbox_of(run)
    terraform = box.terraform.rights if box and box.terraform else ()
    refuse_denied(run, (*environment.all_rules(namespaces, rails, box), *terraform), "The session")
    changes, kube = selectors.changes_of(run), selectors.kube_for(run.cluster)
    apply, first = partial(_apply, work, work.engine(run)), 0
    if rails is not None:
        first = len(environment.foundation(namespaces, rails, selectors.toolbox_of(run)))
        apply(changes[:first])
        _await(work, lambda: all(_has_account(kube, name) for name in namespaces))
    apply(changes, first)
    if rails is not None:
        _await(work, lambda: all(_quota_counts(kube, name) and _policy_acts(kube, name) for name in namespaces))
    if selectors.agents_of(run):
        _await(work, lambda: session_agents.all_run(kube.get(*AGENTS)), "The node agents do not start.")


def _apply(work: Work, engine: Engine, changes: Sequence[Change], first: int = 0) -> None:
    engine.apply(changes, lambda line: work.progress("Injecting", line), mend=True, first=first)


def _await(work: Work, true: Callable[[], bool], trouble: str = NOT_READY) -> None:
    waited, clock = 0.0, RealClock()
    while not true():
        if waited >= PATIENCE_S:
            raise ClusterError(trouble, retryable=True)
        work.beat(*WAITING)
        clock.wait(LOOK_S)
        waited += LOOK_S


def _has_account(kube: Kube, namespace: str) -> bool:
    try:
        kube.get("v1", "ServiceAccount", environment.DEFAULT_ACCOUNT, namespace)
    except NotFound:
        return False
    return True


def _quota_counts(kube: Kube, namespace: str) -> bool:
    quota = kube.get("v1", "ResourceQuota", guardrails.QUOTA, namespace)
    return bool((quota.get("status") or {}).get("hard"))


def _policy_acts(kube: Kube, namespace: str) -> bool:
    try:
        kube.create(guardrails.probe(namespace), dry_run=True)
    except Forbidden as exc:
        return guardrails.NO_TOKENS in exc.message
    return False
