"""One write, as policies and webhooks see it, and whether it is among those that they speak of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubesim.api.convert import to_served
from kubesim.api.options import Options
from kubesim.api.selectors import from_struct
from kubesim.auth.users import AUTHENTICATED, Attributes, User, service_account_user
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

GROUP = "admissionregistration.k8s.io"
EXEMPT = frozenset(f"{name}.{GROUP}" for name in (
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings", "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
))  # fmt: skip
"""What decides on admission is not itself decided on."""
ANY = "*"
NAMESPACE_FIELDS = ("name", "generateName", "labels", "annotations", "uid", "creationTimestamp", "resourceVersion")


@dataclass(frozen=True, slots=True)
class Request:
    """One write, or one connection into a pod. ``kind`` is that in whose version it came, ``stored`` the store's."""

    ops: Operations
    kind: Kind
    stored: Kind
    old: Obj | None
    new: Obj | None
    subresource: str
    options: Options
    connection: Obj | None = None
    """The options of a connection, which stand for the object there."""
    posted: Obj | None = None
    """What is posted to a subresource: a Binding, an Eviction."""
    early: bool = False
    """Whether a new object can still change: a name that the server makes up is told to nobody yet."""

    @classmethod
    def of(
        cls, ops: Operations, stored: Kind, old: Obj | None, new: Obj | None, subresource: str, options: Options
    ) -> Request:
        """Return the write of an object as it is stored."""
        served = options.served
        kind = served if served is not None and served.table == stored.table else stored
        return cls(ops, kind, stored, old, new, options.through or subresource, options)

    @property
    def operation(self) -> str:
        """CREATE, UPDATE, DELETE or CONNECT."""
        if self.connection is not None:
            return "CONNECT"
        if self.posted is not None:
            return "CREATE"
        return "DELETE" if self.new is None else "CREATE" if self.old is None else "UPDATE"

    @property
    def object(self) -> Obj:
        """The object that is written, deleted, or connected to."""
        return self.new if self.new is not None else self.old or {}

    @property
    def name(self) -> str:
        """The name of the object."""
        return "" if self.early and self.options.generated else str(self.object["metadata"].get("name", ""))

    @property
    def space(self) -> str:
        """The namespace; that of a namespace is itself."""
        metadata = self.object["metadata"]
        return str(metadata.get("name" if self.kind.resource == "namespaces" else "namespace") or "")

    def namespace(self) -> Obj | None:
        """Return the namespace of the object."""
        name = self.space
        return self.ops.store.get(self.ops.registry.by_resource("namespaces"), "", name) if name else None

    def shown(self, kind: Kind) -> tuple[Obj | None, Obj | None]:
        """Return the object and the old one as a version has them. Raises Unanswered."""
        if self.connection is not None or self.posted is not None:
            return self.connection or self.posted, None
        if self.subresource == "scale":
            return _scale(self.stored, self.new), _scale(self.stored, self.old)
        new, old = (obj and to_served(kind, obj, self.options.talk) for obj in (self.new, self.old))
        return new, old

    def named(self, kind: Kind) -> Obj:
        """Return the group, version and kind of what is shown."""
        if self.connection is not None or self.posted is not None:
            shown = self.connection or self.posted or {}
            group, _, version = str(shown.get("apiVersion", "v1")).rpartition("/")
            return {"group": group, "version": version, "kind": shown.get("kind", "")}
        if self.subresource == "scale":
            return {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        return {"group": kind.group, "version": kind.version, "kind": kind.kind}

    def user(self) -> Obj:
        """Return who asks."""
        user = self.options.requester
        if user is None:
            user = User(f"system:{self.options.user.removeprefix('system:')}", ("system:masters", AUTHENTICATED))
        return user.info()

    def about(self, kind: Kind, resource: Kind) -> Obj:
        """Return the request as expressions and reviews know it: of ``resource``, seen as ``kind``."""
        own = {"group": self.kind.group, "version": self.kind.version, "resource": self.kind.plural}
        seen = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        found: Obj = {"kind": self.named(kind), "resource": seen}
        if self.subresource:
            found["subResource"] = self.subresource
        found |= {"requestKind": self.named(self.kind), "requestResource": own}
        if self.subresource:
            found["requestSubResource"] = self.subresource
        found |= {"name": self.name, "namespace": self.space, "operation": self.operation}
        return {name: value for name, value in found.items() if value} | {"userInfo": self.user()}

    def variables(self, kind: Kind) -> dict[str, Any]:
        """Return what every expression may speak of."""
        metadata, (new, old) = self.object["metadata"], self.shown(kind)
        request = {**self.about(kind, kind), "dryRun": self.options.dry_run}  # what is empty is left out, as upstream
        request |= {"options": self.options.given, "object": new, "oldObject": old}
        about = {"group": self.kind.group, "resource": self.kind.plural, "subresource": self.subresource}
        asked = about | {"namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}
        return {
            "object": new, "oldObject": old, "request": request, "namespaceObject": self._seen_namespace(),
            "authorizer": {"requestResource": asked},
        }  # fmt: skip

    def _seen_namespace(self) -> Obj | None:
        """Return the namespace as expressions see it: nothing for what is in none."""
        found = self.namespace() if self.kind.resource != "namespaces" else None
        metadata = found["metadata"] if found is not None else {}
        kept = {name: value for name, value in metadata.items() if name in NAMESPACE_FIELDS}
        return {**found, "metadata": kept} if found is not None else None

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions whose answers depend on who asks."""
        return {"check": self._check}

    def _check(self, question: Obj, verb: str = "") -> Obj:
        """Ask the authorizer what an expression has put together."""
        user = self.options.requester or User(self.options.user)
        if account := question.get("account"):
            namespace, _, name = account.partition(":")
            user = service_account_user(namespace, name, "")
        names = ("group", "resource", "subresource", "namespace", "name", "path")
        asked = Attributes(verb, **{name: str(question.get(name, "")) for name in names})
        return {"allowed": self.ops.allows(user, asked), "reason": ""}

    def matched(self, wanted: Obj, rules: list[Obj]) -> Kind | None:
        """Return the kind as which one of the rules speaks of this request: its own, or another version of it."""
        if any(self._rule_matches(rule, self.kind) for rule in rules):
            return self.kind
        if wanted.get("matchPolicy", "Equivalent") != "Equivalent":
            return None
        others = [kind for kind in self.ops.registry.all() if kind.table == self.kind.table and kind != self.kind]
        return next((kind for rule in rules for kind in others if self._rule_matches(rule, kind)), None)

    def selected(self, wanted: Obj) -> bool:
        """Tell whether the selectors for namespaces and objects choose this request."""
        resource = self.kind.resource
        writing = resource == "namespaces" and not self.subresource and self.operation in ("CREATE", "UPDATE")
        namespace = self.object if writing else self.namespace()
        chosen = wanted.get("namespaceSelector") or {}
        concerned = chosen and (namespace is not None or self.space)
        if concerned and not from_struct(chosen).selects(namespace or {"metadata": {}}):
            return False
        labels = wanted.get("objectSelector") or {}
        if not labels:
            return True
        objects = () if self.connection is not None or self.posted is not None else (self.new, self.old)
        return any(obj is not None and from_struct(labels).selects(obj) for obj in objects)

    def _rule_matches(self, rule: Obj, kind: Kind) -> bool:
        names, scope = rule.get("resourceNames") or (), rule.get("scope", ANY)
        inside = bool(self.space) and kind.resource != "namespaces"
        return (
            (scope == ANY or (scope == "Namespaced") == inside)
            and _has(rule.get("operations"), self.operation)
            and _has(rule.get("apiGroups"), kind.group)
            and _has(rule.get("apiVersions"), kind.version)
            and any(self._resource_matches(text, kind) for text in rule.get("resources") or ())
            and (not names or self.name in names)
        )

    def _resource_matches(self, text: str, kind: Kind) -> bool:
        plural, _, sub = text.partition("/")
        return plural in (ANY, kind.plural) and sub in (ANY, self.subresource)


def _has(values: list[str] | None, wanted: str) -> bool:
    return ANY in (values or ()) or wanted in (values or ())


def _scale(kind: Kind, obj: Obj | None) -> Obj | None:
    """Return what of an object its scale subresource shows to whoever decides on it."""
    if obj is None:
        return None
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas: Any = obj
    for step in kind.scale.spec if kind.scale is not None else ():
        replicas = replicas.get(step) if isinstance(replicas, dict) else None
    return {
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in names if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {}, "status": {"replicas": 0},
    }  # fmt: skip
