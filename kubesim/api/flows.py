"""Priority and fairness as answers show it: the flow schema that a request falls under, and its priority level."""

from __future__ import annotations

from kubesim.api.requestinfo import RequestInfo
from kubesim.auth.users import User
from kubesim.errors import Obj
from kubesim.schema.registry import Registry
from kubesim.store import Event, Store, key_of

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS, LEVELS = f"flowschemas.{GROUP}", f"prioritylevelconfigurations.{GROUP}"
UNBOUNDED = frozenset({"attach", "exec", "log", "portforward", "proxy"})
"""Subresources whose requests last as long as they want, and are not limited."""
ANY = "*"
MOST_KNOWN = 1024
"""How many kinds of requests are remembered with their headers."""


class Flows:
    """Follows the flow schemas of a store."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._schemas: list[Obj] | None = None
        self._known: dict[tuple[object, ...], dict[str, str]] = {}
        for resource in (SCHEMAS, LEVELS):
            store.subscribe(registry.by_resource(resource), self._changed)

    def headers(self, user: User, info: RequestInfo) -> dict[str, str]:
        """Return the headers that name a request's schema and level; none for what is not limited."""
        if info.subresource in UNBOUNDED:
            return {}
        asked = (user.name, user.groups, info.verb, *_asked_for(info))
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[asked] = self._headers(user, info)
        return found

    def _headers(self, user: User, info: RequestInfo) -> dict[str, str]:
        schema = next((found for found in self._sorted() if _matches(found, user, info)), None)
        if schema is None:
            return {}
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        level = self._store.get(self._registry.by_resource(LEVELS), "", name)
        return {
            "X-Kubernetes-Pf-Flowschema-Uid": schema["metadata"]["uid"],
            "X-Kubernetes-Pf-Prioritylevel-Uid": level["metadata"]["uid"] if level is not None else "",
        }

    def _changed(self, event: Event) -> None:
        self._schemas = None
        self._known.clear()

    def _sorted(self) -> list[Obj]:
        """Return the schemas, the one that is asked first first."""
        if self._schemas is None:
            found = self._store.list(self._registry.by_resource(SCHEMAS))
            self._schemas = sorted(found, key=lambda obj: (obj["spec"]["matchingPrecedence"], key_of(obj)))
        return self._schemas


def _asked_for(info: RequestInfo) -> tuple[str, ...]:
    """Return all that rules look at."""
    return (info.group, info.resource, info.subresource, info.namespace) if info.resource else (info.path,)


def _matches(schema: Obj, user: User, info: RequestInfo) -> bool:
    return any(
        any(_is_subject(subject, user) for subject in rule.get("subjects") or ())
        and any(_is_ruled(found, info) for found in rule.get(_field(info)) or ())
        for rule in schema["spec"].get("rules") or ()
    )


def _field(info: RequestInfo) -> str:
    return "resourceRules" if info.resource else "nonResourceRules"


def _is_subject(subject: Obj, user: User) -> bool:
    """Tell whether a subject of a rule is this user."""
    match subject["kind"]:
        case "User":
            return bool(subject["user"]["name"] in (ANY, user.name))
        case "Group":
            name = subject["group"]["name"]
            return bool(name == ANY or name in user.groups)
        case _:
            account = subject["serviceAccount"]
            head = f"system:serviceaccount:{account['namespace']}:"
            same = user.name.startswith(head) if account["name"] == ANY else user.name == head + account["name"]
            return bool(same)


def _is_ruled(rule: Obj, info: RequestInfo) -> bool:
    """Tell whether a rule speaks of this request."""
    if not _has(rule["verbs"], info.verb):
        return False
    if not info.resource:
        return any(_covers(path, info.path) for path in rule["nonResourceURLs"])
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not (_has(rule["apiGroups"], info.group) and _has(rule["resources"], resource)):
        return False
    if not info.namespace:
        return bool(rule.get("clusterScope"))
    return _has(rule.get("namespaces") or (), info.namespace)


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith(ANY) else path == pattern


def _has(values: list[str] | tuple[()], wanted: str) -> bool:
    return ANY in values or wanted in values
