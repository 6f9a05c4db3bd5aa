"""Checks of the CUDA fault library, which programs preload: the troubleshooting of the user guide, made by us.

The names of its parts are those of the guide. A workload has the library while its pods' template does; a pod has it
once it is younger than that change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from faults import clock
from faults.check_results import FaultCheck, Outcome
from faults.errors import ClusterError
from faults.kube.client import Kube
from faults.network_faults import COMPONENT
from faults.nvsentinel.watched import parse_time

CONFIG_MAP, COMPILER, FOLDER = "cuda-fault-injection-lib", "compile-cuda-fault-lib", "/cuda-fault"
PRELOAD, XID, ENABLED = "LD_PRELOAD", "CUDA_XID_TYPE", "CUDA_FAULT_INJECTION_ENABLED"
WORKLOADS = (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"))
GRACE = timedelta(seconds=60)
"""For so long a pod may take to end, beyond its own time, before somebody has to help."""
LOOK = f"env | grep -E 'LD_PRELOAD|CUDA'; ls {FOLDER}; ldd /usr/bin/python3 | grep fake"
Obj = dict[str, Any]


def cuda_checks(kube: Kube, xid: int) -> Iterator[FaultCheck]:
    """Yield what is to be said of the library; one check where nobody has it. Raises ClusterError."""
    pods = kube.list("v1", "Pod")
    maps = kube.list("v1", "ConfigMap", field_selector=f"metadata.name={CONFIG_MAP}")
    loaded, workloads = [pod for pod in pods if _preloads(pod["spec"])], [*_patched(kube)]
    if not (maps or loaded or workloads):
        command = f"kubectl get configmaps -A --field-selector metadata.name={CONFIG_MAP}"
        why = "No pod preloads the CUDA fault library: only the node's agent makes programs fail."
        yield FaultCheck("The CUDA fault library", command, Outcome.NOTE, why)
        return
    for pod in loaded[:4]:
        yield _compiled(kube, pod)
        yield _variables(pod, xid)
        if _is_running(pod):
            yield _inside(kube, pod)
    yield from _unused(pods, workloads, loaded)
    yield from _leftovers(pods, maps, workloads, loaded)


def _compiled(kube: Kube, pod: Obj) -> FaultCheck:
    place, states = _place(pod), (pod.get("status") or {}).get("initContainerStatuses") or ()
    title, command = f"The library is compiled in {place[1]}", f"kubectl logs -n {place[0]} {place[1]} -c {COMPILER}"
    mine = next((state for state in states if state["name"] == COMPILER), None)
    ended = ((mine or {}).get("state") or {}).get("terminated")
    if mine is None:
        why = f"The pod has no init container {COMPILER}: it preloads a library that something else provides."
        return FaultCheck(title, command, Outcome.NOTE, why)
    if ended and ended.get("exitCode") == 0:
        return FaultCheck(title, command, Outcome.EXPECTED, "")
    why = "It is not compiled yet." if ended is None else f"The compiler has ended with {ended.get('exitCode')}."
    why += " Its image is gcc:latest, which the node must be able to pull." if ended is None else ""
    return FaultCheck(title, command, Outcome.UNEXPECTED, why, tuple(_log(kube, place)))


def _log(kube: Kube, place: tuple[str, str]) -> list[str]:
    try:
        return kube.logs(*place, container=COMPILER, tail_lines=8).splitlines()
    except ClusterError as exc:
        return [f"no log: {exc}"]


def _variables(pod: Obj, xid: int) -> FaultCheck:
    namespace, name = _place(pod)
    found = _environment(pod["spec"])
    title, command = f"The variables are set in {name}", f"kubectl exec -n {namespace} {name} -- env | grep CUDA"
    lines = tuple(f"{key}={found[key]}" for key in (PRELOAD, ENABLED, XID) if key in found)
    if found.get(ENABLED) != "1":
        why = f"{ENABLED} is not 1: the library passes everything on, unless the node's own switch says otherwise."
        return FaultCheck(title, command, Outcome.UNEXPECTED, why, lines)
    if xid and found.get(XID) != str(xid):
        why = f"Programs fail as for Xid {found.get(XID, 'unknown')}, the node for Xid {xid}: the two do not fit."
        return FaultCheck(title, command, Outcome.UNEXPECTED, why, lines)
    return FaultCheck(title, command, Outcome.EXPECTED, "", lines)


def _inside(kube: Kube, pod: Obj) -> FaultCheck:
    """Look into a pod that runs: the file has to be there, and the loader has to take it."""
    namespace, name = _place(pod)
    title, command = f"Programs in {name} load it", f"kubectl exec -n {namespace} {name} -- sh -c '{LOOK}'"
    library = _library(pod["spec"])
    try:
        lines = tuple(kube.run_command(namespace, name, "", ["sh", "-c", LOOK])[1].splitlines())
    except ClusterError as exc:
        return FaultCheck(title, command, Outcome.ERROR, f"Could not be run: {exc}")
    if library not in lines:
        why = f"{FOLDER} has no {library}: the volume is empty, since it was not compiled there."
        return FaultCheck(title, command, Outcome.UNEXPECTED, why, lines)
    if not any(f"{FOLDER}/{library}" in line and "=" not in line.split("=>")[0] for line in lines):
        why = "The file is there; whether programs load it, ldd could not tell: the image has no /usr/bin/python3."
        return FaultCheck(title, command, Outcome.NOTE, why, lines)
    return FaultCheck(title, command, Outcome.EXPECTED, "", lines)


def _unused(pods: Sequence[Obj], workloads: Sequence[Obj], loaded: Sequence[Obj]) -> Iterator[FaultCheck]:
    """Yield for which reason pods do not crash that are meant to."""
    for workload in workloads:
        old = [pod for pod in _pods_of(pods, workload) if not _preloads(pod["spec"])]
        if old:
            namespace, name = _place(old[0])
            why = f"{len(old)} pods are older than the change: they load the library once they start anew."
            command = f"kubectl delete pod -n {namespace} {name}"
            title = f"Pods of {workload['metadata']['name']} have been restarted"
            yield FaultCheck(title, command, Outcome.UNEXPECTED, why, tuple(map(_line, old)))
    idle = [pod for pod in loaded if _labels(pod).get(COMPONENT, "worker") != "worker"]
    if idle:
        why = "Only workers use CUDA: frontend, planner and router go on."
        command = f"kubectl get pods -A -l {COMPONENT}=worker"
        yield FaultCheck("Pods that use no CUDA", command, Outcome.NOTE, why, tuple(map(_line, idle)))


def _leftovers(
    pods: Sequence[Obj], maps: Sequence[Obj], workloads: Sequence[Obj], loaded: Sequence[Obj]
) -> Iterator[FaultCheck]:
    """Yield what a clean-up has left, or does not get done."""
    used = {_place(one)[0] for one in (*workloads, *loaded)}
    for left in [one for one in maps if _place(one)[0] not in used]:
        command = f"kubectl delete configmap {CONFIG_MAP} -n {_place(left)[0]}"
        why = "The library's source is left, and no workload preloads it."
        yield FaultCheck(
            "The clean-up is complete", command, Outcome.UNEXPECTED, why, (f"{_place(left)[0]}/{CONFIG_MAP}",)
        )
    stuck = [pod for pod in pods if _is_stuck(pod)]
    if stuck:
        namespace, name = _place(stuck[0])
        command = f"kubectl delete pod -n {namespace} {name} --force --grace-period=0"
        why = "Pods are stuck terminating: their node does not answer, or a finalizer holds them."
        yield FaultCheck("Pods end when they are deleted", command, Outcome.UNEXPECTED, why, tuple(map(_line, stuck)))
    for workload in workloads:
        if why := _lag(workload):
            namespace, name = _place(workload)
            command = f"kubectl rollout status -n {namespace} {workload['kind'].lower()}/{name} --timeout=10s"
            yield FaultCheck(f"{name} takes its new form", command, Outcome.UNEXPECTED, why)


def _lag(workload: Obj) -> str:
    """Return for which reason a workload is not what its spec says yet; empty where it is."""
    status, spec = workload.get("status") or {}, workload["spec"]
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return "Its controller has not seen the change yet: look at it, and at conflicts in the API's log (grep 409)."
    if spec.get("paused"):
        return "It is paused: no pod is replaced until it is resumed."
    if status.get("updatedReplicas", 0) < spec.get("replicas", 1):
        return f"{status.get('updatedReplicas', 0)} of {spec.get('replicas', 1)} pods are of the new form."
    return ""


def _patched(kube: Kube) -> Iterator[Obj]:
    for version, kind in WORKLOADS:
        for one in kube.list(version, kind):
            if _preloads(one["spec"]["template"]["spec"]):
                yield {"kind": kind, **one}


def _pods_of(pods: Sequence[Obj], workload: Obj) -> list[Obj]:
    wanted = (workload["spec"].get("selector") or {}).get("matchLabels") or {}
    mine = [pod for pod in pods if _place(pod)[0] == _place(workload)[0]]
    return [pod for pod in mine if wanted and wanted.items() <= _labels(pod).items()]


def _preloads(spec: Obj) -> bool:
    return bool(_library(spec))


def _library(spec: Obj) -> str:
    """Return the file that is preloaded, beside those of others; empty where it is not."""
    loaded = _environment(spec).get(PRELOAD, "").replace(":", " ").split()
    return next((path.removeprefix(f"{FOLDER}/") for path in loaded if path.startswith(f"{FOLDER}/")), "")


def _environment(spec: Obj) -> dict[str, str]:
    containers = spec.get("containers") or ()
    return {one["name"]: str(one.get("value", "")) for each in containers for one in each.get("env") or ()}


def _is_running(pod: Obj) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"))


def _is_stuck(pod: Obj) -> bool:
    """Return whether a pod should have gone; the API's deletionTimestamp is the end of its own time."""
    due = parse_time(pod["metadata"].get("deletionTimestamp"))
    return due is not None and clock.now() - due > GRACE


def _labels(obj: Obj) -> Obj:
    return dict(obj["metadata"].get("labels") or {})


def _place(obj: Obj) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _line(pod: Obj) -> str:
    return f"{'/'.join(_place(pod))}: {(pod.get('status') or {}).get('phase', 'Unknown')}"
