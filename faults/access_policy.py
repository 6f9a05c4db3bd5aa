"""An admission policy against taking what does not end with the candidate's access.

RBAC itself lets everybody grant what they hold: a binding that named the candidate, or a group that they are in,
would outlive the bindings that are deleted at the end. And whoever changes the pods of a workload gets its account's
token: in namespaces that are not the session's, only where pods run may change, and what marks them.

Outside of these namespaces, what a candidate leaves behind has to be seen and removed: an owner would hide an object
among what controllers make, a finalizer would keep it, and of nodes only labels, taints and ``unschedulable`` are
compared, since programs write the rest at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Obj = dict[str, Any]
NAME = "access-policy"
_ADMISSION = "admissionregistration.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io"
_PLACEMENT = ("nodeSelector", "tolerations", "affinity")
_WORKLOADS = (
    *("/pods", "/replicationcontrollers", "batch/jobs", "batch/cronjobs"),
    *("apps/deployments", "apps/daemonsets", "apps/statefulsets", "apps/replicasets"),
)
_HOLDS = ("ownerReferences", "finalizers")
_ADDRESSES = ("type", "externalName", "externalIPs", "loadBalancerIP", "loadBalancerSourceRanges")
_OF_NODES = ("taints", "unschedulable")


def objects(candidate: str, suffix: str, namespaces: Sequence[str], *, nodes_are_theirs: bool = False) -> list[Obj]:
    """Return the policy and its binding.

    ``candidate`` is their user name, ``suffix`` ends the objects' names, ``namespaces`` are the session's own.
    ``nodes_are_theirs``: they may run privileged pods, and so write anything to nodes.
    """
    name = NAME + suffix
    spec = {"policyName": name, "validationActions": ["Deny"]}
    rules = {**_of_access(candidate), **_of_workloads(), **_of_objects(), **({} if nodes_are_theirs else _of_nodes())}
    return [
        {**_object("ValidatingAdmissionPolicy", name), "spec": _policy(candidate, namespaces, rules)},
        {**_object("ValidatingAdmissionPolicyBinding", name), "spec": spec},
    ]


def _object(kind: str, name: str) -> Obj:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}}


def _policy(candidate: str, namespaces: Sequence[str], rules: Mapping[str, str]) -> Obj:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "pods/ephemeralcontainers"]}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**everything, "operations": ["CREATE", "UPDATE"]}]},
        "matchConditions": [{"name": "on-call", "expression": f"request.userInfo.username == '{candidate}'"}],
        "variables": [
            {"name": name, "expression": expression} for name, expression in _variables(namespaces).items()
        ],
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for message, expression in rules.items()
        ],
    }


def _variables(namespaces: Sequence[str]) -> dict[str, str]:
    kind = "request.resource.group + '/' + request.resource.resource"
    return {
        "isAccess": f"request.resource.group == '{_RBAC}'",
        "isOutside": f"!(has(request.namespace) && request.namespace in {_listed(namespaces)})",
        "isElsewhere": f"variables.isOutside && ({kind}) in {_listed(_WORKLOADS)}",
        "isNode": f"{kind} == '/nodes' && oldObject != null",
        "isService": f"{kind} == '/services'",
        "pod": _pod_spec("object"),
        "podBefore": _pod_spec("oldObject"),
    }


def _pod_spec(name: str) -> str:
    template = f"request.resource.resource == 'cronjobs' ? {name}.spec.jobTemplate : {name}"
    return f"request.resource.resource == 'pods' ? {name}.spec : ({template}).spec.template.spec"


def _of_access(candidate: str) -> dict[str, str]:
    """Return message -> expression."""
    account = candidate.rpartition(":")[2]
    is_role = "request.resource.resource.endsWith('roles')"
    own = f"s.kind == 'ServiceAccount' && s.name != '{account}'"
    return {
        "access may be given to service accounts, and not to your own": (
            f"!variables.isAccess || {is_role} || !has(object.subjects) || object.subjects.all(s, {own})"
        ),
        "the roles of the system may not be changed": (
            f"!variables.isAccess || !{is_role} || !object.metadata.name.startsWith('system:')"
        ),
    }


def _of_workloads() -> dict[str, str]:
    """Return message -> expression. All that is not named as free is kept: new fields of pods as well."""
    free = "k in ['" + "', '".join(_PLACEMENT) + "']"
    kept = f"variables.pod.all(k, {free} || (k in variables.podBefore && variables.pod[k] == variables.podBefore[k]))"
    none_gone = f"variables.podBefore.all(k, {free} || k in variables.pod)"
    return {
        "workloads and pods are made in your own namespaces only": "!variables.isElsewhere || oldObject != null",
        f"outside your own namespaces, pods may change in their labels, annotations, {_PLACEMENT[0]}, {_PLACEMENT[1]}"
        f" and {_PLACEMENT[2]} only": f"!variables.isElsewhere || oldObject == null || ({kept} && {none_gone})",
    }


def _of_objects() -> dict[str, str]:
    """Return message -> expression, for objects outside of the session's namespaces."""
    held = "oldObject != null && k in oldObject.metadata && entry in oldObject.metadata[k]"
    same = "k in oldObject.spec ? k in object.spec && object.spec[k] == oldObject.spec[k] : !(k in object.spec)"
    inner = "(!has(object.spec.type) || object.spec.type == 'ClusterIP') && !has(object.spec.externalIPs)"
    return {
        "outside your own namespaces, objects get neither owners nor finalizers": (
            f"!variables.isOutside || {_listed(_HOLDS)}.all(k, !has(object.metadata) || !(k in object.metadata) || "
            f"object.metadata[k].all(entry, {held}))"
        ),
        "outside your own namespaces, services keep their type and addresses": (
            f"!variables.isOutside || !variables.isService || (oldObject == null ? {inner} : "
            f"{_listed(_ADDRESSES)}.all(k, {same}))"
        ),
    }


def _of_nodes() -> dict[str, str]:
    """Return message -> expression. Networks and autoscalers go by annotations; a provider's ID stays for ever."""
    same = "k in oldObject.spec && object.spec[k] == oldObject.spec[k]"
    notes = [f"has({it}.metadata.annotations) ? {it}.metadata.annotations : {{}}" for it in ("object", "oldObject")]
    return {
        "of nodes, only labels, taints and whether they take pods may be changed": (
            f"!variables.isNode || (({notes[0]}) == ({notes[1]}) && "
            f"(!has(object.spec) || object.spec.all(k, k in {_listed(_OF_NODES)} || ({same}))))"
        ),
    }


def _listed(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
