"""Limits on a session's namespaces: Pod Security, quota, limit range, network policy, and an admission policy.

Pod Security decides what a pod may do to its node; the admission policy adds what Pod Security has no control for:
tokens, node names, runtime classes. The objects look as a platform team's do. They are frozen into the run that
makes them (``FaultRun.parameters``), so that a session keeps the limits that it was prepared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from faults.injectors import isolation
from faults.packs import AccessRule
from faults.packs.model import DIRECT_PLACEMENT, EPHEMERAL_CONTAINERS, PRIVILEGED_PODS

Obj = dict[str, Any]
SHARED = "shared"
QUOTA = "workload-quota"
LIMIT_RANGE = "container-defaults"
POLICY, PRIORITY = "workload-policy", "workload-priority"
NO_TOKENS = "service account tokens may not be mounted"
MAX_PODS = 50
MAX_CONTAINERS = 20
MIN_GPUS = 8
_ADMISSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Grant:
    """One scenario's rights on top of what its session had: by verb and resource, and words that lift limits."""

    rules: tuple[AccessRule, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Grant:
        """Read what ``dump`` wrote."""
        return cls(tuple(map(AccessRule.load, data["rules"])), tuple(data["words"]))

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {"rules": [rule.dump() for rule in self.rules], "words": list(self.words)}


@dataclass(frozen=True, slots=True)
class Guardrails:
    """The strictness of a session's namespaces.

    ``suffix`` ends the names of cluster-scoped objects where several sessions share a cluster; ``rights`` are the
    words that its packs ask for. ``grants`` are what its scenarios were given since, one after the other; None in a
    session of before packs could list rights, whose candidate has those that everybody had.
    """

    shared: bool
    gpus: int
    suffix: str
    rights: tuple[str, ...]
    grants: tuple[Grant, ...] | None = None

    @classmethod
    def plan(cls, *, tier: str, home: str, gpus: int, rights: Sequence[str]) -> Guardrails:
        """Return the limits for a tier. ``gpus`` is what the scenarios need; nobody is kept from asking for more
        than a cluster of one's own has, since a pod that stays Pending is part of the subject."""
        shared = tier == SHARED
        granted = () if shared else tuple(sorted(set(rights)))
        most = max(2 * gpus, MIN_GPUS if shared else 8 * MIN_GPUS)
        return cls(shared, most, f"-{home}" if shared else "", granted, grants=())

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Guardrails | None:
        """Read what ``dump`` wrote; None for a run of before there were limits."""
        if not data:
            return None
        grants = data.get("grants")
        granted = None if grants is None else tuple(map(Grant.load, grants))
        return cls(data["shared"], data["gpus"], data["suffix"], tuple(data["rights"]), granted)

    def dump(self) -> Obj:
        """Return it as JSON."""
        limits = {"shared": self.shared, "gpus": self.gpus, "suffix": self.suffix, "rights": list(self.rights)}
        return limits if self.grants is None else {**limits, "grants": [grant.dump() for grant in self.grants]}

    def with_grants(self, grants: Sequence[Grant]) -> Guardrails:
        """Return the limits after exactly these grants."""
        return replace(self, grants=tuple(grants))

    @property
    def at_first(self) -> Guardrails:
        """The limits that the session began with."""
        return self.with_grants(()) if self.grants else self

    @property
    def words(self) -> frozenset[str]:
        """The words of all rights, those of later scenarios included."""
        return frozenset(self.rights).union(*(grant.words for grant in self.grants or ()))

    @property
    def level(self) -> str:
        """The Pod Security level that is enforced."""
        if self.shared:
            return "restricted"
        return "privileged" if PRIVILEGED_PODS in self.words else "baseline"

    @property
    def ephemeral_containers(self) -> bool:
        """True where the candidate may add containers to running pods from the start."""
        return EPHEMERAL_CONTAINERS in self.rights


def namespace_labels(rails: Guardrails) -> dict[str, str]:
    """Return the labels of Pod Security; warnings as well, since templates of pods are never refused."""
    levels = {"enforce": rails.level, "warn": rails.level, "audit": "restricted"}
    return {f"pod-security.kubernetes.io/{mode}": level for mode, level in levels.items()}


def objects(rails: Guardrails, namespaces: Sequence[str], visitors: Sequence[str] = ()) -> list[Obj]:
    """Return everything that limits the namespaces. Pods of ``visitors``, other namespaces, may connect to theirs."""
    inside = [
        make
        for name in namespaces
        for make in (_quota(rails, name), _limit_range(rails, name), isolation.policy(name, namespaces, visitors))
    ]
    policies = [policy(rails, namespaces), _binding(POLICY + rails.suffix)]
    return [*inside, *policies, *(_no_priority(rails, namespaces) if rails.shared else ())]


def probe(namespace: str) -> Obj:
    """Return a pod that nothing but the admission policy refuses: where it is, the policy is in force."""
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "main", "image": "busybox", "securityContext": context}
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "admission-check", "namespace": namespace},
        "spec": {"containers": [container], "volumes": [token]},
    }


def _quota(rails: Guardrails, namespace: str) -> Obj:
    hard = {
        "pods": str(MAX_PODS),
        "count/pods": "200",
        "count/replicasets.apps": "200",
        "count/deployments.apps": "30",
        "count/jobs.batch": "50",
        "configmaps": "60",
        "services": "30",
        "services.loadbalancers": "0",  # would be bought from the cloud, and outlive the cluster
        "services.nodeports": "0" if rails.shared else "5",
        "persistentvolumeclaims": "10",
        "requests.nvidia.com/gpu": str(rails.gpus),
    }
    if rails.shared:
        hard |= {
            "requests.cpu": "32",
            "requests.memory": "128Gi",
            "limits.memory": "256Gi",
            "requests.storage": "200Gi",
        }
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": QUOTA, "namespace": namespace},
        "spec": {"hard": hard},
    }


def _limit_range(rails: Guardrails, namespace: str) -> Obj:
    """Requests for those who state none. Limits only on shared clusters: elsewhere they would change the scenario."""
    limit: Obj = {"type": "Container", "defaultRequest": {"cpu": "50m", "memory": "64Mi"}}
    if rails.shared:
        limit["defaultRequest"] |= {"ephemeral-storage": "0"}  # else it is what the limit is, and few pods fit a node
        limit["default"] = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "10Gi"}
        limit["max"] = {"cpu": "16", "memory": "128Gi", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": LIMIT_RANGE, "namespace": namespace},
        "spec": {"limits": [limit]},
    }


def policy(rails: Guardrails, namespaces: Sequence[str]) -> Obj:
    """Return the admission policy."""
    changed = ["services", *(["configmaps"] if rails.shared else [])]
    written = [_rule(["CREATE"], "pods"), *(_rule(["CREATE", "UPDATE"], name) for name in changed)]
    variables = [
        {"name": "isPod", "expression": "request.resource.resource == 'pods'"},
        {"name": "containers", "expression": f"variables.isPod ? {_CONTAINERS} : []"},
    ]
    return _policy(POLICY + rails.suffix, namespaces, written, _validations(rails), variables=variables)


def _no_priority(rails: Guardrails, namespaces: Sequence[str]) -> list[Obj]:
    """Return what keeps pods from displacing those of others, whatever classes of priority the cluster has."""
    harmless = "params.value <= 0 || (has(params.globalDefault) && params.globalDefault)"
    other = "!has(object.spec.priorityClassName) || object.spec.priorityClassName != params.metadata.name"
    rules = {"a priority over other pods is not available": f"{other} || {harmless}"}
    name, kind = PRIORITY + rails.suffix, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    every_class = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}
    return [
        _policy(name, namespaces, [_rule(["CREATE"], "pods")], rules, paramKind=kind),
        _binding(name, **every_class),
    ]


def _policy(
    name: str, namespaces: Sequence[str], written: Sequence[Obj], rules: Mapping[str, str], **more: Any
) -> Obj:
    """Return a policy for what is written in namespaces; ``rules``: message -> expression."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": isolation.named(namespaces), "resourceRules": [*written]},
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for message, expression in rules.items()
        ],
    }
    kind = "ValidatingAdmissionPolicy"
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec | more}


def _binding(name: str, **more: Any) -> Obj:
    return {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], **more},
    }


def _rule(operations: list[str], resource: str) -> Obj:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}


_RESERVED = "['NVIDIA_VISIBLE_DEVICES', 'LD_PRELOAD']"
_CONTAINERS = "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])"


def _validations(rails: Guardrails) -> dict[str, str]:
    """Return message -> expression."""
    rules = {
        NO_TOKENS: _of_pods(
            "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.projected) || !has(v.projected.sources)"
            " || v.projected.sources.all(s, !has(s.serviceAccountToken)))"
        ),
        "the priority of system components is not available": _of_pods(
            "!has(object.spec.priorityClassName) || !object.spec.priorityClassName.startsWith('system-')"
        ),
        f"a pod may have at most {MAX_CONTAINERS} containers": f"size(variables.containers) <= {MAX_CONTAINERS}",
        "external IPs are not available": (
            "variables.isPod || !has(object.spec) || !has(object.spec.externalIPs)"
            " || size(object.spec.externalIPs) == 0"
        ),
        "this runtime class is not available": _of_pods(
            "!has(object.spec.runtimeClassName)"
            + ("" if rails.shared else " || object.spec.runtimeClassName == 'nvidia'")
        ),
    }
    if DIRECT_PLACEMENT not in rails.words:
        rules["nodeName may not be set: pods are placed by the scheduler"] = _of_pods(
            "!has(object.spec.nodeName) || object.spec.nodeName == ''"
        )
    if rails.shared:
        rules["GPUs are requested through limits, and libraries are not preloaded"] = (
            f"variables.containers.all(c, !has(c.env) || c.env.all(e, !(e.name in {_RESERVED})))"
        )
        rules["config maps set no such variables either, and are taken as they are, without a prefix"] = (
            "variables.containers.all(c, !has(c.envFrom) || c.envFrom.all(s, !has(s.prefix) || s.prefix == '')) && "
            f"(variables.isPod || !has(object.data) || object.data.all(k, !(k in {_RESERVED})))"
        )
    return rules


def _of_pods(expression: str) -> str:
    return f"!variables.isPod || {expression}"
