"""Network faults of the API: partitions between pods of one namespace, by NetworkPolicies.

Pods are named by labels, by how their names begin, or by the word that Dynamo has for them: ``worker`` is every pod
that is one. Each policy closes what it says and nothing else: what keeps a pod from others stands at those others, so
that the pod still reaches everything outside the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faults.engine.ports import Obj
from faults.injectors import StepError, isolation
from faults.injectors.isolation import ManyLabels, Partition
from faults.injectors.network import BETWEEN, CUSTOM, TENANTS, Network, policy

COMPONENT = "nvidia.com/dynamo-component-type"
NATS = {"app.kubernetes.io/name": "nats"}
LABELLED = {"managed-by": "fault-injection-api", "fault-type": "network-partition"}
_LABEL = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,200}=[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_WORD = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


VOLATILE = frozenset({"pod-template-hash", "controller-revision-hash", "pod-template-generation"})
"""Labels that another version of the same workload does not have."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a partition closes beyond its two sides, in the words of Dynamo's service."""

    nats: bool = False
    all_egress: bool = False
    ingress: bool = False
    pods: Sequence[Mapping[str, str]] = ()
    ports: Sequence[int] = ()
    open_namespaces: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is named, so that the partition's own two sides are kept apart."""
        return not (self.nats or self.all_egress or self.ingress or self.pods)


class WrongPartition(Exception):
    """A partition that cannot be, and for which reason."""


def labels_of(pods: str) -> dict[str, str]:
    """Return the labels that ``pods`` stands for: ``app=web,tier=front``, or a word. Raises WrongPartition."""
    if pods == "nats":
        return dict(NATS)
    if _WORD.fullmatch(pods):
        return {COMPONENT: pods}
    parts = pods.split(",")
    if not all(map(_LABEL.fullmatch, parts)):
        raise WrongPartition(f"{pods[:80]!r} names no pods: give labels such as app=web, or worker, frontend, nats.")
    return dict(part.split("=", 1) for part in parts)


def labels_by_prefix(pods: Sequence[Obj], prefix: str) -> dict[str, str]:
    """Return the labels that the pods share whose names begin so, and no other pod has. Raises WrongPartition."""
    meant = [pod for pod in pods if pod["metadata"]["name"].startswith(prefix)]
    if not meant:
        raise WrongPartition(f"No pod's name begins with {prefix[:80]!r}.")
    shared = set.intersection(*({*(pod["metadata"].get("labels") or {}).items()} for pod in meant))
    labels = {key: value for key, value in sorted(shared) if key not in VOLATILE}
    hit = (pod["metadata"]["name"] for pod in pods if labels.items() <= (pod["metadata"].get("labels") or {}).items())
    if others := [name for name in hit if not name.startswith(prefix)]:
        raise WrongPartition(f"The labels of the pods {prefix}… select {others[0]} as well: name the pods by labels.")
    return labels


def policies(
    *,
    name: str,
    namespace: str,
    partition: str,
    source: Mapping[str, str],
    target: Mapping[str, str],
    more: Mapping[str, Any],
    blocks: Blocks,
    tenants: Sequence[str],
    labelled: bool,
) -> list[Obj]:
    """Return the policies that make a partition. ``labelled``: they say what they are, for whoever looks.

    ``blocks`` are around the pods of ``source``, in place of what the partition's name says. ``more`` are the fields
    ``ports``, ``block`` and ``dns`` of the engine's step. ``tenants`` are the namespaces that the session's isolation
    opens to each other, where there is one. Raises WrongPartition.
    """
    specs = [{"partition": partition, "source": source, **more}]
    if partition in BETWEEN and partition != "worker_worker":
        specs[0]["target"] = target
    if not blocks.is_empty:
        specs = [*_blocked(source, blocks)]
    elif blocks.ports:
        specs[0]["ports"] = [*blocks.ports]
    names = [name if number == 1 else f"{name}-{number}" for number in range(1, len(specs) + 1)]
    pairs = zip(names, specs, strict=True)
    common = {"namespace": namespace, **({TENANTS: tenants} if tenants else {})}
    return [_made({**common, "name": each, **spec}, blocks, labelled) for each, spec in pairs]


def parted(policies: Sequence[Obj], tenants: Sequence[str]) -> Partition:
    """Return what makes the policies close pods that the session's isolation opens. Raises WrongPartition."""
    try:
        return isolation.parted(policies, tenants)
    except ManyLabels as exc:
        raise WrongPartition(str(exc)) from exc


def _blocked(pods: Mapping[str, str], blocks: Blocks) -> Iterator[Obj]:
    """Yield the engine's steps that close what ``blocks`` names around some pods."""
    ports = {"ports": [*blocks.ports]} if blocks.ports else {}
    for others in [*([NATS] if blocks.nats else []), *blocks.pods]:
        yield {"partition": "worker_nats", "source": pods, "target": others, **ports}
    if blocks.all_egress:
        yield {"partition": CUSTOM, "source": pods, "block": "egress", "dns": False}
    if blocks.ingress:
        yield {"partition": CUSTOM, "source": pods, "block": "ingress"}


def _made(spec: Obj, blocks: Blocks, labelled: bool) -> Obj:
    kind = Network()
    try:
        kind.check(spec)
    except StepError as exc:
        raise WrongPartition(f"{exc.where}: {exc}") from exc
    made = policy(spec)
    if blocks.open_namespaces and spec["partition"] == CUSTOM:
        _refuse_beyond(spec, blocks.open_namespaces)
        _open(made["spec"], blocks.open_namespaces)
    if labelled:
        made["metadata"]["labels"] = dict(LABELLED)
    return made


def _refuse_beyond(spec: Obj, namespaces: Sequence[str]) -> None:
    """Refuse namespaces that a session's isolation keeps out. Raises WrongPartition."""
    tenants = spec.get(TENANTS, namespaces)
    if beyond := sorted({*namespaces} - {*tenants}):
        raise WrongPartition(
            f"{beyond[0]} stays closed to {spec['namespace']}, which may talk with {', '.join(tenants)}."
        )


def _open(closed: Obj, namespaces: Sequence[str]) -> None:
    """Let a closed policy's pods talk with those of some namespaces."""
    peers = [isolation.among(namespaces)]
    for kind, rules, side in (("Egress", "egress", "to"), ("Ingress", "ingress", "from")):
        if kind in closed["policyTypes"]:
            closed[rules] = [*closed.get(rules, []), {side: peers}]


def step(made: Obj) -> Obj:
    """Return the engine's step that creates an object, and whose undo deletes exactly this one."""
    return {"kind": "manifest", "spec": {"objects": [made]}}


def last_step(part: Partition) -> Obj:
    """Return the engine's step that takes the opening of all pods out of the isolation; its undo restores it."""
    spec = {"target": part.target.dump(), "type": "json", "patch": [*part.operations]}
    return {"kind": "patch", "spec": spec}
