"""Ages of what a practice cluster is born with, and what has happened to it before: its seed decides.

Its control plane is months old, addons came later, and each node joined on a day of its own, with its pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

import orjson

from kubesim.errors import Obj
from kubesim.kubelet.records import container_id
from kubesim.saved import key
from kubesim.times import parse, stamp

CLUSTER, ADDON, NODE = "cluster", "addon/", "node/"
CLUSTER_DAYS, NODE_DAYS, ADDON_SHARE = (45.0, 120.0), (1.5, 22.0), (0.55, 0.95)
"""An addon's share of the cluster's age leaves it older than every node, whose pods it has made."""
MAX_RESTARTS = 3
RESTART_S = 1.0
"""Between the end of a container and its next start."""
OWN = frozenset({"", "default", "kube-node-lease", "kube-public", "kube-system"})
"""The namespaces that are as old as the cluster."""
KIND_OF_POD = "pods"


class Ages:
    """Ages of a cluster's objects. A group is ``CLUSTER``, ``ADDON`` and a namespace, or ``NODE`` and a name."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def of(self, group: str) -> timedelta:
        """Return an age in whole seconds, always the same for a group."""
        cluster = Random(f"{self._seed}/{CLUSTER}").uniform(*CLUSTER_DAYS)
        chosen = Random(f"{self._seed}/{group}")
        if group.startswith(NODE):
            days = chosen.uniform(*NODE_DAYS)
        else:
            days = cluster * (chosen.uniform(*ADDON_SHARE) if group.startswith(ADDON) else 1)
        return timedelta(seconds=round(days * 86400))


def group_of(line: list[str], obj: Obj, nodes_of_pods: Mapping[str, str]) -> str:
    """Return with what a kept thing has come: ``line`` is its key, ``nodes_of_pods`` the node by a pod's uid."""
    if line[0] == "kubelet":
        kind, _, name = line[1].partition("/")
        return NODE + (nodes_of_pods.get(name, "") if kind in ("pod", "files") else name)
    if line[0] != "object":
        return CLUSTER
    _, table, namespace, name = line
    if table == KIND_OF_POD and obj["spec"].get("nodeName"):
        return NODE + str(obj["spec"]["nodeName"])
    if table in ("nodes", "csinodes.storage.k8s.io") or namespace == "kube-node-lease" and "leases" in table:
        return NODE + name
    if table == "namespaces" and name not in OWN:
        return ADDON + name
    return CLUSTER if namespace in OWN else ADDON + namespace


def restart_some(state: dict[bytes, bytes], seed: str, now: datetime) -> None:
    """Let a few containers have failed once, long ago, and started again."""
    chosen = Random(f"{seed}/restarts")
    pods = sorted(name for name in state if name.startswith(b'["object","pods"'))
    for name in chosen.sample(pods, min(chosen.randrange(1, MAX_RESTARTS + 1), len(pods))):
        pod = orjson.loads(state[name])
        kept = key("kubelet", f"pod/{pod['metadata']['uid']}")
        if kept in state and "running" in pod["status"]["containerStatuses"][0]["state"]:
            record = orjson.loads(state[kept])
            began = parse(pod["status"]["startTime"])
            at = now - timedelta(seconds=round((now - began).total_seconds() * chosen.uniform(0.1, 0.8)))
            _restart(pod, record["containers"], at)
            state[name], state[kept] = orjson.dumps(pod), orjson.dumps(record)


def _restart(pod: Obj, records: list[dict[str, Any]], at: datetime) -> None:
    """Let the first container of a pod have ended, and started again by ``at``."""
    status = pod["status"]["containerStatuses"][0]
    record = next(each for each in records if each["name"] == status["name"])
    ended, number = at - timedelta(seconds=RESTART_S), record["restarts"] + 1
    fresh = container_id(pod["metadata"]["uid"], status["name"], number)
    record["previous"] = record["instance"] | {"finished_at": ended, "exit_code": 1, "reason": "Error"}
    record["instance"] = record["instance"] | {"id": fresh, "started_at": at}
    record |= {"restarts": number, "since": at}
    times = {"startedAt": status["state"]["running"]["startedAt"], "finishedAt": stamp(ended)}
    last = {"containerID": status["containerID"], "exitCode": 1, "reason": "Error", **times}
    status |= {"restartCount": number, "containerID": f"containerd://{fresh}", "lastState": {"terminated": last}}
    status["state"]["running"]["startedAt"] = stamp(at)
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["lastTransitionTime"] = stamp(at)
