"""Node selector terms and tolerations, as the API defines them."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.api.selectors import LabelSelector, Requirement
from kubesim.errors import Obj
from kubesim.scheduler.state import NodeState

OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": ">", "Lt": "<"}
BLOCKING = ("NoSchedule", "NoExecute")


def tolerates(tolerations: Iterable[Obj], taint: Obj) -> bool:
    """Whether one of a pod's tolerations covers a taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated(spec: Obj, node: NodeState, effects: tuple[str, ...] = BLOCKING) -> Obj | None:
    """Return the first taint of these effects that a pod does not tolerate."""
    tolerations = spec.get("tolerations") or []
    return next((t for t in node.taints if t["effect"] in effects and not tolerates(tolerations, t)), None)


def selects_node(spec: Obj, node: NodeState) -> bool:
    """Whether nodeSelector and the required node affinity accept a node."""
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def matches_term(term: Obj, node: NodeState) -> bool:
    """Whether a node selector term accepts a node; an empty term accepts none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return _matches(expressions, node.labels) and _matches(fields, {"metadata.name": node.name})


def _matches(expressions: Iterable[Obj], labels: dict[str, str]) -> bool:
    return LabelSelector(
        tuple(Requirement(e["key"], OPERATORS[e["operator"]], frozenset(e.get("values") or ())) for e in expressions)
    ).matches(labels)
