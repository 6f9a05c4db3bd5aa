"""The scopes of a ResourceQuota: which pods it counts."""

from __future__ import annotations

from kubesim.admission.prepare import qos_class
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

AFFINITIES = ("podAffinity", "podAntiAffinity")


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
