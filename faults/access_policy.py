"""An admission policy against giving away what ends with the candidate's access, by writing roles and bindings.

RBAC itself lets everybody grant what they hold. A binding that named the candidate, or a group that they are in,
would outlive the bindings that are deleted at the end.
"""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
NAME = "access-policy"
_ADMISSION = "admissionregistration.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io"


def objects(candidate: str, suffix: str) -> list[Obj]:
    """Return the policy and its binding. ``candidate`` is their user name, ``suffix`` ends the objects' names."""
    name = NAME + suffix
    spec = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**_object("ValidatingAdmissionPolicy", name), "spec": _policy(candidate)},
        {**_object("ValidatingAdmissionPolicyBinding", name), "spec": spec},
    ]


def _object(kind: str, name: str) -> Obj:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}}


def _policy(candidate: str) -> Obj:
    account = candidate.rpartition(":")[2]
    rule = {
        "apiGroups": [_RBAC],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
    }
    is_role = "request.resource.resource.endsWith('roles')"
    own = f"s.kind == 'ServiceAccount' && s.name != '{account}'"
    rules = {
        "access may be given to service accounts, and not to your own": (
            f"{is_role} || !has(object.subjects) || object.subjects.all(s, {own})"
        ),
        "the roles of the system may not be changed": (f"!{is_role} || !object.metadata.name.startsWith('system:')"),
    }
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "on-call", "expression": f"request.userInfo.username == '{candidate}'"}],
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for message, expression in rules.items()
        ],
    }
