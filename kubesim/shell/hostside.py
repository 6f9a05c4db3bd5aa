"""A node as somebody sees it who has its root: its own processes, units, journal, and what its runtime runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kubesim.gpu.access import Access
from kubesim.shell.files import Directory, Files, View

Obj = dict[str, Any]
UNITS = {
    "kubelet": ("Kubernetes kubelet", "/etc/systemd/system/kubelet.service", 1834, "/usr/bin/kubelet --v=2 "
                "--config=/etc/kubernetes/kubelet-config.yaml --kubeconfig=/var/lib/kubelet/kubeconfig"),
    "containerd": ("containerd container runtime", "/lib/systemd/system/containerd.service", 1402,
                   "/usr/bin/containerd"),
    "nvidia-persistenced": ("NVIDIA Persistence Daemon", "/lib/systemd/system/nvidia-persistenced.service", 1190,
                            "/usr/bin/nvidia-persistenced --user nvpd"),
    "sshd": ("OpenBSD Secure Shell server", "/lib/systemd/system/ssh.service", 1288, "sshd: /usr/sbin/sshd -D"),
    "systemd-journald": ("Journal Service", "/lib/systemd/system/systemd-journald.service", 611,
                         "/usr/lib/systemd/systemd-journald"),
}  # fmt: skip
"""Unit -> description, file, process, command line."""
KERNEL_THREADS = ((2, "kthreadd"), (14, "ksoftirqd/0"), (15, "rcu_preempt"), (1077, "nvidia-modeset/"))
FIRST_POD_PID, OWN_PIDS = 4100, 60_000
BOOT_S = 35.0


@dataclass
class HostProcess:
    """A process of the node, in the shape in which ``ps`` knows those of a container."""

    pid: int
    parent: int
    argv: list[str]
    started: datetime
    view: View = field(default_factory=lambda: View(Files(Directory()), lambda: 0.0))
    terminal: None = None
    stopped: None = None

    @property
    def group(self) -> int:
        """Every one of them leads a group."""
        return self.pid

    @property
    def name(self) -> str:
        """The program's name."""
        return self.argv[0].rsplit("/", 1)[-1].strip("[]:") if self.argv else ""


@dataclass(frozen=True, slots=True)
class Ran:
    """One container that the runtime knows."""

    pod: Obj
    spec: Obj
    status: Obj
    state: str
    at: datetime

    @property
    def id(self) -> str:
        """Its id without the runtime's name."""
        return str(self.status.get("containerID", "")).rpartition("/")[2]

    @property
    def image(self) -> str:
        """The id of its image."""
        return digest(str(self.status.get("imageID") or self.status.get("image")))


@dataclass(frozen=True, slots=True)
class HostSide:
    """What a container with the node's root directory has of the node. ``ask`` reads from its kubelet over HTTP."""

    name: str
    root: Directory
    devices: Access
    booted: datetime
    ask: Callable[[str], Awaitable[tuple[int, bytes]]]

    async def pods(self) -> list[Obj]:
        """Return the pods of the node."""
        return list(json.loads((await self.ask("/pods"))[1])["items"])

    async def containers(self) -> list[Ran]:
        """Return every container that was started, the latest first."""
        return sorted(_ran(await self.pods()), key=lambda each: each.at, reverse=True)

    async def processes(self) -> list[HostProcess]:
        """Return the node's processes: the kernel's, the system's, and those of its pods."""
        found = [HostProcess(1, 0, ["/sbin/init"], self.booted)]
        found += [HostProcess(pid, 0 if pid == 2 else 2, [f"[{name}]"], self.booted) for pid, name in KERNEL_THREADS]
        for unit, (_, _, pid, command) in UNITS.items():
            if unit != "nvidia-persistenced" or self.devices.board.devices:
                found.append(HostProcess(pid, 1, command.split(), self.booted))
        pid = FIRST_POD_PID
        shims: dict[str, int] = {}
        for each in sorted(_ran(await self.pods()), key=lambda ran: (ran.at, ran.id)):
            uid = each.pod["metadata"]["uid"]
            if uid not in shims:
                shims[uid] = pid
                shim = f"/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id {sandbox(each.pod)} -address "
                found.append(HostProcess(pid, 1, [*shim.split(), "/run/containerd/containerd.sock"], each.at))
                found.append(HostProcess(pid + 21, pid, ["/pause"], each.at))
                pid += 40
            if each.state == "Running":
                argv = [*(each.spec.get("command") or []), *(each.spec.get("args") or [])]
                argv = argv or [each.spec["image"].rpartition("/")[2].partition(":")[0]]
                found.append(HostProcess(pid, shims[uid], argv, each.at))
            pid += 17
        return found


def digest(text: str) -> str:
    """Return the hexadecimal id that a text has in it, or one made of it."""
    found = text.rpartition("sha256:")[2]
    return found if len(found) == 64 else hashlib.sha256(text.encode()).hexdigest()


def sandbox(pod: Obj) -> str:
    """Return the id of a pod's sandbox."""
    return hashlib.sha256(f"sandbox/{pod['metadata']['uid']}".encode()).hexdigest()


def _ran(pods: list[Obj]) -> list[Ran]:
    found = []
    for pod in pods:
        spec, status = pod["spec"], pod.get("status") or {}
        known = [*(spec.get("initContainers") or []), *spec["containers"], *(spec.get("ephemeralContainers") or [])]
        specs = {each["name"]: each for each in known}
        for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
            for each in status.get(key) or []:
                state = each.get("state") or {}
                ended = state.get("terminated") or (each.get("lastState") or {}).get("terminated")
                start = (state.get("running") or ended or {}).get("startedAt")
                if start and each.get("containerID") and each["name"] in specs:
                    name = "Running" if "running" in state else "Exited"
                    found.append(Ran(pod, specs[each["name"]], each, name, _time(start)))
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


Line = tuple[datetime, str, int, str]
"""When, the program's name and process, and what it said."""


async def journal(side: HostSide, unit: str) -> list[Line]:
    """Return what a unit has written, oldest first; nothing for one that there is not."""
    if unit not in UNITS:
        return []
    description, _, pid, _ = UNITS[unit]
    lines: list[Line] = [(side.booted, "systemd", 1, f"Started {description}.")]
    pods = await side.pods() if unit in ("kubelet", "containerd") else []
    for pod in pods:
        lines += [(at, unit, pid, text) for at, text in (_kubelet if unit == "kubelet" else _runtime)(pod)]
    return sorted(lines, key=lambda line: line[0])


def _klog(at: datetime, level: str, place: str, text: str) -> str:
    return f"{level}{at:%m%d %H:%M:%S.%f} {UNITS['kubelet'][2]:>7} {place}] {text}"


def _statuses(pod: Obj) -> list[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _kubelet(pod: Obj) -> list[tuple[datetime, str]]:
    """Return what the kubelet says of a pod: that it has come, what it started, and why it cannot."""
    meta = pod["metadata"]
    name, uid = f"{meta['namespace']}/{meta['name']}", meta["uid"]
    at = _time((pod.get("status") or {}).get("startTime") or meta["creationTimestamp"])
    lines = [(at, _klog(at, "I", "kubelet.go:2537", f'"SyncLoop ADD" source="api" pods=["{name}"]'))]
    for each in _statuses(pod):
        state = each.get("state") or {}
        if running := state.get("running"):
            then = _time(running["startedAt"])
            event = (
                f'event={{"ID":"{uid}","Type":"ContainerStarted","Data":"{each["containerID"].rpartition("/")[2]}"}}'
            )
            lines.append(
                (then, _klog(then, "I", "kubelet.go:2569", f'"SyncLoop (PLEG): event for pod" pod="{name}" {event}'))
            )
        elif (waiting := state.get("waiting")) and waiting.get("message"):
            ended = (each.get("lastState") or {}).get("terminated") or {}
            then = _time(ended["finishedAt"]) if ended.get("finishedAt") else at
            text = json.dumps(
                f'failed to "StartContainer" for "{each["name"]}" with {waiting["reason"]}: "{waiting["message"]}"'
            )
            lines.append((then, _klog(then, "E", "pod_workers.go:1324",
                                      f'"Error syncing pod, skipping" err={text} pod="{name}" '
                                      f'podUID="{uid}"')))  # fmt: skip
    return lines


def _runtime(pod: Obj) -> list[tuple[datetime, str]]:
    """Return what the container runtime says of a pod."""
    meta, lines = pod["metadata"], []
    for each in _statuses(pod):
        state = each.get("state") or {}
        ident = str(each.get("containerID", "")).rpartition("/")[2]
        start = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        if start:
            at = _time(start)
            texts = [
                f'PullImage \\"{each["image"]}\\" returns image reference '
                f'\\"sha256:{digest(str(each.get("imageID")))}\\"'
            ]
            texts.append(f'StartContainer for \\"{ident}\\" returns successfully')
            lines += [(at, f'time="{at:%Y-%m-%dT%H:%M:%S.%f}000Z" level=info msg="{text}"') for text in texts]
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff"):
            at = _time((pod.get("status") or {}).get("startTime") or meta["creationTimestamp"])
            text = f'PullImage \\"{each["image"]}\\" failed'
            more = json.dumps(
                str(waiting.get("message", "")).partition(": ErrImagePull: ")[2] or waiting.get("message", "")
            )
            lines.append((at, f'time="{at:%Y-%m-%dT%H:%M:%S.%f}000Z" level=error msg="{text}" error={more}'))
    return lines
