"""Terraform's own account in a session's cluster: its token in the toolbox, its rights, and where it may work.

RBAC cannot tell one namespace from another before both are there, so the rights are wide where the code needs them,
and an admission policy keeps the account to what the packs name: their namespaces, each held to Pod Security, and
their objects of none. All bindings are cut with the candidate's access.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faults.packs import AccessRule, Workspace
from faults.toolbox_place import HOME, TERRAFORM_ACCOUNT

Obj = dict[str, Any]
NAME = TERRAFORM_ACCOUNT
TOKEN = "terraform-token"  # noqa: S105 - the name of a Secret
POLICY, WORKLOADS = "terraform-policy", "terraform-workloads"
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


def foundation(
    workspace: Workspace, home: str, candidate: str, suffix: str, namespaces: Sequence[str] = ()
) -> list[Obj]:
    """Return the state's namespace, and the admission policies.

    ``candidate`` is the name of their service account, ``namespaces`` are those of the session, where they run pods.
    """
    labels = {_ENFORCE: LEVELS[0]}
    rules = _validations(workspace, candidate, NAME + suffix) | _grants(workspace, candidate, [home, *namespaces])
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": workspace.state, "labels": labels}},
        *_policy(POLICY + suffix, f"request.userInfo.username == '{username(home)}'", rules),
        *_policy(WORKLOADS + suffix, _of_tenants(workspace), _bounds(workspace), _EVERYTHING),
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


_CHANGES = {"resources": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"]}
_EVERYTHING = {"resources": ["*/*"], "operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"]}


def _policy(name: str, whose: str, rules: Mapping[str, str], matched: Obj = _CHANGES) -> list[Obj]:
    """Return a policy for the requests of some users (an expression), and what puts it into force."""
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], **matched}]},
        "matchConditions": [
            {"name": "account", "expression": whose},
            {"name": "change", "expression": f"!(request.resource.group in {_listed(_REVIEWS)})"},
        ],
        "variables": [{"name": variable, "expression": text} for variable, text in _VARIABLES.items()],
        "validations": [
            {"expression": expression, "message": message, "reason": "Forbidden"}
            for message, expression in rules.items()
        ],
    }
    return [
        {**_policy_object("ValidatingAdmissionPolicy", name), "spec": spec},
        {
            **_policy_object("ValidatingAdmissionPolicyBinding", name),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


_SERVICE_TYPES = ("ClusterIP", "ExternalName")
_WORKLOAD_GROUPS = ("", "apps", "batch")
_TENANT_GROUPS = (*_WORKLOAD_GROUPS, "autoscaling", "policy")
"""Others, as those of ingresses and of custom resources, have controllers that act with rights of their own."""
_CORE_RESOURCES = (
    *("pods", "services", "endpoints", "events", "replicationcontrollers", "persistentvolumeclaims"),
    *("resourcequotas", "limitranges", "namespaces"),
)
"""All that cluster roles may list: reads pass no admission, and whoever is bound to a role may be impersonated by the
candidate, or asked by their programs. Other resources are credentials, lead to them, or may hold some."""
_VARIABLES = {
    "isNamespace": "request.resource.group == '' && request.resource.resource == 'namespaces'",
    "isAccess": f"request.resource.group == '{_RBAC}'",
    "isSecret": "request.resource.group == '' && request.resource.resource == 'secrets'",
    "isAccount": "request.resource.group == '' && request.resource.resource == 'serviceaccounts'",
    "isService": "request.resource.group == '' && request.resource.resource == 'services'",
    "isBinding": f"request.resource.group == '{_RBAC}' && request.resource.resource.endsWith('bindings')",
    "isClusterRole": f"request.resource.group == '{_RBAC}' && request.resource.resource == 'clusterroles'",
    "name": "request.operation == 'DELETE' ? oldObject.metadata.name : object.metadata.name",
    "space": "has(request.namespace) ? request.namespace : ''",  # an API server leaves out what is empty
}


def _validations(workspace: Workspace, candidate: str, own: str) -> dict[str, str]:
    """Return message -> expression: where Terraform may write, and what. ``own`` names its role and binding."""
    made, inside = _listed(workspace.namespaces), _listed([workspace.state, *workspace.namespaces])
    objects = _listed([f"{kind.lower()}s/{name}" for kind, name in workspace.objects])
    state = workspace.state
    return {
        "Terraform changes its own namespaces only": (
            f"variables.isNamespace || variables.space == '' || variables.space in {inside}"
        ),
        "Terraform makes and deletes these namespaces only: " + (", ".join(workspace.namespaces) or "none"): (
            f"!variables.isNamespace || variables.name in {made}"
        ),
        f"namespaces have to enforce Pod Security: {' or '.join(LEVELS)}": (
            "!variables.isNamespace || request.operation == 'DELETE' || (has(object.metadata.labels) && "
            f"'{_ENFORCE}' in object.metadata.labels && object.metadata.labels['{_ENFORCE}'] in {_listed(LEVELS)})"
        ),
        "Terraform changes cluster roles and their bindings by name only": (
            "!variables.isAccess || variables.space != '' || "
            f"(request.resource.resource + '/' + variables.name) in {objects}"
        ),
        f"Terraform changes service accounts of {state} by name only": (
            f"!variables.isAccount || variables.space != '{state}' || "
            f"('serviceaccounts/' + variables.name) in {objects}"
        ),
        "Terraform writes no Secrets but its state": (
            f"!variables.isSecret || (variables.space == '{state}' && variables.name.startsWith('tfstate-') && "
            "(request.operation == 'DELETE' || !has(object.type) || object.type == 'Opaque'))"
        ),
        "the access of this shift is not Terraform's": (
            f"!variables.isAccess || !(variables.name == '{own}' || variables.name.startsWith('{candidate}-'))"
        ),
    }


def _grants(workspace: Workspace, candidate: str, homes: Sequence[str]) -> dict[str, str]:
    """Return message -> expression: which access Terraform may give, and to whom."""
    named = _listed([name for kind, name in workspace.objects if kind == "ClusterRole"])
    own = _listed([candidate, NAME])
    return {
        "access may not be given to the accounts of this shift": (
            "!variables.isAccess || request.operation == 'DELETE' || !has(object.subjects) || object.subjects.all(s, "
            f"s.kind == 'ServiceAccount' ? !(s.name in {own} || s.namespace in {_listed(homes)}) "
            ": !s.name.startsWith('system:'))"
        ),
        "access may not be given to service accounts of other namespaces": (
            "!variables.isAccess || request.operation == 'DELETE' || !has(object.subjects) || object.subjects.all(s, "
            f"s.kind != 'ServiceAccount' || {_of_own_accounts(workspace)})"
        ),
        "Terraform binds its own roles only": (
            "!variables.isBinding || request.operation == 'DELETE' || "
            f"(object.roleRef.kind == 'ClusterRole' ? object.roleRef.name in {named} : variables.space != '')"
        ),
        "roles may not grant roles, or other users' names": (
            "!variables.isAccess || request.operation == 'DELETE' || !has(object.rules) || object.rules == null || "
            "object.rules.all(r, r.verbs.all(v, !(v in ['bind', 'escalate', 'impersonate'])))"
        ),
        **_of_cluster_roles(),
    }


def _of_own_accounts(workspace: Workspace) -> str:
    """Return the expression for a subject that ``_bounds`` holds, or that no candidate can impersonate.

    Impersonation by name works in every namespace, also without such an account. No pack allows it for the accounts
    of ``objects`` outside of the state's namespace.
    """
    named = _listed([name for kind, name in workspace.objects if kind == "ServiceAccount"])
    return f"s.namespace in {_listed([workspace.state, *workspace.namespaces])} || s.name in {named}"


def _of_cluster_roles() -> dict[str, str]:
    """Return message -> expression: what a cluster role may say; it shares no rules with others."""
    written = "!variables.isClusterRole || request.operation == 'DELETE'"
    listed = f"API groups {_named(_WORKLOAD_GROUPS)}; of core: {', '.join(_CORE_RESOURCES)}"
    return {
        f"cluster roles may reach workloads only ({listed})": (
            f"{written} || !has(object.rules) || object.rules == null || object.rules.all(r, has(r.apiGroups) && "
            f"r.apiGroups.all(g, g in {_listed(_WORKLOAD_GROUPS)}) && "
            f"(!('' in r.apiGroups) || r.resources.all(x, x.split('/')[0] in {_listed(_CORE_RESOURCES)})))"
        ),
        "cluster roles may not be aggregated": (
            f"{written} || ((!has(object.aggregationRule) || object.aggregationRule == null) && "
            f"(!has(object.metadata.labels) || object.metadata.labels.all(k, !k.startsWith('{_RBAC}/'))))"
        ),
    }


def _of_tenants(workspace: Workspace) -> str:
    """Return the expression for those who may get access through Terraform and be impersonated by the candidate."""
    people = _listed(workspace.impersonated)
    named = f"request.userInfo.username in {people}"
    member = f"has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in {people})"
    return f"{_by_account(workspace)} || {named} || ({member})"


def _by_account(workspace: Workspace) -> str:
    """Return the expression for the service accounts of Terraform's namespaces."""
    spaces = [workspace.state, *workspace.namespaces]
    starts = (f"request.userInfo.username.startsWith('system:serviceaccount:{space}:')" for space in spaces)
    return " || ".join(starts)


def _bounds(workspace: Workspace) -> dict[str, str]:
    """Return message -> expression: what they may do at most, whatever the roles say that the candidate writes."""
    inside = f"variables.space in {_listed(workspace.namespaces)} && !variables.isAccess && !variables.isNamespace"
    return {
        "accounts of Terraform's namespaces change the tenants' workloads only": (
            f"!({_by_account(workspace)}) || ({inside} && !variables.isSecret && !variables.isAccount && "
            "request.operation != 'CONNECT')"
        ),
        "the tenants' people work in the tenants' namespaces, and change neither these nor access to them": inside,
        f"tenants have objects of these API groups only: {_named(_TENANT_GROUPS)}": (
            f"request.resource.group in {_listed(_TENANT_GROUPS)}"
        ),
        "services of tenants have neither external IPs nor load balancers nor ports of nodes": (
            "!variables.isService || request.operation != 'CREATE' && request.operation != 'UPDATE' || "
            "((!has(object.spec.externalIPs) || size(object.spec.externalIPs) == 0) && "
            f"(!has(object.spec.type) || object.spec.type in {_listed(_SERVICE_TYPES)}))"
        ),
    }


def _named(groups: Iterable[str]) -> str:
    return ", ".join(group or "core" for group in groups)


def _listed(names: Iterable[str] | Sequence[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
