"""Look-ups: packs of versions and runs, and the client of a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial

from django.conf import settings

from faults import crypto, environment
from faults.checks import Reader
from faults.cluster_reader import ReaderWithPrometheus
from faults.engine import Change
from faults.engine.node_agents import SESSION, AgentLease
from faults.errors import FaultError, Unanswered
from faults.guardrails import Guardrails
from faults.injectors import changes as fault_changes
from faults.injectors.network import TENANTS
from faults.kube import addresses
from faults.kube.client import Kube
from faults.kube.config import Access, parse
from faults.kube.discovery import Resource
from faults.metrics import PrometheusSource, find_services, through_api_server, through_kubelet, through_url
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import Pack
from faults.packs import parse as parse_pack
from faults.packs.model import InjectStep
from faults.session_agents import SessionAgents
from faults.tiers import policy_of
from faults.toolbox import Toolbox

TOOLBOX = "toolbox"
"""The parameter of an environment that has its toolbox."""
AGENTS = "agents"
"""The parameter of an environment that has its node agents."""
STEPS = "steps"
"""The parameter of a run of the API that has its inject steps."""
READY_PAGE = "/-/ready"
"""Prometheus' own page, which costs it nothing."""
IMPATIENT_S = (0.5, 1.0)  # to connect, and between two bytes of an answer
BINDINGS = (
    Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", True, frozenset()),
    Resource("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", False, frozenset()),
)


def pack_of(version: ScenarioVersion) -> Pack:
    """Return a version's pack with its placeholders open. Versions never change, so it is parsed once."""
    return _packs(version.pk, version.digest)


def bound_pack(run: FaultRun) -> Pack:
    """Return the pack of a run with this run's names in it."""
    if run.scenario_version is None:
        raise FaultError("An environment run has no scenario.")
    return pack_with(run.scenario_version, run.namespaces, run.parameters)


def pack_with(version: ScenarioVersion, namespaces: Mapping[str, str], parameters: Mapping[str, str]) -> Pack:
    """Return a version's pack with these names in it. Raises PackError where no variant has the parameters."""
    names = json.dumps([dict(namespaces), dict(parameters)], sort_keys=True)
    return _bound_packs(version.pk, version.digest, names)


def symptom_patience_s(run: FaultRun, least_s: float) -> float:
    """Return for how many seconds a run's symptom is waited for: the pack may say that it takes longer."""
    return max(least_s, bound_pack(run).symptom_seconds)


def changes_of(run: FaultRun) -> list[Change]:
    """Return what a run changes in its cluster; the same list every time."""
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        return environment.changes(namespaces_of(run), guardrails_of(run), toolbox_of(run), agents_of(run))
    if run.purpose == FaultRun.Purpose.API:
        return fault_changes([InjectStep(**step) for step in run.parameters[STEPS]], lease_of(run))
    return fault_changes(_with_tenants(run, bound_pack(run).inject), lease_of(run))


def _with_tenants(run: FaultRun, steps: Sequence[InjectStep]) -> Sequence[InjectStep]:
    """Let partitions know all namespaces of the session: those of its other scenarios are open to these, too."""
    if not any(TENANTS in step.spec for step in steps) or (beside := environment_beside(run)) is None:
        return steps
    tenants = {TENANTS: namespaces_of(beside)}
    return [replace(step, spec={**step.spec, **tenants}) if TENANTS in step.spec else step for step in steps]


def lease_of(run: FaultRun) -> AgentLease:
    """Return the run's claim on the agents of nodes: its faults end with its deadline, whoever is alive."""
    return AgentLease(f"run-{run.uuid.hex}", run.deadline)


def namespaces_of(run: FaultRun) -> list[str]:
    """Return the real namespaces of a run, each once; the first is the candidate's own."""
    return list(dict.fromkeys(run.namespaces.values()))


def environment_beside(run: FaultRun) -> FaultRun | None:
    """Return the environment of the session that has a fault run; None where the fault has none."""
    if run.purpose == FaultRun.Purpose.API:
        return None
    runs = FaultRun.objects.filter(cluster=run.cluster_id, purpose=FaultRun.Purpose.ENVIRONMENT)
    left = runs.exclude(status=FaultRun.Status.REVERTED).select_related("cluster").defer("fingerprint_before")
    wanted = set(namespaces_of(run))
    return next((found for found in left.order_by("-pk") if wanted <= set(namespaces_of(found))), None)


def all_namespaces_of(run: FaultRun) -> list[str]:
    """Return every namespace in which a run makes something: those of Terraform, the toolbox and agents last."""
    box = toolbox_of(run)
    state = [box.terraform.state] if box and box.terraform else []
    agents = [SESSION.namespace] if agents_of(run) else []
    return [*namespaces_of(run), *state, *([box.namespace] if box else []), *agents]


def guardrails_of(run: FaultRun) -> Guardrails | None:
    """Return the limits that an environment was planned with; None for one of an earlier version."""
    return Guardrails.load({key: value for key, value in run.parameters.items() if key not in (TOOLBOX, AGENTS)})


def toolbox_of(run: FaultRun) -> Toolbox | None:
    """Return the toolbox that an environment was planned with; None where it has none."""
    found = run.parameters.get(TOOLBOX) if run.purpose == FaultRun.Purpose.ENVIRONMENT else None
    return Toolbox.load(found) if found else None


def agents_of(run: FaultRun) -> SessionAgents | None:
    """Return the node agents that an environment was planned with; None where it has none."""
    found = run.parameters.get(AGENTS) if run.purpose == FaultRun.Purpose.ENVIRONMENT else None
    return SessionAgents.load(found) if found else None


def kube_for(cluster: Cluster) -> Kube:
    """Return the cluster's client with our own identity; one for each process, with its connections."""
    if not cluster.kubeconfig:
        raise FaultError(f"The cluster {cluster.name} has no kubeconfig.")
    return _kubes(cluster.pk, cluster.kubeconfig, cluster.kept, policy_of(cluster).may_be_dropped)


def impatient_kube_for(cluster: Cluster) -> Kube:
    """Return a client that gives up after a second, for callers that try again by themselves.

    It knows the kinds of bindings, so that taking a candidate's rights away needs no discovery.
    """
    if not cluster.kubeconfig:
        raise FaultError(f"The cluster {cluster.name} has no kubeconfig.")
    return _impatient_kubes(cluster.pk, cluster.kubeconfig, cluster.kept, policy_of(cluster).may_be_dropped)


def prometheus_for(cluster: Cluster) -> PrometheusSource:
    """Return the cluster's Prometheus: at the stored address, or else behind the API server, beside ``others`` there.

    Raises ClusterError.
    """
    if cluster.prometheus_url:
        return through_url(cluster.prometheus_url, loopback=loopback_is_allowed())
    kube = impatient_kube_for(cluster)
    first, *others = find_services(kube)
    if not policy_of(cluster).may_be_dropped:  # the first request tells which way is open
        with suppress(Unanswered):
            kube.fetch(first.namespace, f"services/{first.name}:{first.port}", READY_PAGE)
    connect = through_api_server if kube.reaches_pods else through_kubelet
    source = connect(kube, first)
    source.others = [partial(connect, kube, service) for service in others]
    return source


def checked_access(access: Access) -> Access:
    """Return the access to a cluster that an admin added: each connection's address is looked at."""
    return replace(access, refusal=partial(addresses.refusal, loopback=loopback_is_allowed()))


def loopback_is_allowed() -> bool:
    """Return whether clusters of this machine (kind, k3d) may be used: only while nobody else reaches the site."""
    return settings.BIND in ("localhost", "::1") or settings.BIND.startswith("127.")


def reader_for(cluster: Cluster) -> Reader:
    """Return what checks read from: the cluster itself, and the Prometheus at its stored address."""
    kube = kube_for(cluster)
    if not cluster.prometheus_url:
        return kube
    return ReaderWithPrometheus(kube, partial(prometheus_for, cluster))


@lru_cache(maxsize=64)
def _packs(version_id: int, digest: str) -> Pack:
    """``digest`` is part of the key so that a test's next database cannot be mistaken for this one."""
    return parse_pack(ScenarioVersion.objects.get(pk=version_id, digest=digest).files)


@lru_cache(maxsize=16)
def _bound_packs(version_id: int, digest: str, names: str) -> Pack:
    """Return a pack with the namespaces and parameters that ``names`` has as JSON."""
    return _packs(version_id, digest).bind(*json.loads(names))


def _access(sealed: str, kept: bool) -> Access:
    access = parse(crypto.unseal(sealed))
    return checked_access(access) if kept else access


@lru_cache(maxsize=64)
def _kubes(cluster_id: int, sealed: str, kept: bool, ours: bool) -> Kube:
    return Kube(_access(sealed, kept), reaches_pods=ours)


@lru_cache(maxsize=256)
def _impatient_kubes(cluster_id: int, sealed: str, kept: bool, ours: bool) -> Kube:
    kube = Kube(_access(sealed, kept), timeout=IMPATIENT_S, max_repeat_s=0, reaches_pods=ours)
    kube.learn(BINDINGS)
    return kube
