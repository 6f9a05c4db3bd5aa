"""Workloads whose pods can be given CUDA faults: where each kind describes them, and how they are replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.kube_client import JOB, Kind, Kube, KubeError
from helpers.pod_changes import CudaFault, Part, apply, undo

Obj = dict[str, Any]
ANNOTATION = "cuda-fault-injection/original"
"""On a changed object: what was there before, so that whoever cleans up needs nothing else."""
DEPLOYMENT = Kind("apps/v1", "deployments", "Deployment")
STATEFUL_SET = Kind("apps/v1", "statefulsets", "StatefulSet")
GRAPH = Kind("nvidia.com/v1alpha1", "dynamographdeployments", "DynamoGraphDeployment")
STRATEGY_OF_SERVICE = "nvidia.com/deployment-strategy"
"""An annotation by which Dynamo's operator chooses the strategy of a service's Deployment."""
WORKER_TYPES = {"worker", "prefill", "decode"}
GPU = "nvidia.com/gpu"


class UnsuitableError(Exception):
    """A workload that cannot be given the fault; the message says why."""


@dataclass(frozen=True)
class Workload:
    """A kind of workload. ``strategy`` holds what decides how pods are replaced: a holder, its key, our value."""

    kind: Kind
    parts: Callable[[Obj], dict[str, Part]]
    selector: Callable[[Obj], str]
    strategy: Callable[[Obj], dict[str, tuple[Obj, str, Any]]]
    replaces_pods: bool = True
    """Its controller deletes pods of the former template by itself."""

    def with_fault(self, found: Obj, fault: CudaFault) -> Obj:
        """Return an object with the fault in its template, and the record; one that has a fault gets another."""
        strategy = (record_of(found) or {}).get("strategy")
        self._undo_parts(found)
        parts = self.parts(found)
        if not parts:
            raise UnsuitableError(f"{found['kind']} {found['metadata']['name']} has no service of workers.")
        record: Obj = {"parts": {key: apply(part, fault) for key, part in parts.items()}}
        record["fault"] = {"xid": fault.xid, "hostname": fault.hostname, "enabled": fault.is_enabled}
        record["strategy"] = self._take_strategy(found) if strategy is None else strategy
        found["metadata"].setdefault("annotations", {})[ANNOTATION] = json.dumps(record)
        return found

    def without_fault(self, found: Obj) -> Obj:
        """Return an object with its own template. Its strategy comes last, when its pods have been replaced."""
        record = record_of(found)
        self._undo_parts(found)
        if record is not None:
            left = {"strategy": record["strategy"]}
            found["metadata"]["annotations"][ANNOTATION] = json.dumps(left)
        return found

    def with_own_strategy(self, found: Obj) -> Obj:
        """Return an object with its own strategy, and without the record."""
        record = record_of(found)
        if record is None:
            return found
        for key, (holder, name, ours) in self.strategy(found).items():
            if holder.get(name) == ours and key in record["strategy"]:
                _put_back(holder, name, record["strategy"][key])
        for holder, name in self._emptied(found):
            if not holder.get(name):
                holder.pop(name, None)
        return found

    def _emptied(self, found: Obj) -> list[tuple[Obj, str]]:
        """Take the record off; return what may be empty now and was not there before."""
        del found["metadata"]["annotations"][ANNOTATION]
        services = [service for _, service in services_of(found)] if self.kind is GRAPH else []
        return [(found["metadata"], "annotations"), *((service, "annotations") for service in services)]

    def _take_strategy(self, found: Obj) -> Obj:
        before = {key: holder.get(name) for key, (holder, name, _) in self.strategy(found).items()}
        for holder, name, ours in self.strategy(found).values():
            holder[name] = ours
        return before

    def _undo_parts(self, found: Obj) -> None:
        known = (record_of(found) or {}).get("parts") or {}
        for key, part in self.parts(found).items():
            undo(part, known.get(key))
        if self.kind is GRAPH:
            _drop_empty(found)


def record_of(found: Obj) -> Obj | None:
    """Return the record of a changed object; None for one that has none."""
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION)
    record: Obj | None = json.loads(text) if text else None
    return record


def find(kube: Kube, namespace: str, name: str) -> tuple[Workload, Obj] | None:
    """Return the workload of a name: Dynamo's, or the first of a Deployment, a StatefulSet and a Job."""
    for workload in WORKLOADS:
        if found := kube.find(workload.kind, namespace, name):
            return workload, found
    return None


def changed(kube: Kube, namespace: str) -> list[str]:
    """Return the names of the namespace's workloads whose pods still get the library."""
    names = []
    for workload in WORKLOADS:
        for found in _listed(kube, workload.kind, namespace):
            if "parts" in (record_of(found) or {}):
                names.append(str(found["metadata"]["name"]))
    return names


def _listed(kube: Kube, kind: Kind, namespace: str) -> list[Obj]:
    try:
        return list(kube.list(kind, namespace).get("items") or [])
    except KubeError as exc:
        if exc.status == 404:  # a cluster without Dynamo
            return []
        raise


def services_of(found: Obj) -> list[tuple[str, Obj]]:
    """Return the services of a graph that are workers: these use CUDA, frontends, planners and routers do not."""
    services = (found["spec"].get("services") or {}).items()
    return [(name, service) for name, service in services if _is_worker(name, service)]


def _is_worker(name: str, service: Obj) -> bool:
    if kind := service.get("componentType"):
        return str(kind) in WORKER_TYPES
    return bool(((service.get("resources") or {}).get("limits") or {}).get("gpu")) or "worker" in name.lower()


def _graph_parts(found: Obj) -> dict[str, Part]:
    return {name: _service_part(found, service) for name, service in services_of(found)}


def _service_part(found: Obj, service: Obj) -> Part:
    pod = service.setdefault("extraPodSpec", {})
    inherited = (*(service.get("envs") or ()), *(found["spec"].get("envs") or ()))
    return Part(pod, [pod.setdefault("mainContainer", {})], inherited)


def _drop_empty(found: Obj) -> None:
    """Take away what was only made to hold the changes."""
    for _, service in services_of(found):
        pod = service.get("extraPodSpec") or {}
        if pod.get("mainContainer") == {}:
            del pod["mainContainer"]
        if not pod:
            service.pop("extraPodSpec", None)


def _graph_selector(found: Obj) -> str:
    name = found["metadata"]["name"]
    return (
        f"nvidia.com/dynamo-graph-deployment-name={name},nvidia.com/dynamo-component-type in (worker,prefill,decode)"
    )


def _graph_strategy(found: Obj) -> dict[str, tuple[Obj, str, Any]]:
    """All workers change at once: by the operator's annotation, and by the field that some of its versions know."""
    services = {name: (_annotations(each), STRATEGY_OF_SERVICE, "Recreate") for name, each in services_of(found)}
    at_once = {"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}
    return services | {".spec": (found["spec"], "updateStrategy", at_once)}


def _annotations(service: Obj) -> Obj:
    holder: Obj = service.get("annotations") or {}
    service["annotations"] = holder
    return holder


def _template_parts(found: Obj) -> dict[str, Part]:
    pod = found["spec"]["template"]["spec"]
    with_gpu = [row for row in pod["containers"] if GPU in ((row.get("resources") or {}).get("limits") or {})]
    return {"template": Part(pod, with_gpu or pod["containers"][:1])}


def _selector(found: Obj) -> str:
    selector = found["spec"].get("selector") or {}
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return ",".join([*parts, *(_expression(row) for row in selector.get("matchExpressions") or [])])


def _expression(row: Obj) -> str:
    values = f"({','.join(row.get('values') or [])})"
    forms = {"In": f"{row['key']} in {values}", "NotIn": f"{row['key']} notin {values}", "Exists": row["key"]}
    return str(forms.get(row["operator"], f"!{row['key']}"))


def _put_back(holder: Obj, name: str, value: Any) -> None:
    if value is None:
        holder.pop(name, None)
    else:
        holder[name] = value


WORKLOADS = (
    Workload(GRAPH, _graph_parts, _graph_selector, _graph_strategy),
    Workload(
        DEPLOYMENT, _template_parts, _selector, lambda found: {"": (found["spec"], "strategy", {"type": "Recreate"})}
    ),
    Workload(
        STATEFUL_SET,
        _template_parts,
        _selector,
        lambda found: {"": (found["spec"], "updateStrategy", {"type": "OnDelete"})},
        replaces_pods=False,
    ),
    Workload(JOB, _template_parts, _selector, lambda found: {}),
)
