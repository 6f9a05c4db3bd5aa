"""Jobs: their template cannot be changed, so that the Job is made anew with the fault, and later as it was.

The owner's Job is kept in a ConfigMap before anything is deleted: whoever cleans up after a crash finds it there.
"""

from __future__ import annotations

import copy
import json
import time
from typing import Any

from helpers.kube_client import CONFIG_MAP, JOB, Kube, KubeError
from helpers.pod_changes import CudaFault
from helpers.workloads import UnsuitableError, Workload, record_of

Obj = dict[str, Any]
KEY = "job.json"
LABELS = {"app.kubernetes.io/managed-by": "cuda-fault-injection"}
OF_CONTROLLER = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
OF_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def begin(kube: Kube, workload: Workload, found: Obj, fault: CudaFault, seconds: float) -> None:
    """Run a Job with the fault instead of the owner's."""
    namespace, name = found["metadata"]["namespace"], found["metadata"]["name"]
    kept = _kept(kube, namespace, name)
    if kept is None:
        _require_running(found)
        kept = bare(found)
        body = {"metadata": {"name": kept_name(name), "labels": LABELS}, "data": {KEY: json.dumps(kept)}}
        kube.create(CONFIG_MAP, namespace, body)
    _exchange(kube, namespace, workload.with_fault(copy.deepcopy(kept), fault), seconds)


def end(kube: Kube, namespace: str, name: str, seconds: float) -> bool:
    """Run the owner's Job again, if ours runs instead of it, or none; return whether there was anything to do."""
    kept = _kept(kube, namespace, name)
    if kept is None:
        return False
    found = kube.find(JOB, namespace, name)
    if found is None or record_of(found) is not None:
        _exchange(kube, namespace, kept, seconds)
    kube.delete(CONFIG_MAP, namespace, kept_name(name))
    return True


def kept_name(name: str) -> str:
    """Return the name of the ConfigMap that keeps a Job."""
    return f"cuda-fault-injection-job-{name}"


def bare(found: Obj) -> Obj:
    """Return a Job as its owner wrote it: without what the API server and the controller put there."""
    job = copy.deepcopy(found)
    job.pop("status", None)
    for key in OF_SERVER:
        job["metadata"].pop(key, None)
    if not job["spec"].get("manualSelector"):
        job["spec"].pop("selector", None)
        for labels in (job["metadata"].get("labels"), (job["spec"]["template"].get("metadata") or {}).get("labels")):
            for key in OF_CONTROLLER:
                (labels or {}).pop(key, None)
    return job


def _require_running(found: Obj) -> None:
    for row in (found.get("status") or {}).get("conditions") or []:
        if row["type"] in ("Complete", "Failed") and row["status"] == "True":
            name = found["metadata"]["name"]
            raise UnsuitableError(f"The Job {name} has ended: with a fault it would run again. Create it anew first.")


def _kept(kube: Kube, namespace: str, name: str) -> Obj | None:
    found = kube.find(CONFIG_MAP, namespace, kept_name(name))
    kept: Obj | None = json.loads(found["data"][KEY]) if found else None
    return kept


def _exchange(kube: Kube, namespace: str, job: Obj, seconds: float) -> None:
    """Delete the Job of this name with its pods, wait until it is gone, and create another."""
    name = job["metadata"]["name"]
    end = time.monotonic() + seconds
    kube.delete(JOB, namespace, name, propagationPolicy="Foreground")
    while (left := end - time.monotonic()) > 0 and kube.find(JOB, namespace, name) is not None:
        _await_deletion(kube, namespace, name, left)
    if kube.find(JOB, namespace, name) is not None:
        raise KubeError(0, f"The Job {name} was not deleted within {seconds:.0f} s; its pods may be stuck.")
    kube.create(JOB, namespace, job)


def _await_deletion(kube: Kube, namespace: str, name: str, seconds: float) -> None:
    is_there = False
    for event, found in kube.watch(JOB, namespace, seconds, fieldSelector=f"metadata.name={name}"):
        is_there = is_there or event == "ADDED" and bool(found)
        if event == "DELETED" or event == "SYNCED" and not is_there:
            return
