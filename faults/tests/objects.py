"""Hand-made Kubernetes objects and a reader over them, for tests of conditions."""

from __future__ import annotations

from typing import Any

from faults.errors import ClusterError, NotFound


class ObjectReader:
    """Reads from lists in memory; counts what it was asked."""

    def __init__(self, *objects: dict[str, Any], logs: dict[str, str] | None = None, error: str = "") -> None:
        self.objects = list(objects)
        self.texts = logs or {}
        self.error = error
        self.asked: list[str] = []

    def list(self, api_version, kind, namespace="", label_selector=""):
        self.asked.append(kind)
        if self.error:
            raise ClusterError(self.error)
        wanted = dict(pair.split("=", 1) for pair in label_selector.split(",") if pair)
        return [
            obj
            for obj in self.objects
            if (obj["apiVersion"], obj["kind"]) == (api_version, kind)
            and namespace in ("", obj["metadata"].get("namespace", ""))
            and wanted.items() <= obj["metadata"].get("labels", {}).items()
        ]

    def logs(self, namespace, pod, container="", previous=False, tail_lines=None):
        self.asked.append(f"log {pod}")
        if pod not in self.texts:
            raise NotFound(f'pods "{pod}" not found')
        return self.texts[pod]


def make_pod(
    name="nightly-train-x7k2p", *, waiting="", phase="Running", namespace="ml-training", job="nightly-train"
):
    """A pod of one container that has run at least once; ``waiting`` is the reason it waits for now."""
    ended = {"terminated": {"exitCode": 255 if waiting else 0, "reason": "Error" if waiting else "Completed"}}
    state = {"waiting": {"reason": waiting}} if waiting else ended
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"job-name": job}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "trainer", "image": "python:3.9-slim"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "trainer", "restartCount": 3, "state": state, "lastState": ended}],
        },
    }


def make_node(name="node-1", **spec):
    """A ready amd64 node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/arch": "amd64"}},
        "spec": spec,
        "status": {"nodeInfo": {"architecture": "amd64"}},
    }
