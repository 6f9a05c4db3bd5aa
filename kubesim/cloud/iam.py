"""IAM: who a user is to the cloud, what roles allow, and what they allow in the cluster beside RBAC, as on GKE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from os.path import commonprefix
from typing import Any

from kubesim import data
from kubesim.auth.users import AUTHENTICATED, MASTERS, Attributes, User
from kubesim.cloud.state import CloudState
from kubesim.errors import Obj
from kubesim.gpu.nodes import PROJECT
from kubesim.network.world import project_number
from kubesim.schema.registry import Registry

NUMBER = project_number(PROJECT)
POLICY = f"projects/{PROJECT}:policy"
POOL = f"{PROJECT}.svc.id.goog"
WORKLOADS = f"//iam.googleapis.com/projects/{NUMBER}/locations/global/workloadIdentityPools/{POOL}"
ROLE = re.compile(r"(projects/[a-z0-9-]+/)?roles/[A-Za-z][A-Za-z0-9_.]{2,99}")
ACCOUNT_PREFIX = "system:serviceaccount:"
EMAIL = re.compile(r"[^@:\s]+@[^@:\s]+\.[a-z]+")
_roles: data.Reader[dict[str, dict[str, list[str]]]] = data.beside(__file__, "roles.yaml")
VERBS = {
    "get": "get", "list": "list", "watch": "list", "create": "create", "update": "update", "patch": "update",
    "delete": "delete", "deletecollection": "delete",
}  # fmt: skip
SUBRESOURCES = {"log": "getLogs", "status": "updateStatus", "scale": "updateScale", "token": "createToken"}
"""Verbs of permissions for a part of an object, where they do not take the part's own name."""


def members_of(user: User) -> frozenset[str]:
    """Return the members of a policy that mean a user."""
    if user.name.startswith(ACCOUNT_PREFIX):
        namespace, _, name = user.name.removeprefix(ACCOUNT_PREFIX).partition(":")
        return frozenset(
            {
                f"serviceAccount:{POOL}[{namespace}/{name}]",
                f"principal:{WORKLOADS}/subject/ns/{namespace}/sa/{name}",
                f"principalSet:{WORKLOADS}/namespace/{namespace}",
            }
        )
    groups = (f"group:{group}" for group in user.groups if group != AUTHENTICATED)
    return frozenset({f"user:{user.name}", f"serviceAccount:{user.name}", *groups})


class Iam:
    """The project's policy."""

    def __init__(self, state: CloudState, registry: Registry) -> None:
        self._state = state
        self._registry = registry

    def allows(self, user: User, permission: str) -> bool:
        """Tell whether a user has a permission in the project; the cluster's administrator has all."""
        if MASTERS in user.groups:
            return True
        return any(_grants(role, permission) for role in self._roles_of(members_of(user)))

    def refusal(self, user: User, attributes: Attributes) -> str | None:
        """Return why IAM does not permit a request to the cluster's API; None where it does.

        Tokens of the cluster's own accounts are known to RBAC alone, as on GKE: IAM maps Google's identities.
        """
        if user.name.startswith(ACCOUNT_PREFIX):
            return ""
        known = bool(EMAIL.fullmatch(user.name))  # to Google, and not to the cluster alone
        roles = [*self._roles_of(members_of(user))] if attributes.resource else []
        if not roles and not (known and attributes.resource):
            return ""
        permission = self._permission(attributes)
        if any(_grants(role, permission) for role in roles):
            return None
        return f'requires one of ["{permission}"] permission(s).' if known else ""

    def _roles_of(self, members: frozenset[str]) -> Iterator[str]:
        policy = self._state.get(POLICY) or {}
        for binding in policy.get("bindings") or ():
            if not members.isdisjoint(binding.get("members") or ()):
                yield binding["role"]

    def _permission(self, attributes: Attributes) -> str:
        """Return the permission that a request needs, as in container.configMaps.list."""
        verb, part = VERBS.get(attributes.verb, attributes.verb), attributes.subresource
        if part:
            verb = SUBRESOURCES.get(part, part if attributes.verb in ("create", "get") else verb)
        return f"container.{self._plural(attributes)}.{verb}"

    def _plural(self, attributes: Attributes) -> str:
        """Return a kind in the plural as permissions write it: configMaps, networkPolicies."""
        for kind in self._registry.all():
            if (kind.group, kind.plural) == (attributes.group, attributes.resource) and kind.custom is None:
                same = len(commonprefix([kind.kind.lower(), kind.plural]))
                return kind.kind[0].lower() + kind.kind[1:same] + kind.plural[same:]
        return "thirdPartyObjects"


def _grants(role: str, permission: str) -> bool:
    found: dict[str, Any] = _roles().get(role, {})
    named = any(fnmatchcase(permission, pattern) for pattern in found.get("allow", ()))
    return named and not any(fnmatchcase(permission, pattern) for pattern in found.get("except", ()))


def policy_errors(policy: Obj, accounts: set[str]) -> Iterator[str]:
    """Yield what is wrong with a policy; ``accounts`` are the e-mail addresses of the project's service accounts."""
    for binding in policy["bindings"]:
        role = binding["role"]
        if not ROLE.fullmatch(role):
            yield f"Role {role[:100]} is not supported for this resource."
        for member in binding["members"]:
            kind, _, name = member.partition(":")
            if kind not in ("user", "serviceAccount", "group", "domain", "principal", "principalSet", "deleted"):
                yield f"The member {member[:90]} is of an unknown type. Please set a valid type prefix."
            elif kind == "serviceAccount" and name.endswith(f"@{PROJECT}.iam.gserviceaccount.com"):
                if name not in accounts:
                    yield f"Service account {name[:100]} does not exist."
            elif kind in ("user", "group") and not EMAIL.fullmatch(name):
                yield f"Invalid argument: the member {member[:100]} is no e-mail address."
