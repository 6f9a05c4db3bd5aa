"""A session's place in a cluster before any fault: namespaces with limits, and an identity with least privilege.

The names tell nothing. Reading is wide inside the session's namespaces: ``kubectl get all`` and ``top`` answer.
Secrets, access rules, quotas, and everything through which they can be reached, are out unless a pack lists them.
What a pack lists comes in roles and bindings of its own, at the end, since a step is known by its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from faults import access_policy, guardrails, session_agents, terraform_account, toolbox
from faults.engine import Change, Record, Target
from faults.guardrails import Guardrails
from faults.injectors import Create, PatchObject
from faults.packs import AccessRule, Workspace
from faults.packs.model import PRIVILEGED_PODS
from faults.packs.rights import READ, WRITE, former_rules, merge, split_resource
from faults.session_agents import SessionAgents
from faults.toolbox import Toolbox

Obj = dict[str, Any]
SERVICE_ACCOUNT = "platform-oncall"
DEFAULT_ACCOUNT = "default"  # the cluster makes one in every namespace
ROLE = "workload-operator"
CLUSTER_ROLE = "node-viewer"
IN_NAMESPACES = (
    AccessRule(("pods",), (*READ, *WRITE)),
    AccessRule(
        (
            *("services", "configmaps", "endpoints", "events", "replicationcontrollers"),
            *("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"),
            *("horizontalpodautoscalers.autoscaling", "jobs.batch", "cronjobs.batch"),
            *("events.events.k8s.io", "endpointslices.discovery.k8s.io"),
        ),
        READ,
    ),
    AccessRule(("pods/log",), ("get",)),
    AccessRule(("pods/exec", "pods/attach", "pods/portforward"), ("get", "create")),
    AccessRule(("pods.metrics.k8s.io",), ("get", "list")),
)
"""Everybody's rights in the session's own namespaces."""
NODES = (AccessRule(("nodes",), READ), AccessRule(("nodes.metrics.k8s.io",), ("get", "list")))
EVERYWHERE = (*NODES, AccessRule(("namespaces",), READ))
"""Everybody's rights in the whole cluster, where nobody else has it."""
DEBUGGING = AccessRule(("pods/ephemeralcontainers",), ("get", "update", "patch"))
GRANTING_KINDS = ("RoleBinding", "ClusterRoleBinding")
_RBAC = "rbac.authorization.k8s.io"


def changes(
    namespaces: Sequence[str],
    rails: Guardrails | None = None,
    box: Toolbox | None = None,
    agents: SessionAgents | None = None,
) -> list[Change]:
    """Return the changes that build it, bindings last: nothing is granted before it is all there.

    Without ``rails``, ``box`` or ``agents`` it is what runs of earlier versions were made of: a step is known by its
    place in the list.
    """
    base = base_changes(namespaces, rails and rails.at_first, box, agents)
    return [*base, *_granted(namespaces, rails, home_of(namespaces, box))]


def base_changes(
    namespaces: Sequence[str],
    rails: Guardrails | None,
    box: Toolbox | None = None,
    agents: SessionAgents | None = None,
) -> list[Change]:
    """Return the changes of a session to which no scenario has added rights."""
    home = home_of(namespaces, box)
    terraform = box.terraform if box else None
    identity = [
        _service_account(home),
        *(terraform_account.identity(home) if terraform else []),
        *([toolbox.pod(box, account=SERVICE_ACCOUNT, selected=namespaces[0]), toolbox.role(box)] if box else []),
        *(_role(name, rails) for name in namespaces),
        _cluster_role(rails, namespaces),
        *([_binding_to(toolbox.ROLE, box.namespace, home)] if box else []),
        *(_binding_to(ROLE, name, home) for name in namespaces),
        _cluster_role_binding(home, rails),
        *(_of_terraform(terraform, home, rails.suffix if rails else "") if terraform else []),
    ]
    tokens = [_without_token(name) for name in namespaces] if rails else []
    machinery = session_agents.objects(agents) if agents else []
    return [*foundation(namespaces, rails, box), *tokens, *_creations([*identity, *machinery])]


def foundation(namespaces: Sequence[str], rails: Guardrails | None, box: Toolbox | None = None) -> list[Change]:
    """Return the first of these changes: after them the cluster itself has to act before the rest can be made."""
    home = home_of(namespaces, box)
    visitors = [box.namespace] if box else []
    limits = guardrails.objects(rails, namespaces, visitors) if rails else []
    objects = [*(_namespace(name, rails) for name in namespaces), *limits]
    if box:
        shared = rails is not None and rails.shared
        objects += [toolbox.namespace(box), toolbox.network_policy(box, namespaces, shared=shared)]
    terraform = box.terraform if box else None
    suffix = rails.suffix if rails else ""
    if terraform:
        objects += terraform_account.foundation(terraform, home, SERVICE_ACCOUNT, suffix, namespaces)
    if rails and rails.grants is not None:
        made = terraform.namespaces if terraform else ()
        own, theirs = [*namespaces, *made], PRIVILEGED_PODS in rails.words
        objects += access_policy.objects(username(home), suffix, own, nodes_are_theirs=theirs)
    return _creations(objects)


def common_rules(namespaces: Sequence[str], rails: Guardrails | None, box: Toolbox | None = None) -> list[AccessRule]:
    """Return the rights that a session's candidate has whatever its packs list.

    On a shared cluster only one's own namespaces can be read, since their list names the others'.
    """
    shared = bool(rails and rails.shared)
    own = AccessRule(("namespaces",), ("get",), names=tuple(namespaces))
    everywhere = (*NODES, own) if shared else EVERYWHERE
    in_toolbox = toolbox.rules(box) if box else []
    return [*(rule for name in namespaces for rule in _in_namespace(name, rails)), *in_toolbox, *everywhere]


def all_rules(
    namespaces: Sequence[str], rails: Guardrails | None, box: Toolbox | None = None
) -> tuple[AccessRule, ...]:
    """Return everything that a session's candidate may do, merged."""
    granted = [rule for grant in (rails and rails.grants) or () for rule in grant.rules]
    return merge([*common_rules(namespaces, rails, box), *granted])


def home_of(namespaces: Sequence[str], box: Toolbox | None) -> str:
    """Return the namespace of the candidate's service account: a pod can run only under one of its own namespace."""
    return box.namespace if box else namespaces[0]


def grants(record: Record) -> bool:
    """Return whether a step gives the candidate rights: without these steps the identity can do nothing."""
    return record.target.kind in GRANTING_KINDS


def username(namespace: str) -> str:
    """Return the candidate's user name, as the API server sees it."""
    return f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"


def _namespace(name: str, rails: Guardrails | None) -> Obj:
    labels = {"labels": guardrails.namespace_labels(rails)} if rails else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **labels}}


def _without_token(namespace: str) -> Change:
    """Keep the token of the account that pods run under out of them: it would outlive the candidate's rights."""
    account = Target("v1", "ServiceAccount", namespace, DEFAULT_ACCOUNT)
    return PatchObject(account, {"automountServiceAccountToken": False}, injector="environment")


def _service_account(namespace: str) -> Obj:
    meta = {"name": SERVICE_ACCOUNT, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False}


def _in_namespace(namespace: str, rails: Guardrails | None) -> list[AccessRule]:
    """Return the common rights in a namespace; sessions of before packs listed rights keep what they had."""
    rules = [AccessRule(rule.resources, rule.verbs, (namespace,)) for rule in IN_NAMESPACES]
    if rails is None or rails.ephemeral_containers:
        rules.append(AccessRule(DEBUGGING.resources, DEBUGGING.verbs, (namespace,)))
    if rails is None or rails.grants is None:
        rules += former_rules([namespace])
    return rules


def _role(namespace: str, rails: Guardrails | None) -> Obj:
    meta = {"name": ROLE, "namespace": namespace}
    return _with_rules("Role", meta, _in_namespace(namespace, rails))


def _cluster_role(rails: Guardrails | None, namespaces: Sequence[str]) -> Obj:
    rules = [rule for rule in common_rules(namespaces, rails) if not rule.namespaces]
    return _with_rules("ClusterRole", {"name": _cluster_scoped_name(rails)}, rules)


def _granted(namespaces: Sequence[str], rails: Guardrails | None, home: str) -> list[Change]:
    """Return the changes for what single scenarios ask for, in the order in which it was granted."""
    if rails is None or not rails.grants:
        return []
    stages = [rails.with_grants(rails.grants[:number]) for number in range(len(rails.grants) + 1)]
    return [
        change
        for number, (before, after) in enumerate(pairwise(stages), start=1)
        for change in (*_lifted_limits(namespaces, before, after), *_creations(_access(number, home, after)))
    ]


def _lifted_limits(namespaces: Sequence[str], before: Guardrails, after: Guardrails) -> list[Change]:
    """Return the patches of limits that a later scenario's pods would break, as its pack says."""
    changes: list[Change] = []
    if before.level != after.level:
        labels = {"metadata": {"labels": guardrails.namespace_labels(after)}}
        targets = [Target("v1", "Namespace", "", name) for name in namespaces]
        changes += [PatchObject(target, labels, injector="environment") for target in targets]
    if (policy := guardrails.policy(after, namespaces)) != guardrails.policy(before, namespaces):
        patch = {"spec": {"validations": policy["spec"]["validations"]}}
        changes.append(PatchObject(Target.of(policy), patch, injector="environment"))
    return changes


def _access(number: int, home: str, rails: Guardrails) -> list[Obj]:
    """Return the roles and bindings of one grant, bindings last."""
    assert rails.grants is not None  # this is one of them
    rules = rails.grants[number - 1].rules
    name = f"{SERVICE_ACCOUNT}-{number}{rails.suffix}"
    metas = [{"name": name, "namespace": space} for space in sorted({s for rule in rules for s in rule.namespaces})]
    places = [("Role", meta, [rule for rule in rules if meta["namespace"] in rule.namespaces]) for meta in metas]
    if everywhere := [rule for rule in rules if not rule.namespaces]:
        places.append(("ClusterRole", {"name": name}, everywhere))
    bindings = [
        _binding(f"{kind}Binding", meta, {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]}, home)
        for kind, meta, _ in places
    ]
    return [*(_with_rules(kind, meta, rules) for kind, meta, rules in places), *bindings]


def _of_terraform(workspace: Workspace, home: str, suffix: str) -> list[Obj]:
    """Return the roles of Terraform's account, and their bindings."""
    name, made = terraform_account.NAME + suffix, []
    for namespace, rules in terraform_account.places(workspace):
        kind, meta = (
            ("Role", {"name": name, "namespace": namespace}) if namespace else ("ClusterRole", {"name": name})
        )
        reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
        binding = _binding(f"{kind}Binding", meta, reference, home, account=terraform_account.NAME)
        made += [_with_rules(kind, meta, rules), binding]
    return made


def _creations(objects: Iterable[Obj]) -> list[Change]:
    return [Create(obj, injector="environment") for obj in objects]


def _with_rules(kind: str, meta: Obj, rules: Iterable[AccessRule]) -> Obj:
    rows = [row for rule in rules for row in _policy_rules(rule)]
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": meta, "rules": rows}


def _policy_rules(rule: AccessRule) -> list[Obj]:
    """Return a rule as RBAC writes it: one for each API group."""
    groups: dict[str, list[str]] = {}
    for text in rule.resources:
        group, resource = split_resource(text)
        groups.setdefault(group, []).append(resource)
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(rule.verbs), **names}
        for group, resources in groups.items()
    ]


def _cluster_scoped_name(rails: Guardrails | None) -> str:
    return CLUSTER_ROLE + (rails.suffix if rails else "")


def _binding_to(role: str, namespace: str, home: str) -> Obj:
    meta = {"name": role, "namespace": namespace}
    return _binding("RoleBinding", meta, {"apiGroup": _RBAC, "kind": "Role", "name": role}, home)


def _cluster_role_binding(home: str, rails: Guardrails | None) -> Obj:
    name = _cluster_scoped_name(rails)
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    return _binding("ClusterRoleBinding", {"name": name}, role, home)


def _binding(kind: str, meta: Obj, role: Obj, home: str, account: str = SERVICE_ACCOUNT) -> Obj:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": role, "subjects": [subject]}
