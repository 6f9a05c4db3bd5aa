"""A node's journal: what its kernel, its services and systemd have said, made when somebody reads it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.gpu.xids import KERNEL, KernelLog
from kubesim.shell.hostside import BOOT_S, HostSide, Obj, digest
from kubesim.times import parse

INFO, NOTICE, WARNING, ERROR = 6, 5, 4, 3
SANE_S, DOWN_S = 5.0, 30.0
"""How often a kubelet asks its runtime how it is, and after how long without an answer it calls it down."""
MOST_CHECKS = 60
NO_SOCKET = (
    'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix '
    '/run/containerd/containerd.sock: connect: no such file or directory"'
)
"""What a client of the container runtime says that does not run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: when, by which program and process (0: the kernel's own), what, how urgent, of which unit."""

    at: datetime
    name: str
    pid: int
    text: str
    level: int = INFO
    unit: str = ""


async def entries(side: HostSide, wanted: Collection[str]) -> list[Entry]:
    """Return what some units have written, or all with the kernel where none is named; oldest first."""
    pods = await side.pods() if not wanted or {"kubelet", "containerd"} & {*wanted} else []
    found = [entry for name in side.units if not wanted or name in wanted for entry in _of_unit(side, name, pods)]
    log = side.devices.log
    return sorted(found if wanted or log is None else [*found, *kernel(log)], key=lambda entry: entry.at)


def kernel(log: KernelLog) -> Iterator[Entry]:
    """Yield the kernel's part; journald takes a leading ``word:`` of a user's line for a program's name."""
    for record in log.records():
        name, text = "kernel", record.text
        if record.facility != KERNEL:
            word, mark, rest = record.text.partition(": ")
            name, text = (word, rest) if mark and " " not in word else ("unknown", record.text)
        yield Entry(log.at(record), name, 0, text, record.level)


def _of_unit(side: HostSide, name: str, pods: list[Obj]) -> Iterator[Entry]:
    unit, lines = side.units[name], side.services.lines.get(name, ())
    if not any((at, text[:5]) == (side.booted, "Start") for at, _, _, text in lines):
        yield Entry(side.booted, "systemd", 1, f"Started {unit.description}.", INFO, name)
    for at, program, pid, text in lines:
        urgent = ERROR if text.startswith("Failed to") else WARNING if "Failed with result" in text else INFO
        yield Entry(at, program, pid, text, NOTICE if "Main process exited" in text else urgent, name)
    said = _kubelet_itself(side) if name == "kubelet" else []
    for pod in pods if name in ("kubelet", "containerd") else ():
        said += (_kubelet if name == "kubelet" else _runtime)(pod)
    since = side.services.of(name).since
    for at, text in said:
        pid = side.services.pid(name) if since is None or at >= since else unit.pid
        yield Entry(at, name, pid, text.replace(PID, f"{pid:>7}", 1), INFO, name)


PID = "\0"
"""Stands in a line for the number of the process that has written it."""


def klog(at: datetime, level: str, place: str, text: str) -> tuple[datetime, str]:
    """Return a line as Kubernetes' programs log it, with its time."""
    return at, f"{level}{at:%m%d %H:%M:%S.%f} {PID} {place}] {text}"


def _kubelet_itself(side: HostSide) -> list[tuple[datetime, str]]:
    """Return what the kubelet says when it starts, and of a container runtime that does not answer."""
    if not side.services.runs("kubelet"):
        return []
    since = side.services.of("kubelet").since or side.booted + timedelta(seconds=BOOT_S / 2)
    said = [
        (0.041, "server.go:529", '"Kubelet version" kubeletVersion="v1.34.4"'),
        (0.212, "kubelet.go:475", '"Attempting to sync node with API server"'),
        (0.364, "server.go:1262", '"Started kubelet"'),
        (0.391, "kubelet.go:2428", '"Starting kubelet main sync loop"'),
    ]
    found = [klog(since + timedelta(seconds=after), "I", place, text) for after, place, text in said]
    down, now = side.services.of("containerd").since, side.now()
    if side.services.runs("containerd") or down is None:
        return found
    count = int((now - max(down, since)).total_seconds() / SANE_S)
    for number in range(max(count - MOST_CHECKS, 0) + 1, count + 1):
        at = max(down, since) + timedelta(seconds=number * SANE_S)
        text = f'"Container runtime sanity check failed" err={json.dumps(NO_SOCKET)}'
        found.append(klog(at, "E", "kubelet.go:2997", text))
        if (at - down).total_seconds() >= DOWN_S:
            text = '"Skipping pod synchronization" err="container runtime is down"'
            found.append(klog(at, "E", "kubelet.go:2452", text))
    return found


def _inside(at: datetime, share: float, seed: str) -> datetime:
    """Return a moment within a second of which the API tells no more: some way into it, never twice the same."""
    return at + timedelta(seconds=share, microseconds=int(digest(seed)[:8], 16) % 89_999)


def _began(turn: Obj) -> str:
    """Return when a container's process began; nothing where it could not be started."""
    return "" if turn.get("reason") == "StartError" else str(turn.get("startedAt") or "")


def _statuses(pod: Obj) -> list[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _kubelet(pod: Obj) -> list[tuple[datetime, str]]:
    """Return what the kubelet says of a pod: that it has come, what it started, and why it cannot."""
    meta = pod["metadata"]
    name, uid = f"{meta['namespace']}/{meta['name']}", meta["uid"]
    at = _inside(parse((pod.get("status") or {}).get("startTime") or meta["creationTimestamp"]), 0.1, uid)
    added = f'"SyncLoop ADD" source="api" pods=["{name}"]'
    lines = [klog(at, "I", "kubelet.go:2515", added), *_evicted(pod, name)]
    for each in _statuses(pod):
        state = each.get("state") or {}
        ended, number = state.get("terminated") or {}, str(each.get("containerID", "")).rpartition("/")[2]
        begun = _began(state.get("running") or ended)
        for kind, turn, share in (("Started", begun, 0.5), ("Died", ended.get("finishedAt"), 0.7)) if number else ():
            if turn:
                event = f'event={{"ID":"{uid}","Type":"Container{kind}","Data":"{number}"}}'
                text = f'"SyncLoop (PLEG): event for pod" pod="{name}" {event}'
                lines.append(klog(_inside(parse(turn), share, number), "I", "kubelet.go:2546", text))
        if (waiting := state.get("waiting")) and waiting.get("message"):
            ended = (each.get("lastState") or {}).get("terminated") or {}
            then = _inside(parse(ended["finishedAt"]), 0.8, number) if ended.get("finishedAt") else at
            why = f'failed to "StartContainer" for "{each["name"]}" with {waiting["reason"]}: "{waiting["message"]}"'
            text = f'err={json.dumps(why)} pod="{name}" podUID="{uid}"'
            lines.append(klog(then, "E", "pod_workers.go:1324", f'"Error syncing pod, skipping" {text}'))
    return lines


def _evicted(pod: Obj, name: str) -> list[tuple[datetime, str]]:
    """Return what the kubelet says where it lets a pod go because its node is short of something."""
    conditions = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    found = conditions.get("DisruptionTarget") or {}
    resource = str(found.get("message", "")).partition("low on resource: ")[2].partition(". ")[0]
    if found.get("reason") != "TerminationByKubelet" or not resource:
        return []
    at = _inside(parse(found["lastTransitionTime"]), 0.3, name)
    said = [
        (376, f'"Eviction manager: attempting to reclaim" resourceName="{resource}"'),
        (387, f'"Eviction manager: must evict pod(s) to reclaim" resourceName="{resource}"'),
        (405, f'"Eviction manager: pods ranked for eviction" pods=["{name}"]'),
        (629, f'"Eviction manager: pod is evicted successfully" pod="{name}"'),
    ]
    return [klog(at, "I", f"eviction_manager.go:{line}", text) for line, text in said]


def _runtime(pod: Obj) -> list[tuple[datetime, str]]:
    """Return what the container runtime says of a pod."""
    meta, lines = pod["metadata"], []
    for each in _statuses(pod):
        state = each.get("state") or {}
        ident = str(each.get("containerID", "")).rpartition("/")[2]
        if start := _began(state.get("running") or state.get("terminated") or {}):
            pulled = digest(str(each.get("imageID")))
            image = f'PullImage \\"{each["image"]}\\" returns image reference \\"sha256:{pulled}\\"'
            begun = f'StartContainer for \\"{ident}\\" returns successfully'
            lines.append(_logfmt(_inside(parse(start), 0.3, ident), "info", image))
            lines.append(_logfmt(_inside(parse(start), 0.4, ident), "info", begun))
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff"):
            at = parse((pod.get("status") or {}).get("startTime") or meta["creationTimestamp"])
            message = str(waiting.get("message", ""))
            more = json.dumps(message.partition(": ErrImagePull: ")[2] or message)
            failed = f'PullImage \\"{each["image"]}\\" failed'
            lines.append(_logfmt(_inside(at, 0.4, meta["uid"]), "error", failed, f" error={more}"))
    return lines


def _logfmt(at: datetime, level: str, text: str, more: str = "") -> tuple[datetime, str]:
    """Return a line as containerd logs it, to the nanosecond."""
    return at, f'time="{at:%Y-%m-%dT%H:%M:%S.%f}{at.microsecond * 7 % 1000:03}Z" level={level} msg="{text}"{more}'
