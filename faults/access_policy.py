"""An admission policy against taking what does not end with the candidate's access.

RBAC itself lets everybody grant what they hold: a binding that named the candidate, or a group that they are in,
would outlive the bindings that are deleted at the end. And whoever changes the pods of a workload gets its account's
token: in namespaces that are not the session's, only where pods run may change, and what marks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Obj = dict[str, Any]
NAME = "access-policy"
_ADMISSION = "admissionregistration.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io"
_PLACEMENT = ("nodeSelector", "tolerations", "affinity")
_WORKLOADS = {
    "": ("pods", "pods/ephemeralcontainers", "replicationcontrollers"),
    "apps": ("deployments", "daemonsets", "statefulsets", "replicasets"),
    "batch": ("jobs", "cronjobs"),
}


def objects(candidate: str, suffix: str, namespaces: Sequence[str]) -> list[Obj]:
    """Return the policy and its binding.

    ``candidate`` is their user name, ``suffix`` ends the objects' names, ``namespaces`` are the session's own.
    """
    name = NAME + suffix
    spec = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**_object("ValidatingAdmissionPolicy", name), "spec": _policy(candidate, namespaces)},
        {**_object("ValidatingAdmissionPolicyBinding", name), "spec": spec},
    ]


def _object(kind: str, name: str) -> Obj:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}}


def _policy(candidate: str, namespaces: Sequence[str]) -> Obj:
    access = _rule(_RBAC, ("roles", "rolebindings", "clusterroles", "clusterrolebindings"))
    rules = {**_of_access(candidate), **_of_workloads()}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [access, *(_rule(*entry) for entry in _WORKLOADS.items())]},
        "matchConditions": [{"name": "on-call", "expression": f"request.userInfo.username == '{candidate}'"}],
        "variables": [
            {"name": name, "expression": expression} for name, expression in _variables(namespaces).items()
        ],
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for message, expression in rules.items()
        ],
    }


def _rule(group: str, resources: Sequence[str]) -> Obj:
    operations = ["CREATE", "UPDATE"]
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": list(resources)}


def _variables(namespaces: Sequence[str]) -> dict[str, str]:
    own = ", ".join(f"'{name}'" for name in namespaces)
    return {
        "isAccess": f"request.resource.group == '{_RBAC}'",
        "isElsewhere": f"!variables.isAccess && !(has(request.namespace) && request.namespace in [{own}])",
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
