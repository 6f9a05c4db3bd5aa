"""The Node authorizer: the rights of a node with its own certificate.

A user ``system:node:NAME`` of ``system:nodes`` has the rules of the cluster role system:node, narrowed for the kinds
below to what belongs to pods that are bound to that node. ``noderestriction.py`` looks at what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kubesim import data
from kubesim.auth.rbac import Policies, rule_allows
from kubesim.auth.users import Attributes, User
from kubesim.errors import Obj
from kubesim.schema.paths import condition

GROUP, PREFIX = "system:nodes", "system:node:"
ROLE = "system:node"
REFERENCES = {
    "secrets": {
        ("secret", "secretName"), ("secret", "name"), ("secretKeyRef", "name"), ("secretRef", "name"),
        ("imagePullSecrets", "name"),
    },
    "configmaps": {("configMap", "name"), ("configMapKeyRef", "name"), ("configMapRef", "name")},
    "persistentvolumeclaims": {("persistentVolumeClaim", "claimName")},
    "serviceaccounts": {("spec", "serviceAccountName")},
    "resourceclaims": {("resourceClaims", "resourceClaimName"), ("resourceClaimStatuses", "resourceClaimName")},
}  # fmt: skip
"""Resource -> where a pod names an object of it: the field around the name, and the field of the name."""
PLACED = ("pods", "resourceslices", "volumeattachments")
"""Kinds that say themselves on which node they are."""


def node_of(user: User) -> str:
    """Return the name of the node that a user is; empty for anybody else."""
    return user.name.removeprefix(PREFIX) if GROUP in user.groups and user.name.startswith(PREFIX) else ""


@cache
def _rules() -> dict[str, list[tuple[list[Callable[[Obj], bool]], str, str]]]:
    """Return by group and resource what must hold, what is done then ("" for a refusal), and what is said."""
    table = data.table(__file__, "nodes.yaml")
    return {
        name: [
            ([condition(*each) for each in line.get("if", {}).items()], line.get("do", ""), line.get("say", ""))
            for line in lines
        ]
        for name, lines in table.items()
    }


class NodeAuthorizer:
    """Answers whether a node may do something."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def refusal(self, user: User, asked: Attributes) -> str | None:
        """Return None for what a node may do, else why it may not: "" for no reason, as for anybody else."""
        if GROUP not in user.groups or not user.name.startswith(PREFIX):
            return ""
        node = node_of(user)
        if not node:
            return f'unknown node for user "{user.name}"'
        lines = _rules().get(f"{asked.group}/{asked.resource}")
        if lines is not None:
            return self._ruled(lines, node, asked)
        role = self._policies.find("clusterroles.rbac.authorization.k8s.io", "", ROLE) or {}
        return None if any(rule_allows(rule, asked) for rule in role.get("rules") or ()) else ""

    def _ruled(
        self, lines: list[tuple[list[Callable[[Obj], bool]], str, str]], node: str, asked: Attributes
    ) -> str | None:
        """Return what the first line says whose conditions hold, None for what a node may do."""
        facts = {name: getattr(asked, name) for name in ("verb", "subresource", "namespace", "name")}
        facts |= {"own": asked.name == node, "chosen": _chooses(asked, "spec.nodeName", node)}
        done, said = next((done, said) for tests, done, said in lines if all(holds(facts) for holds in tests))
        if done:
            return self._related(node, asked) if done == "related" else None
        return said.replace("{node}", node).replace("{name}", asked.name)

    def _related(self, node: str, asked: Attributes) -> str | None:
        """Return None where an object has to do with a node: it is there, or a pod that is there names it."""
        if not asked.name:
            return "No Object name found"
        if asked.resource in PLACED:
            kind = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
            found = (self._policies.find(kind, asked.namespace, asked.name) or {}).get("spec") or {}
            related = found.get("nodeName") == node
        elif asked.resource == "persistentvolumes":
            claims = self._policies.every("persistentvolumeclaims")
            bound = [claim["metadata"] for claim in claims if claim["spec"].get("volumeName") == asked.name]
            claimed = "persistentvolumeclaims"
            related = any(self._is_used(node, claimed, claim["namespace"], claim["name"]) for claim in bound)
        else:
            related = self._is_used(node, asked.resource, asked.namespace, asked.name)
        return None if related else f"no relationship found between node '{node}' and this object"

    def _is_used(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Tell whether a pod of the node names an object."""
        wanted = REFERENCES[resource]
        pods = (pod for pod in self._policies.every("pods", namespace) if pod["spec"].get("nodeName") == node)
        return any(
            (around, field) in wanted and value == name
            for pod in pods
            for part in ("spec", "status")
            for around, field, value in texts(part, pod.get(part))
        )


def _chooses(asked: Attributes, field: str, value: str) -> bool:
    """Tell whether a field selector chooses by a field."""
    return f"{field}={value}" in asked.fields.replace("==", "=").split(",")


def texts(around: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield every text of a document with its field, and the field around that."""
    if isinstance(value, dict):
        for field, inner in value.items():
            if isinstance(inner, str):
                yield around, field, inner
            else:
                yield from texts(field, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(around, inner)
