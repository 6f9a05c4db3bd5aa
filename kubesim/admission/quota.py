"""ResourceQuota: what a new object asks for must fit beside what its namespace uses (403).

Usage is that of the store at the moment of the request, so it is right even before a controller has written
status.used. A quota with scopes counts only the pods that its scopes choose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from kubesim.admission.prepare import qos_class
from kubesim.api import status
from kubesim.api.quantity import NANO, Format, parse, write
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import Store, Stored

if TYPE_CHECKING:
    from kubesim.api.operations import Operations


def check(ops: Operations, kind: Kind, new: Obj, old: Obj | None = None) -> None:
    """Raise 403 where the new object, or what a change adds to it, would exceed a quota of its namespace."""
    if not kind.namespaced or kind.resource == "resourcequotas":
        return
    namespace, name = new["metadata"]["namespace"], new["metadata"].get("name", "")
    for quota in ops.store.list(ops.registry.by_resource("resourcequotas"), namespace):
        hard = {key: billionths(value) for key, value in quota["spec"].get("hard", {}).items()}
        if not chosen(quota["spec"], kind, new):
            continue
        if kind.resource == "pods" and old is None:
            _check_stated(kind, name, quota, hard, new)
        before = usage_of(kind, old) if old is not None else {}
        asked = {key: value - before.get(key, 0) for key, value in usage_of(kind, new).items() if key in hard}
        asked = {key: value for key, value in asked.items() if value > 0}
        if asked:
            _check_fits(kind, name, quota, hard, asked, ops.ledger.used(kind, namespace, quota))


def _check_fits(kind: Kind, name: str, quota: Obj, hard: Usage, asked: Usage, now: Usage) -> None:
    over = sorted(key for key, value in asked.items() if now.get(key, 0) + value > hard[key])
    if not over:
        return
    requested = ",".join(f"{key}={written(asked[key], quota, key)}" for key in over)
    taken = ",".join(f"{key}={written(now.get(key, 0), quota, key)}" for key in over)
    limited = ",".join(f"{key}={quota['spec']['hard'][key]}" for key in over)
    why = f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {taken}, limited: {limited}"
    raise status.forbidden(kind, name, why)


def _check_stated(kind: Kind, name: str, quota: Obj, hard: Usage, pod: Obj) -> None:
    """Every container must state what the quota limits for cpu and memory."""
    lacking = []
    for key in sorted(hard):
        part, _, resource = key.rpartition(".")
        if resource not in ("cpu", "memory") or part not in ("", "requests", "limits"):
            continue
        holders = [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]
        without = [h["name"] for h in holders if resource not in h.get("resources", {}).get(part or "requests", {})]
        if without:
            lacking.append(f"{key} for: {','.join(without)}")
    if lacking:
        why = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(lacking)}"
        raise status.forbidden(kind, name, why)


Usage = dict[str, int]
"""In billionths, the least that a quantity can say: whole numbers are exact and quick to add."""
ONE = 10**9
ENDED = ("Succeeded", "Failed")
SHORT = ("cpu", "memory", "ephemeral-storage")
AFFINITIES = ("podAffinity", "podAntiAffinity")
COUNTED = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "secrets", "services", "resourcequotas")


@dataclass
class Tally:
    """The count of one quota: ``spec`` is the quota's, ``version`` the state of the store that it is true of."""

    spec: Obj
    version: int = 0
    total: Usage = field(default_factory=dict)

    def change(self, kind: Kind, old: Obj | None, new: Obj | None) -> bool:
        """Take in that an object has changed, come or gone; returns whether it counts otherwise than before."""
        before, after = self._counts(kind, old), self._counts(kind, new)
        if before == after:
            return False
        for name in before.keys() | after.keys():
            self.total[name] = self.total.get(name, 0) + after.get(name, 0) - before.get(name, 0)
        return True

    def _counts(self, kind: Kind, obj: Obj | None) -> Usage:
        """Return what an object takes of what the quota limits."""
        if obj is None or not chosen(self.spec, kind, obj):
            return {}
        usage = usage_of(kind, obj)
        return {name: usage[name] for name in self.spec.get("hard") or () if name in usage}


class Ledger:
    """The tallies of one store's quotas."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies: dict[tuple[str, str, str], Tally] = {}

    def used(self, kind: Kind, namespace: str, quota: Obj) -> Usage:
        """Return what those objects of one kind in a namespace use that a quota counts."""
        key = (namespace, quota["metadata"]["name"], kind.table)
        tally = self._tallies.get(key)
        if tally is None or tally.spec != quota["spec"] or not self._caught_up(tally, kind, namespace):
            tally = self._tallies[key] = self._counted(kind, namespace, quota["spec"])
        tally.version = self._store.resource_version
        return tally.total

    def _caught_up(self, tally: Tally, kind: Kind, namespace: str) -> bool:
        """Take in what has changed since; False where the store has forgotten some of it."""
        try:
            events = self._store.events_since(tally.version, kind)
        except ApiError:
            return False
        for event in events:
            if event.object["metadata"].get("namespace") == namespace:
                tally.change(kind, event.previous, None if event.type == "DELETED" else event.object)
        return True

    def _counted(self, kind: Kind, namespace: str, spec: Obj) -> Tally:
        """Count everything."""
        return counted(spec, ((kind, obj) for obj in self._store.list(kind, namespace)))


def counted(spec: Obj, objects: Iterable[tuple[Kind, Obj]]) -> Tally:
    """Return the tally of some objects."""
    tally = Tally(spec)
    for kind, obj in objects:
        tally.change(kind, None, obj)
    return tally


def usage_of(kind: Kind, obj: Stored | Obj) -> Usage:
    """Return what one object counts against quotas, by the quota's names; not to be changed."""
    if not isinstance(obj, Stored):
        return _usage_of(kind, obj)
    if usage_of not in obj.memo:
        obj.memo[usage_of] = _usage_of(kind, obj)
    found: Usage = obj.memo[usage_of]
    return found


def _usage_of(kind: Kind, obj: Obj) -> Usage:
    group = f".{kind.group}" if kind.group else ""
    counts: Usage = {f"count/{kind.plural}{group}": ONE}
    if kind.resource in COUNTED:
        counts[kind.resource] = ONE
    if kind.resource == "services":
        return counts | _service_usage(obj["spec"])
    if kind.resource == "persistentvolumeclaims":
        return counts | _claim_usage(obj["spec"])
    if kind.resource != "pods":
        return counts
    if obj.get("status", {}).get("phase") in ENDED:
        return counts
    return counts | {"pods": ONE} | _pod_usage(obj["spec"])


def _service_usage(spec: Obj) -> Usage:
    """Return what a service takes of the nodes' ports and of the load balancers."""
    ports, kind = len(spec.get("ports") or ()) * ONE, spec.get("type")
    balanced = kind == "LoadBalancer"
    takes_ports = kind == "NodePort" or (balanced and spec.get("allocateLoadBalancerNodePorts") is not False)
    usage = {"services.nodeports": ports} if takes_ports else {}
    return usage | ({"services.loadbalancers": ONE} if balanced else {})


def _claim_usage(spec: Obj) -> Usage:
    """Return what a claim asks for, in all and of its class."""
    asked = billionths(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))
    usage: Usage = {"requests.storage": asked}
    if name := spec.get("storageClassName"):
        prefix = f"{name}.storageclass.storage.k8s.io"
        usage |= {f"{prefix}/requests.storage": asked, f"{prefix}/persistentvolumeclaims": ONE}
    return usage


@lru_cache(maxsize=8192)
def billionths(text: str) -> int:
    """Return a quantity in 10^-9. Raises ``QuantityError``."""
    return int(parse(text) / NANO)


def written(value: int, quota: Obj, key: str) -> str:
    """Return an amount of one resource in the form in which a quota writes it."""
    form: Format = "binary" if quota["spec"]["hard"][key].endswith("i") else "decimal"
    return write(Fraction(value, ONE), form)


def _pod_usage(spec: Obj) -> Usage:
    usage: Usage = {}
    for part in ("requests", "limits"):
        total: Usage = {}
        for holder in spec.get("containers", ()):
            for name, value in holder.get("resources", {}).get(part, {}).items():
                total[name] = total.get(name, 0) + billionths(value)
        for holder in spec.get("initContainers", ()):
            for name, value in holder.get("resources", {}).get(part, {}).items():
                total[name] = max(total.get(name, 0), billionths(value))
        usage |= {f"{part}.{name}": value for name, value in total.items() if part == "requests" or name in SHORT}
        if part == "requests":
            usage |= {name: value for name, value in total.items() if name in SHORT}
    return usage


def chosen(spec: Obj, kind: Kind, obj: Obj) -> bool:
    """Tell whether a quota counts an object: all of its scopes must choose it, and scopes choose pods."""
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return not terms or (kind.resource == "pods" and all(_in_scope(term, obj) for term in terms))


def _in_scope(term: Obj, pod: Obj) -> bool:
    spec, scope = pod["spec"], term.get("scopeName")
    limited = spec.get("activeDeadlineSeconds") is not None
    best_effort = qos_class(spec) == "BestEffort"
    if scope == "PriorityClass":
        return _matches_class(term, spec.get("priorityClassName", ""))
    affinity = spec.get("affinity") or {}
    found = {
        "Terminating": limited,
        "NotTerminating": not limited,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "CrossNamespacePodAffinity": any(_leaves_namespace(affinity.get(kind)) for kind in AFFINITIES),
    }
    return found.get(str(scope), False)


def _matches_class(term: Obj, name: str) -> bool:
    values = term.get("values") or ()
    match term.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _leaves_namespace(affinity: Obj | None) -> bool:
    """Tell whether a pod's affinity looks at other namespaces."""
    found = affinity or {}
    terms = [*(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ())]
    preferred = found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    terms += [entry.get("podAffinityTerm") or {} for entry in preferred]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)
