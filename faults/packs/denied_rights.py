"""The deny-list: rights that nobody gets on a shared cluster, because they reach other people's work.

Elsewhere a pack may list them by name. Whether the cluster stays for others afterwards is another question:
``takes_identities`` tells with which rights a candidate can get at credentials that outlive their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from faults.packs.rights import READ, WRITE, AccessRule, split_resource

_RBAC = "rbac.authorization.k8s.io"
_POWERFUL = {"bind", "escalate", "impersonate", "approve", "sign", "use"}
_RUNNING_COMMANDS = ("pods/exec", "pods/attach", "pods/portforward")
_POD_MAKERS = {
    *("pods", "pods/ephemeralcontainers", "replicationcontrollers"),
    *(f"{name}.apps" for name in ("deployments", "daemonsets", "statefulsets", "replicasets")),
    *(f"{name}.batch" for name in ("jobs", "cronjobs")),
}
_ROLES = tuple(f"{name}.{_RBAC}" for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings"))
_OPENING = {  # by writing these, requests or nodes' metadata servers come within reach, with the credentials in them
    "networkpolicies.networking.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
}
_SYSTEM = "kube-system"
_CREDENTIALS = {"secrets", "serviceaccounts/token", "nodes/proxy", "certificatesigningrequests.certificates.k8s.io"}
_ALWAYS = frozenset(
    {
        *("secrets", "serviceaccounts/token", "pods/ephemeralcontainers", "pods/proxy", "services/proxy"),
        *("pods/binding", "resourcequotas", "limitranges", "networkpolicies.networking.k8s.io"),
        *("localsubjectaccessreviews.authorization.k8s.io",),
    }
)
_UNWRITABLE = frozenset(
    {
        *("endpoints", "endpointslices.discovery.k8s.io", "events", "events.events.k8s.io"),
        *("ingresses.networking.k8s.io", "leases.coordination.k8s.io"),
    }
)
_OPEN_CLUSTER_READS = frozenset(
    {"nodes", "nodes.metrics.k8s.io", "storageclasses.storage.k8s.io", "deviceclasses.resource.k8s.io"}
)
"""Resources without a namespace that say nothing of other sessions."""


@dataclass(frozen=True, slots=True)
class Denied:
    """One right that is not for shared clusters, and the reason."""

    verb: str
    resource: str
    reason: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} ({self.reason})"


def denied_rights(rules: Iterable[AccessRule], own: Collection[str]) -> list[Denied]:
    """Return the rights that no session may have on a shared cluster; ``own`` are the session's namespaces."""
    return [
        Denied(verb, resource, reason)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
        if (reason := _reason(rule, resource, verb, own))
    ]


def takes_identities(rules: Iterable[AccessRule], own: Collection[str]) -> list[str]:
    """Return the rights ("create serviceaccounts/token") that lead to the credentials of other accounts.

    Nothing that ends with the candidate's own access ends those. Pods in the session's namespaces have no tokens.
    Programs of other namespaces do as their config maps and custom resources say: a scrape job of Prometheus sends
    its account's token to any pod.
    """
    return list(dict.fromkeys(_identities(rules, set(own))))


def changes_access(rules: Iterable[AccessRule]) -> bool:
    """Return whether somebody with these rights can write roles or bindings."""
    return any(set(rule.resources) & set(_ROLES) and set(rule.verbs) & {*WRITE, *_POWERFUL} for rule in rules)


def written_namespaces(rules: Iterable[AccessRule], own: Collection[str]) -> list[str]:
    """Return the namespaces beyond the session's own in which something may be changed."""
    changing = [rule for rule in rules if set(rule.verbs) - set(READ)]
    return sorted({name for rule in changing for name in rule.namespaces} - set(own))


def _reason(rule: AccessRule, resource: str, verb: str, own: Collection[str]) -> str:
    """Return why one right is denied; empty where it is not."""
    if verb in _POWERFUL:
        return "it leads to other people's rights"
    if not rule.namespaces:
        return "" if _is_open(rule, resource, verb, own) else "it reaches every session of the cluster"
    if set(rule.namespaces) - set(own):
        return "it is outside the session's own namespaces"
    if resource in _ALWAYS:
        return "it leads past the limits of the namespace"
    return "" if verb in READ else _why_unwritable(rule, resource)


def _is_open(rule: AccessRule, resource: str, verb: str, own: Collection[str]) -> bool:
    if resource == "namespaces":
        return verb == "get" and bool(rule.names) and set(rule.names) <= set(own)
    return resource in _OPEN_CLUSTER_READS and verb in READ


def _why_unwritable(rule: AccessRule, resource: str) -> str:
    if resource in _UNWRITABLE:
        return "others trust what is written there"
    if resource in _ROLES and not rule.names:
        return "roles and bindings are changed by name only"
    return "a controller acts on it with rights of its own" if _is_custom(resource) else ""


def _is_custom(resource: str) -> bool:
    group, _ = split_resource(resource)
    return "." in group and not group.endswith(".k8s.io")


def _identities(rules: Iterable[AccessRule], own: set[str]) -> Iterator[str]:
    for rule in rules:
        is_outside = not rule.namespaces or bool(set(rule.namespaces) - own)
        for resource in rule.resources:
            for verb in rule.verbs:
                if _takes_identity(resource, verb, is_outside) or (_SYSTEM in rule.namespaces and verb in WRITE):
                    yield f"{verb} {resource}"


def _takes_identity(resource: str, verb: str, is_outside: bool) -> bool:
    if verb in _POWERFUL - {"use"} or resource in _CREDENTIALS:
        return True
    if resource in _OPENING:
        return verb in WRITE
    if resource in _POD_MAKERS or resource == "configmaps" or _is_custom(resource):
        return is_outside and verb in ("create", "update", "patch")
    return is_outside and resource in _RUNNING_COMMANDS
