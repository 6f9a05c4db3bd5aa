"""Network faults of the API: partitions between pods of one namespace, by a NetworkPolicy.

Pods are named by labels, or by the word that Dynamo has for them: ``worker`` is every pod that is one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from faults.engine.ports import Obj
from faults.injectors import StepError
from faults.injectors.network import BETWEEN, CUSTOM, Network

PARTITIONS = (*BETWEEN, CUSTOM)
COMPONENT = "nvidia.com/dynamo-component-type"
NATS = {"app.kubernetes.io/name": "nats"}
LABELLED = {"managed-by": "fault-injection-api", "fault-type": "network-partition"}
_LABEL = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,200}=[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_WORD = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


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


def policy(
    *, name: str, namespace: str, partition: str, source: str, target: str, more: Mapping[str, Any], labelled: bool
) -> Obj:
    """Return the policy that makes a partition. ``labelled``: it says what it is, for whoever looks.

    ``more`` are the fields ``ports``, ``block`` and ``dns`` of the engine's step. Raises WrongPartition.
    """
    spec: Obj = {"namespace": namespace, "name": name, "partition": partition, "source": labels_of(source), **more}
    if partition in BETWEEN and partition != "worker_worker":
        spec["target"] = labels_of(target)
    kind = Network()
    try:
        kind.check(spec)
    except StepError as exc:
        raise WrongPartition(f"{exc.where}: {exc}") from exc
    made: Obj = kind.changes(spec)[0].object
    if labelled:
        made["metadata"]["labels"] = dict(LABELLED)
    return made


def step(made: Obj) -> Obj:
    """Return the engine's step that creates a policy, and whose undo deletes exactly this one."""
    return {"kind": "manifest", "spec": {"objects": [made]}}
