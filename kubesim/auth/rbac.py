"""The RBAC evaluator: rules of roles that are bound to a user, matched as upstream matches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kubesim.auth.users import MASTERS, Attributes, User
from kubesim.errors import Obj

MOST_KNOWN = 4096
"""How many (user, namespace) pairs are remembered at once."""


class Policies(Protocol):
    """Where roles and bindings come from. ``revision`` is another one after every change of any of them."""

    @property
    def revision(self) -> int:
        """Return the number of the present state."""

    def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return one object, or None."""

    def every(self, resource: str, namespace: str = "") -> Iterable[Obj]:
        """Return all objects of a resource in a namespace (empty: of a cluster-scoped resource)."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One rule that a user has, and the binding and role that give it."""

    rule: Obj
    binding: str
    role: str
    subject: str


Beside = Callable[[User, Attributes], str | None]
"""An authorizer beside this one: returns None for what it permits, else why it does not, which may be nothing."""


class Authorizer:
    """Answers whether a user may do something."""

    def __init__(self, policies: Policies, *more: Beside) -> None:
        """``more`` are asked where no rule permits a request."""
        self._policies = policies
        self._more = more
        self._revision = -1
        self._known: dict[tuple[User, str], list[Grant]] = {}

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Tell whether any rule bound to the user permits the request."""
        return (
            MASTERS in user.groups
            or any(rule_allows(grant.rule, attributes) for grant in self.grants(user, attributes.namespace))
            or self.refusal(user, attributes) is None
        )

    def refusal(self, user: User, attributes: Attributes) -> str | None:
        """Return why no authorizer beside this one permits a request, "" for no reason; None where one does."""
        found = [beside(user, attributes) for beside in self._more]
        return None if None in found else "".join(filter(None, found))

    def reason(self, user: User, attributes: Attributes) -> str | None:
        """Return upstream's sentence about the binding that allows the request; None when nothing does."""
        if MASTERS in user.groups:
            return ""
        for grant in self.grants(user, attributes.namespace):
            if rule_allows(grant.rule, attributes):
                return f"RBAC: allowed by {grant.binding} of {grant.role} to {grant.subject}"
        return "" if self.refusal(user, attributes) is None else None

    def grants(self, user: User, namespace: str) -> list[Grant]:
        """Return every rule that the user has in a namespace (or, for none, in the cluster)."""
        if self._revision != self._policies.revision or len(self._known) > MOST_KNOWN:
            self._known.clear()
            self._revision = self._policies.revision
        found = self._known.get((user, namespace))
        if found is None:
            found = self._known[user, namespace] = list(self._granted(user, namespace))
        return found

    def _granted(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yield the rules from bindings of the cluster, then from those of the namespace."""
        yield from self._bound(user, "clusterrolebindings.rbac.authorization.k8s.io", "")
        if namespace:
            yield from self._bound(user, "rolebindings.rbac.authorization.k8s.io", namespace)

    def _bound(self, user: User, resource: str, namespace: str) -> Iterator[Grant]:
        """Yield the rules of one kind of binding."""
        for binding in self._policies.every(resource, namespace):
            subject = next(
                (s for s in binding.get("subjects") or () if subject_matches(s, user, namespace)),
                None,
            )
            if subject is not None:
                yield from self._rules(binding, subject, namespace)

    def _rules(self, binding: Obj, subject: Obj, namespace: str) -> Iterator[Grant]:
        """Yield the rules of the role that a binding refers to."""
        reference = binding["roleRef"]
        cluster_wide = reference["kind"] == "ClusterRole"
        plural = "clusterroles" if cluster_wide else "roles"
        role = self._policies.find(
            f"{plural}.rbac.authorization.k8s.io", "" if cluster_wide else namespace, reference["name"]
        )
        if role is None:
            return
        name = binding["metadata"]["name"]
        named = f'RoleBinding "{name}/{namespace}"' if namespace else f'ClusterRoleBinding "{name}"'
        for rule in role.get("rules") or ():
            yield Grant(rule, named, f'{reference["kind"]} "{reference["name"]}"', _subject_text(subject, namespace))


def subject_matches(subject: Obj, user: User, namespace: str) -> bool:
    """Tell whether a binding's subject means this user."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(user.name == name)
    if kind == "Group":
        return name in user.groups
    home = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and user.name == f"system:serviceaccount:{home}:{name}"


def rule_allows(rule: Obj, attributes: Attributes) -> bool:
    """Tell whether one PolicyRule permits the request."""
    if not _has(rule.get("verbs"), attributes.verb):
        return False
    if not attributes.resource:
        return any(_path_matches(pattern, attributes.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), attributes.group)
        and _resource_matches(rule.get("resources") or (), attributes)
        and (not names or attributes.name in names)
    )


def _has(values: list[str] | None, wanted: str) -> bool:
    """Tell whether a rule's list names a value or the star."""
    return values is not None and ("*" in values or wanted in values)


def _resource_matches(resources: Iterable[str], attributes: Attributes) -> bool:
    """Match ``pods``, ``pods/log``, ``*`` and ``*/log``."""
    wanted = {"*", attributes.full_resource}
    if attributes.subresource:
        wanted.add(f"*/{attributes.subresource}")
    return any(resource in wanted for resource in resources)


def _path_matches(pattern: str, path: str) -> bool:
    """Match a non-resource URL, which may end in a star."""
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return pattern == path


def _subject_text(subject: Obj, namespace: str) -> str:
    """Return a subject as the authorizer's sentence names it."""
    if subject["kind"] == "ServiceAccount":
        return f'ServiceAccount "{subject["name"]}/{subject.get("namespace") or namespace}"'
    return f'{subject["kind"]} "{subject["name"]}"'
