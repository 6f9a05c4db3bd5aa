"""The APIServices of what a cluster serves itself; priorities were read from a fresh control plane."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kubesim.conditions import Verdict, renewed
from kubesim.errors import Obj
from kubesim.schema.registry import Registry

RESOURCE = "apiservices.apiregistration.k8s.io"
PRIORITIES = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
    "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
    "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
    "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
}  # fmt: skip
VERSION_PRIORITIES = {("", "v1"): 1, ("autoscaling", "v2"): 30, ("flowcontrol.apiserver.k8s.io", "v1"): 21,
                      ("resource.k8s.io", "v1"): 21}  # fmt: skip
USUAL = 15
AUTOMANAGED = {"kube-aggregator.kubernetes.io/automanaged": "true"}
CUSTOM_PRIORITIES = {"groupPriorityMinimum": 1000, "versionPriority": 100}
"""What a group of CustomResourceDefinitions gets."""
LOCAL: Verdict = ("True", "Local", "Local APIServices are always available")
LABELS = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}


def objects(registry: Registry, now: datetime) -> Iterator[Obj]:
    """Yield an APIService, with its status, for each version of each group that is served."""
    for group, version in dict.fromkeys((kind.group, kind.version) for kind in registry.all()):
        if group in PRIORITIES:
            yield _object(group, version, now)


def custom(group: str, version: str) -> Obj:
    """Return the APIService of a version of a custom group."""
    return _service(group, version, AUTOMANAGED, CUSTOM_PRIORITIES)


def _object(group: str, version: str, now: datetime) -> Obj:
    available = renewed({}, "Available", LOCAL, now)
    priority = VERSION_PRIORITIES.get((group, version), USUAL)
    priorities = {"groupPriorityMinimum": PRIORITIES[group], "versionPriority": priority}
    return _service(group, version, LABELS, priorities) | {"status": {"conditions": [available]}}


def _service(group: str, version: str, labels: dict[str, str], priorities: dict[str, int]) -> Obj:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": labels},
        "spec": {**({"group": group} if group else {}), "version": version, **priorities},
    }
