"""Node selector terms, tolerations and pod affinity terms, as the API defines them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesim.api.selectors import LabelSelector, Requirement, from_struct
from kubesim.errors import Obj

if TYPE_CHECKING:
    from kubesim.scheduler.state import NodeState

OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": ">", "Lt": "<"}
BLOCKING = ("NoSchedule", "NoExecute")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE_NAME = "metadata.name"


def tolerates(tolerations: Iterable[Obj], taint: Obj) -> bool:
    """Tell whether one of a pod's tolerations covers a taint."""
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
    """Tell whether nodeSelector and the required node affinity accept a node."""
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    terms = node_terms(spec)
    return terms is None or any(matches_term(term, node) for term in terms)


def node_terms(spec: Obj) -> list[Obj] | None:
    """Return the terms of the required node affinity; None where there is none."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or []


def named_nodes(spec: Obj) -> set[str] | None:
    """Return the only nodes that the required node affinity names; None where it does not go by name."""
    found: set[str] = set()
    for term in node_terms(spec) or ():
        fields = [e for e in term.get("matchFields") or () if e["key"] == NODE_NAME and e["operator"] == "In"]
        if not fields:
            return None
        found |= set.intersection(*(set(expression["values"]) for expression in fields))
    return found if node_terms(spec) else None


def matches_term(term: Obj, node: NodeState) -> bool:
    """Tell whether a node selector term accepts a node; an empty term accepts none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return _matches(expressions, node.labels) and _matches(fields, {NODE_NAME: node.name})


def _matches(expressions: Iterable[Obj], labels: dict[str, str]) -> bool:
    return LabelSelector(
        tuple(Requirement(e["key"], OPERATORS[e["operator"]], frozenset(e.get("values") or ())) for e in expressions)
    ).matches(labels)


@dataclass(frozen=True, slots=True)
class Term:
    """A wish about other pods: which ones, and in what topology. ``weight`` is 0 for what must be."""

    topology: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    weight: int = 0

    def selects(self, namespace: str, labels: dict[str, str], labels_of: Callable[[str], dict[str, str]]) -> bool:
        """Tell whether a pod is meant; ``labels_of`` gives the labels of its namespace."""
        if not self.selector.matches(labels):
            return False
        return namespace in self.namespaces or self.namespace_selector.matches(labels_of(namespace))


def pod_terms(pod: Obj) -> dict[str, list[Term]]:
    """Return a pod's wishes about others by kind: ``near`` and ``apart`` must be, ``rather``... should be.

    The last two kinds are ``rather near`` and ``rather apart``.
    """
    affinity, own = pod["spec"].get("affinity") or {}, pod["metadata"].get("namespace", "")
    found: dict[str, list[Term]] = {}
    for kind, field in (("near", "podAffinity"), ("apart", "podAntiAffinity")):
        wishes = affinity.get(field) or {}
        found[kind] = [_term(term, own) for term in wishes.get(REQUIRED) or ()]
        rather = wishes.get(PREFERRED) or ()
        found[f"rather {kind}"] = [_term(wish["podAffinityTerm"], own, int(wish["weight"])) for wish in rather]
    return found


def _term(term: Obj, own: str, weight: int = 0) -> Term:
    selector = term.get("namespaceSelector")
    named = term.get("namespaces") or ([own] if selector is None else [])
    labels = from_struct(term.get("labelSelector"))
    return Term(term["topologyKey"], labels, frozenset(named), from_struct(selector), weight)
