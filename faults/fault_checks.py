"""Checks of an injected Xid: the commands by which people verify one, run by us, and what their answers mean.

They are those of the user guide of GPU fault injection, with its troubleshooting as the diagnoses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any

from faults.check_results import FaultCheck, Outcome
from faults.cuda_checks import cuda_checks
from faults.engine.node_agents import SESSION, find_agent
from faults.errors import ClusterError, NotFound
from faults.fault_preview import CUDA, GPU, HANG, OF_DEVICE, takes_gpu_away
from faults.gpu_reads import OPERATOR, gpu_facts, operator_pod
from faults.kube.client import Kube
from faults.nvsentinel.watched import MONITOR, NAMESPACE, RECORD_KIND, RECORD_VERSION, GpuFault, parse_time
from faults.xids import xids

MAX_LINES, MAX_LINE = 8, 300
NO_POD = "No pod of the GPU operator runs on the node, so that nobody can ask its driver."
Obj = dict[str, Any]
Check = Callable[[Kube, GpuFault, str], FaultCheck | Iterable[FaultCheck]]
SENSORS = "clocks.sm,temperature.gpu,memory.free,utilization.gpu,clocks_event_reasons.active"
SIGNS = {
    "throttle": "Its clocks are halved, and the active reasons have the bit 0x80 (power brake).",
    "overheat": "It gets hotter within a minute or two, and the active reasons have the bit 0x40 (thermal slowdown).",
    "memory_pressure": "Hardly any memory is free: programs that ask for more get CUDA's error 2, out of memory.",
    "compute_overload": "It is busy at 100 %: programs of others get a share of its time.",
}


def run_checks(kube: Kube, fault: GpuFault, name: str) -> list[FaultCheck]:
    """Run every check of a fault; ``name`` is what its agent calls it."""
    wanted = CHECKS if fault.xid else OF_TROUBLE
    found = [one for check in wanted for one in _run(check, kube, fault, name)]
    return [replace(one, lines=tuple(line[:MAX_LINE] for line in one.lines[-MAX_LINES:])) for one in found]


def _run(check: Check, kube: Kube, fault: GpuFault, name: str) -> list[FaultCheck]:
    try:
        found = check(kube, fault, name)
        return [found] if isinstance(found, FaultCheck) else [*found]
    except ClusterError as exc:
        title = str(check.__doc__).partition(".")[0]
        return [FaultCheck(title, "", Outcome.ERROR, f"Could not be run: {exc}")]


def _agent(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """The node's agent has the fault."""
    command = f"kubectl get pods -n {SESSION.namespace} -l app=node-agent -o wide"
    title, agent = "The node's agent has the fault", find_agent(kube, fault.node)
    if agent is None:
        why = "No agent runs on the node: nothing can be injected there, and what was ends with its lease."
        return FaultCheck(title, command, Outcome.UNEXPECTED, f"{why} Look at the pods' events.")
    known = {str(one["fault_id"]): one for one in agent.faults(kube)}
    if name in known:
        until = parse_time(known[name].get("expires_at"))
        ends = f"It ends by itself at {until.astimezone(UTC):%H:%M:%S} UTC." if until else ""
        return FaultCheck(title, command, Outcome.EXPECTED, ends, (f"{agent.pod}: {name}",))
    if fault.over_at is not None:
        return FaultCheck(title, command, Outcome.EXPECTED, "It was taken back, and the agent has let go of it.")
    why = (
        "The agent runs and has it no more: its time is over, or a reset, a reboot or somebody has repaired the GPU."
    )
    return FaultCheck(title, command, Outcome.UNEXPECTED, why)


def _gpu(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """The node has the GPU."""
    title, found = "The node has the GPU", _ask(kube, fault, "nvidia-smi -L")
    if found is None:
        return FaultCheck(title, "", Outcome.NOTE, NO_POD)
    command, lines = found
    if any(line.startswith(f"GPU {fault.gpu}:") for line in lines):
        return FaultCheck(title, command, Outcome.EXPECTED, "", lines)
    if xids()[fault.xid].nvml and fault.layers in OF_DEVICE and fault.over_at is None:
        return FaultCheck(title, command, Outcome.EXPECTED, "It is lost, as this Xid has it.", lines)
    return FaultCheck(title, command, Outcome.UNEXPECTED, f"nvidia-smi does not list GPU {fault.gpu}.", lines)


def _log(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """The kernel log has the Xid."""
    title, found = "The kernel log has the Xid", _ask(kube, fault, f'journalctl -k | grep "Xid.*{fault.xid}"')
    if found is None:
        return FaultCheck(title, "", Outcome.NOTE, NO_POD)
    command, lines = found
    logged = [line for line in lines if f": {fault.xid}," in line]
    shown = [line for line in logged if f"(PCI:{_bus(kube, fault)}" in line]
    if fault.layers == CUDA:
        return FaultCheck(title, command, Outcome.NOTE, "This fault is one of CUDA alone, and is not logged.", lines)
    if shown:
        return FaultCheck(title, command, Outcome.EXPECTED, "", tuple(shown))
    if logged:
        why = f"Only other GPUs of the node have logged this Xid: the line of GPU {fault.gpu} is missing."
        return FaultCheck(title, command, Outcome.UNEXPECTED, f"{why} Look at the agent's log.", tuple(logged))
    why = "The line is missing: the node has been rebooted since, its log was cleared, or the agent could not write."
    return FaultCheck(title, command, Outcome.UNEXPECTED, f"{why} Look at the agent's log.")


def _bus(kube: Kube, fault: GpuFault) -> str:
    """Return the GPU's address as the kernel's log has it, also of one that is lost; empty where nobody knows it."""
    if known := gpu_facts(kube, fault.node, fault.gpu).bus:
        return known
    _, lines = _ask(kube, fault, "nvidia-smi -L") or ("", ())
    lost = re.search(rf"handle for GPU ?{fault.gpu}: ?([0-9a-fA-F:]+)\.0:", "\n".join(lines))
    return lost[1].lower() if lost else ""


def _offer(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """The node offers one GPU less."""
    node = kube.get("v1", "Node", fault.node)
    offered, there = (int((node["status"].get(key) or {}).get(GPU, 0)) for key in ("allocatable", "capacity"))
    command = f"kubectl get node {fault.node} -o jsonpath='{{.status.allocatable.nvidia\\.com/gpu}}'"
    goes = fault.layers in OF_DEVICE and takes_gpu_away(xids()[fault.xid]) and fault.over_at is None
    title = "The node offers fewer GPUs" if goes else "The node offers its GPUs"
    lines = (f"{offered} of {there}",)
    if (offered < there) == goes:
        return FaultCheck(title, command, Outcome.EXPECTED, "", lines)
    if goes:
        why = "The device plugin has not marked the GPU: it does not run, ignores this Xid, or the GPU is well."
        return FaultCheck(title, command, Outcome.UNEXPECTED, why, lines)
    return FaultCheck(title, command, Outcome.NOTE, "Another fault of this node takes GPUs away.", lines)


def _users(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """Pods that use GPUs there."""
    pods = [pod for pod in kube.list("v1", "Pod", field_selector=f"spec.nodeName={fault.node}") if _uses_gpu(pod)]
    command = f"kubectl get pods -A --field-selector spec.nodeName={fault.node}"
    title = "Pods that use GPUs of the node"
    if not pods:
        why = "None: without a process on the GPU nothing crashes. Only pods that ask for GPUs use CUDA."
        return FaultCheck(title, command, Outcome.NOTE, why)
    if not fault.xid:
        why = "They go on, slower or short of memory."
        return FaultCheck(title, command, Outcome.NOTE, why, tuple(_pod_line(pod) for pod in pods))
    victims = {"all": "All processes on the GPU die of this Xid.", "one": "One process on the GPU dies of this Xid."}
    why = victims.get(xids()[fault.xid].victims, "No process dies of this Xid.")
    why = "Pods keep running: the fault is in the kernel log alone." if fault.layers == "log" else why
    why = "Processes on the GPU wait for it and never return." if fault.layers == HANG else why
    return FaultCheck(title, command, Outcome.NOTE, why, tuple(_pod_line(pod) for pod in pods))


def _monitor(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """NVSentinel's monitor has found it."""
    title = "NVSentinel's monitor has found it"
    command = f"kubectl logs -n {NAMESPACE} -l app={MONITOR} | grep -i xid"
    pods = kube.list("v1", "Pod", NAMESPACE)
    mine = [pod for pod in pods if MONITOR in pod["metadata"]["name"] and pod["spec"].get("nodeName") == fault.node]
    if not pods:
        return FaultCheck(title, f"kubectl get pods -n {NAMESPACE}", Outcome.NOTE, "NVSentinel is not installed.")
    if not mine:
        return FaultCheck(title, command, Outcome.UNEXPECTED, "No monitor runs on the node.")
    log = kube.logs(NAMESPACE, mine[0]["metadata"]["name"], tail_lines=200)
    lines = tuple(line for line in log.splitlines() if f"ErrorCode:{fault.xid} " in line)
    if lines:
        return FaultCheck(title, command, Outcome.EXPECTED, "", lines)
    why = "Not found. It reads the log every 30 s, and tells of the same line once only until the GPU is reset."
    return FaultCheck(title, command, Outcome.NOTE if fault.layers == CUDA else Outcome.UNEXPECTED, why)


def _quarantine(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """NVSentinel's marks on the node."""
    notes = kube.get("v1", "Node", fault.node)["metadata"].get("annotations") or {}
    lines = tuple(f"{key}={value}" for key, value in sorted(notes.items()) if "quarantine" in key)
    command = f"kubectl get node {fault.node} -o jsonpath='{{.metadata.annotations}}' | grep quarantine"
    cordons = xids()[fault.xid].sentinel.cordons
    why = "It is in quarantine." if lines else "It is not in quarantine."
    why += "" if cordons else f" Xid {fault.xid} needs none."
    return FaultCheck("NVSentinel's marks on the node", command, Outcome.NOTE, why, lines)


def _events(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """NVSentinel's health events."""
    title, command = "NVSentinel's health events", f"kubectl get healthevents -n {NAMESPACE}"
    try:
        found = kube.list(RECORD_VERSION, RECORD_KIND, NAMESPACE)
    except NotFound:
        why = "There are none to get: NVSentinel keeps its events in a database. The node's condition tells the same."
        return FaultCheck(title, command, Outcome.NOTE, why)
    mine = [one for one in found if one["spec"].get("nodeName") == fault.node]
    lines = tuple(_event_line(one) for one in mine)
    told = any(str(fault.xid) in (one["spec"].get("errorCode") or ()) for one in mine)
    if told or fault.layers == CUDA:
        return FaultCheck(title, command, Outcome.EXPECTED if told else Outcome.NOTE, "", lines)
    why = "None names this Xid: the monitor reads the log every 30 s, or has told of the same line before."
    return FaultCheck(title, command, Outcome.UNEXPECTED, why, lines)


def _event_line(event: Obj) -> str:
    spec, status = event["spec"], event.get("status") or {}
    codes = ",".join(spec.get("errorCode") or ()) or "healthy"
    marks = " ".join(f"{key}={value}" for key, value in sorted(status.items()))
    told = (spec.get("generatedTimestamp"), spec.get("checkName"), codes, spec.get("recommendedAction"), marks)
    return " ".join(str(one) for one in told if one)


def _cuda(kube: Kube, fault: GpuFault, name: str) -> Iterable[FaultCheck]:
    """The CUDA fault library."""
    return cuda_checks(kube, fault.xid)


def _sensors(kube: Kube, fault: GpuFault, name: str) -> FaultCheck:
    """What the GPU's sensors say."""
    title = "The GPU's sensors say so"
    found = _ask(kube, fault, f"nvidia-smi -i {fault.gpu} --query-gpu={SENSORS} --format=csv")
    if found is None:
        return FaultCheck(title, "", Outcome.NOTE, NO_POD)
    return FaultCheck(title, found[0], Outcome.NOTE, SIGNS.get(fault.effect, ""), found[1])


CHECKS: tuple[Check, ...] = (_agent, _gpu, _log, _offer, _users, _monitor, _quarantine, _events, _cuda)
OF_TROUBLE: tuple[Check, ...] = (_agent, _sensors, _users)
"""Those of what is wrong with a GPU without an Xid."""


def _ask(kube: Kube, fault: GpuFault, line: str) -> tuple[str, tuple[str, ...]] | None:
    """Run a line in a pod of the GPU operator on the node; return it as kubectl would run it, and what it wrote."""
    pod = operator_pod(kube, fault.node)
    if not pod:
        return None
    _, output = kube.run_command(OPERATOR, pod, "", ["sh", "-c", line])
    return f"kubectl exec -n {OPERATOR} {pod} -- {line}", tuple(output.splitlines())


def _uses_gpu(pod: Obj) -> bool:
    containers: Sequence[Obj] = pod["spec"].get("containers") or ()
    return any(GPU in ((one.get("resources") or {}).get("limits") or {}) for one in containers)


def _pod_line(pod: Obj) -> str:
    meta, states = pod["metadata"], (pod.get("status") or {}).get("containerStatuses") or ()
    restarts = sum(int(state.get("restartCount", 0)) for state in states)
    phase = (pod.get("status") or {}).get("phase", "Unknown")
    return f"{meta['namespace']}/{meta['name']}: {phase}, {restarts} restarts"
