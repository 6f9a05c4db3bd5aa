"""Placement of pods as the scheduler sees it: node selectors, required node affinity, tolerations.

Resources and other pods are left out: what is asked here is whether a node could ever be the pod's.
"""

from __future__ import annotations

from typing import Any

from faults.checks.lookups import dig, rows, texts

_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def selects(workload: Any, node: Any) -> bool:
    """Whether the node selector and the required node affinity of a pod, or of a template, accept a node."""
    spec, labels = _pod_spec(workload), texts(node, "metadata.labels")
    if not texts(spec, "nodeSelector").items() <= labels.items():
        return False
    terms = rows(spec, _TERMS)
    return not terms or any(_accepts(term, labels, str(dig(node, "metadata.name", ""))) for term in terms)


def tolerates(workload: Any, taint: Any) -> bool:
    """Whether a pod, or a template, may be on a node in spite of a taint."""
    return any(_covers(toleration, taint) for toleration in rows(_pod_spec(workload), "tolerations"))


def _pod_spec(workload: Any) -> Any:
    return dig(workload, "spec.template.spec", None) or dig(workload, "spec", {})


def _accepts(term: Any, labels: dict[str, str], name: str) -> bool:
    """Whether a node selector term accepts a node; an empty one accepts none."""
    expressions, fields = rows(term, "matchExpressions"), rows(term, "matchFields")
    by_labels = all(_matches(row, labels) for row in expressions)
    return bool(expressions or fields) and by_labels and all(_matches(row, {"metadata.name": name}) for row in fields)


def _matches(row: Any, labels: dict[str, str]) -> bool:
    found = labels.get(str(dig(row, "key", "")))
    values = [str(value) for value in rows(row, "values")]
    match dig(row, "operator", ""):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return _is_larger(found, values)
        case "Lt":
            return any(_is_larger(value, [found or ""]) for value in values[:1])
    return False


def _is_larger(text: str | None, than: list[str]) -> bool:
    numbers = [int(part) for part in (text or "", *than[:1]) if part.isascii() and part.isdigit() and len(part) < 19]
    return len(numbers) == 2 and numbers[0] > numbers[1]


def _covers(toleration: Any, taint: Any) -> bool:
    key, effect = dig(toleration, "key", ""), dig(toleration, "effect", "")
    if effect and effect != dig(taint, "effect", ""):
        return False
    if dig(toleration, "operator", "Equal") == "Exists":
        return not key or bool(key == dig(taint, "key", ""))
    return (key, dig(toleration, "value", "")) == (dig(taint, "key", ""), dig(taint, "value", ""))
