"""Nobody grants what he does not hold: the checks of roles and bindings, with upstream's texts (403)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from kubesim.api import status
from kubesim.api.options import Options
from kubesim.auth.rbac import Authorizer, rule_allows
from kubesim.auth.users import MASTERS, Attributes, User, quoted_list
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

GROUP = "rbac.authorization.k8s.io"
ROLES = (f"roles.{GROUP}", f"clusterroles.{GROUP}")
BINDINGS = (f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}")
EVERYTHING: list[Obj] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
FIELDS = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
Grain = tuple[str, str, str, str, str]
"""One right: group, resource, name ("" for all), path of no resource, verb."""


class Escalation:
    """Asks of every write of a role or binding whether its author holds what it grants, or may grant more."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(
        self, ops: Operations, kind: Kind, old: Obj | None, new: Obj, subresource: str, options: Options
    ) -> None:
        """Raise 403 where the requester grants what he does not hold."""
        user = options.requester
        if user is None or subresource or MASTERS in user.groups:
            return
        if kind.resource in ROLES:
            self._check_role(kind, old, new, user)
        elif kind.resource in BINDINGS:
            self._check_binding(ops, kind, new, user)

    def _check_role(self, kind: Kind, old: Obj | None, new: Obj, user: User) -> None:
        metadata = new["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        asked = Attributes("escalate", GROUP, "v1", kind.plural, namespace=namespace, name=name)
        if self._authorizer.allows(user, asked):
            return
        self._confirm(kind, name, new.get("rules") or [], user, namespace)
        aggregates = any("aggregationRule" in role for role in (old or {}, new))
        if aggregates and missing_rights(self._held(user, namespace), EVERYTHING):
            raise status.forbidden(kind, name, AGGREGATION)

    def _check_binding(self, ops: Operations, kind: Kind, new: Obj, user: User) -> None:
        metadata, reference = new["metadata"], new["roleRef"]
        namespace = metadata.get("namespace", "")
        plural = "clusterroles" if reference.get("kind") == "ClusterRole" else "roles"
        if reference.get("kind") not in ("ClusterRole", "Role"):
            return
        name = reference.get("name", "")
        asked = Attributes("bind", GROUP, "v1", plural, namespace=namespace, name=name)
        if self._authorizer.allows(user, asked):
            return
        roles = ops.registry.by_resource(f"{plural}.{GROUP}")
        role = ops.store.get(roles, "" if plural == "clusterroles" else namespace, name)
        if role is None:
            raise status.not_found(kind, name)
        self._confirm(kind, metadata.get("name", ""), role.get("rules") or [], user, namespace)

    def _held(self, user: User, namespace: str) -> list[Obj]:
        return [grant.rule for grant in self._authorizer.grants(user, namespace)]

    def _confirm(self, kind: Kind, name: str, rules: list[Obj], user: User, namespace: str) -> None:
        missing = missing_rights(self._held(user, namespace), rules)
        if missing:
            who = f'user "{user.name}" (groups={quoted_list(user.groups)})'
            lines = "\n".join(sorted({described(rule) for rule in missing}))
            text = f"{who} is attempting to grant RBAC permissions not currently held:\n{lines}"
            raise status.forbidden(kind, name, text)


def missing_rights(held: list[Obj], wanted: Iterable[Obj]) -> list[Obj]:
    """Return the rules among ``wanted`` that no rule held covers, those of one resource put together."""
    missing = [grain for rule in wanted for grain in _grains(rule) if not any(_covers(own, grain) for own in held)]
    verbs: dict[Grain, list[str]] = {}
    for group, resource, name, path, verb in dict.fromkeys(missing):
        verbs.setdefault((group, resource, name, path, ""), []).append(verb)
    return [_rule(grain, found) for grain, found in verbs.items()]


def _grains(rule: Obj) -> Iterator[Grain]:
    names, verbs = rule.get("resourceNames") or [""], rule.get("verbs") or ()
    for group, resource, name, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), names, verbs
    ):
        yield group, resource, name, "", verb
    for path, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield "", "", "", path, verb


def _covers(rule: Obj, grain: Grain) -> bool:
    group, resource, name, path, verb = grain
    plural, _, below = resource.partition("/")
    return rule_allows(rule, Attributes(verb, group, resource=plural, subresource=below, name=name, path=path))


def _rule(grain: Grain, verbs: list[str]) -> Obj:
    group, resource, name, path, _ = grain
    if path:
        return {"nonResourceURLs": [path], "verbs": verbs}
    return {"apiGroups": [group], "resources": [resource], "resourceNames": [name] if name else [], "verbs": verbs}


def described(rule: Obj) -> str:
    """Return ``{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}``."""
    parts = [f"{_go_name(field)}:{quoted_list(rule[field])}" for field in FIELDS if rule.get(field)]
    return "{" + ", ".join(parts) + "}"


def _go_name(field: str) -> str:
    return {"apiGroups": "APIGroups", "nonResourceURLs": "NonResourceURLs"}.get(field, field[:1].upper() + field[1:])
