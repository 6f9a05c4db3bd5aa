"""An independent picture of a cluster: kubectl's own listing of everything, reduced to what somebody meant."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

Obj = dict[str, Any]
# What the cluster writes about itself.
DERIVED = {
    "events",
    "leases",
    "endpoints",
    "endpointslices",
    "csinodes",
    "controllerrevisions",
    "replicasets",
    "pods",
}
DERIVED |= {"componentstatuses", "nodes.metrics.k8s.io", "pods.metrics.k8s.io", "certificatesigningrequests"}
META = ("name", "namespace", "labels", "annotations", "finalizers")


def dump(kubeconfig: Path) -> dict[str, str]:
    """Return kind, namespace and name of every object -> all of it that is not status."""
    kinds = _kubectl(kubeconfig, "api-resources", "--verbs=list", "-o", "name").split()
    wanted = [kind for kind in kinds if kind.split(".")[0] not in DERIVED and kind not in DERIVED]
    found = json.loads(
        _kubectl(kubeconfig, "get", ",".join(wanted), "-A", "-o", "json", "--ignore-not-found") or "{}"
    )
    return {_key(obj): _essence(obj) for obj in found.get("items", [])} | _pods(kubeconfig)


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the differences in words."""
    new = [f"{key} is new: {after[key][:300]}" for key in after.keys() - before.keys()]
    gone = [f"{key} has gone" for key in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    changed = [f"{key}: {before[key][:300]} -> {after[key][:300]}" for key in both if before[key] != after[key]]
    return sorted(new + gone + changed)


def _pods(kubeconfig: Path) -> dict[str, str]:
    """Return the namespaces with pods: their names are drawn anew whenever one is replaced."""
    pods = json.loads(_kubectl(kubeconfig, "get", "pods", "-A", "-o", "json"))["items"]
    return {f"pods in {pod['metadata']['namespace']}": "" for pod in pods}


def _key(obj: Obj) -> str:
    return f"{obj['kind']} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _essence(obj: Obj) -> str:
    meta = {key: obj["metadata"][key] for key in META if obj["metadata"].get(key)}
    if obj["kind"] == "Node":
        spec = obj.get("spec", {})
        annotations = {}  # kubelets keep theirs
        taints = [taint for taint in spec.get("taints", []) if not taint["key"].startswith("node.kubernetes.io/not-")]
        return json.dumps({**meta, "annotations": annotations, "taints": taints, "u": spec.get("unschedulable")})
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    return json.dumps({**rest, "metadata": meta}, sort_keys=True)


def _kubectl(kubeconfig: Path, *args: str) -> str:
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "--request-timeout=30s", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
