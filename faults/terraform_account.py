"""Terraform's own account in a session's cluster: its token in the toolbox, its rights, and where it may work.

RBAC cannot tell one namespace from another before both are there, so the rights are wide where the code needs them,
and an admission policy keeps the account to what the packs name: their namespaces, each held to Pod Security, and
their objects of none. All bindings are cut with the candidate's access.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from faults.packs import AccessRule, Workspace
from faults.toolbox_place import HOME, TERRAFORM_ACCOUNT

Obj = dict[str, Any]
NAME = TERRAFORM_ACCOUNT
TOKEN = "terraform-token"  # noqa: S105 - the name of a Secret
POLICY = "terraform-policy"
MOUNT = "/var/run/secrets/terraform"
KUBECONFIG = f"{HOME}/.kube/terraform"
API = "https://kubernetes.default.svc"
LEVELS = ("baseline", "restricted")
"""The levels of Pod Security that a namespace which Terraform makes may enforce."""
_ADMISSION = "admissionregistration.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io"
_REVIEWS = ("authorization.k8s.io", "authentication.k8s.io")  # questions, which change nothing
_ENFORCE = "pod-security.kubernetes.io/enforce"


def username(home: str) -> str:
    """Return the account's user name, as the API server sees it."""
    return f"system:serviceaccount:{home}:{NAME}"


def foundation(workspace: Workspace, home: str, candidate: str, suffix: str) -> list[Obj]:
    """Return the state's namespace, and the admission policy. ``candidate`` is the name of their service account."""
    labels = {_ENFORCE: LEVELS[0]}
    name = POLICY + suffix
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workspace.state, "labels": labels}},
        {**_policy_object("ValidatingAdmissionPolicy", name), "spec": _policy(workspace, home, candidate)},
        {**_policy_object("ValidatingAdmissionPolicyBinding", name), "spec": binding},
    ]


def identity(home: str) -> list[Obj]:
    """Return the account, and the Secret that the cluster fills with its token."""
    meta = {"name": NAME, "namespace": home}
    notes = {"kubernetes.io/service-account.name": NAME}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"name": TOKEN, "namespace": home, "annotations": notes},
        },
    ]


def places(workspace: Workspace) -> list[tuple[str, list[AccessRule]]]:
    """Return where the account has rights, and which: in the state's namespace, and in the whole cluster ("")."""
    inside = [rule for rule in workspace.rights if rule.namespaces]
    everywhere = [rule for rule in workspace.rights if not rule.namespaces]
    return [(place, rules) for place, rules in ((workspace.state, inside), ("", everywhere)) if rules]


def environment(workspace: Workspace) -> list[Obj]:
    """Return the variables in which Terraform finds the cluster and, where packs need it, the cloud."""
    found: list[Obj] = [{"name": "KUBE_CONFIG_PATH", "value": KUBECONFIG}]
    if workspace.cloud_roles:
        token = {"secretKeyRef": {"name": TOKEN, "key": "token"}}
        found += [{"name": "TF_VAR_api", "value": API}, {"name": "GOOGLE_OAUTH_ACCESS_TOKEN", "valueFrom": token}]
    return found


def kubeconfig(namespace: str) -> str:
    """Return the file by which Terraform reaches the cluster from the toolbox; %s stands for the token."""
    return f"""apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster:
    server: {API}
    certificate-authority: {MOUNT}/ca.crt
users:
- name: {NAME}
  user:
    token: %s
contexts:
- name: {NAME}
  context:
    cluster: cluster
    user: {NAME}
    namespace: {namespace}
current-context: {NAME}
"""


def _policy_object(kind: str, name: str) -> Obj:
    return {"apiVersion": _ADMISSION, "kind": kind, "metadata": {"name": name}}


def _policy(workspace: Workspace, home: str, candidate: str) -> Obj:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**everything, "operations": ["CREATE", "UPDATE", "DELETE"]}]},
        "matchConditions": [
            {"name": "terraform", "expression": f"request.userInfo.username == '{username(home)}'"},
            {"name": "change", "expression": f"!(request.resource.group in {_listed(_REVIEWS)})"},
        ],
        "variables": [{"name": name, "expression": text} for name, text in _VARIABLES.items()],
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for message, expression in _validations(workspace, candidate).items()
        ],
    }


_VARIABLES = {
    "isNamespace": "request.resource.group == '' && request.resource.resource == 'namespaces'",
    "isAccess": f"request.resource.group == '{_RBAC}'",
    "name": "request.operation == 'DELETE' ? oldObject.metadata.name : object.metadata.name",
}


def _validations(workspace: Workspace, candidate: str) -> dict[str, str]:
    """Return message -> expression."""
    made, inside = _listed(workspace.namespaces), _listed([workspace.state, *workspace.namespaces])
    objects = _listed([f"{kind.lower()}s/{name}" for kind, name in workspace.objects])
    own = _listed([candidate, NAME])
    return {
        "Terraform changes its own namespaces only": (
            f"variables.isNamespace || request.namespace == '' || request.namespace in {inside}"
        ),
        "Terraform makes and deletes these namespaces only: " + (", ".join(workspace.namespaces) or "none"): (
            f"!variables.isNamespace || variables.name in {made}"
        ),
        f"namespaces have to enforce Pod Security: {' or '.join(LEVELS)}": (
            "!variables.isNamespace || request.operation == 'DELETE' || (has(object.metadata.labels) && "
            f"'{_ENFORCE}' in object.metadata.labels && object.metadata.labels['{_ENFORCE}'] in {_listed(LEVELS)})"
        ),
        "Terraform changes cluster roles and their bindings by name only": (
            "!variables.isAccess || request.namespace != '' || "
            f"(request.resource.resource + '/' + variables.name) in {objects}"
        ),
        "access may not be given to the accounts of this shift": (
            "!variables.isAccess || request.operation == 'DELETE' || !has(object.subjects) || object.subjects.all(s, "
            f"s.kind == 'ServiceAccount' ? !(s.name in {own}) : !s.name.startsWith('system:'))"
        ),
    }


def _listed(names: Iterable[str] | Sequence[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
