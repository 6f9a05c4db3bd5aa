"""A node as somebody sees it who has its root: its own processes, units, journal, and what its runtime runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kubesim import data
from kubesim.gpu.access import Access
from kubesim.gpu.board import Board
from kubesim.shell.files import Directory, Files
from kubesim.shell.meter import Use
from kubesim.shell.services import Services, Unit
from kubesim.shell.wayout import Ear
from kubesim.times import parse

if TYPE_CHECKING:
    from kubesim.kubelet.node_images import NodeImages

Obj = dict[str, Any]
BOOT_S = 35.0
_table = data.beside(__file__, "host.yaml")


def settings(name: str) -> dict[str, str]:
    """Return a part of what every node is set to: kernel parameters, packages."""
    return dict(_table()[name])


@cache
def _units() -> dict[str, Unit]:
    return {name: Unit(*row) for name, row in _table()["units"].items()}


def units(board: Board) -> dict[str, Unit]:
    """Return the services of a node by name, in order."""
    has = {"gpus": bool(board.devices), "switches": bool(board.devices) and board.product.nvlinks > 0}
    needs = _table()["needs"]
    return {name: unit for name, unit in sorted(_units().items()) if has.get(needs.get(name, ""), True)}


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose process it is."""

    uid: int = 0
    umask: int = 0o022

    @property
    def gid(self) -> int:
        """The group."""
        return self.uid


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process of the node, in the shape in which ``ps`` knows those of a container."""

    pid: int
    parent: int
    argv: list[str]
    started: datetime
    cgroup: str = "0::/\n"
    uid: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    use: Callable[[], Use] = Use
    within: int = 0
    """Its number in its container; 0 for one of the node's own."""
    strike: Callable[[str], None] = lambda name: None
    """Takes a signal."""
    inner: Any = None
    """The process of a container's machine that it is."""

    @property
    def group(self) -> int:
        """Most of them lead a group."""
        return self.pid

    @property
    def view(self) -> Owner:
        """Whose it is."""
        return Owner(self.uid)

    @property
    def terminal(self) -> object | None:
        """Its terminal, if it has one."""
        return self.inner.terminal if self.inner is not None else None

    @property
    def stopped(self) -> object | None:
        """Whether it is stopped."""
        return self.inner.stopped if self.inner is not None else None

    @property
    def cwd(self) -> str:
        """Its working directory."""
        return str(self.inner.cwd) if self.inner is not None else "/"

    @property
    def name(self) -> str:
        """The program's name."""
        first = self.argv[0] if self.argv else ""
        return first[1:-1] if first.startswith("[") else first.rsplit("/", 1)[-1].rstrip(":")

    def signal(self, name: str, *, inside: bool = False) -> None:
        """Take a signal from the node."""
        self.strike(name)


def ears(processes: Iterable[HostProcess], open_ports: Iterable[int]) -> tuple[Ear, ...]:
    """Return what listens on a node: its own programs, as far as they run, and what else has a port open."""
    pids = {each.name: each.pid for each in processes}
    found = [
        Ear(address, port, name, pids[name], protocol)
        for address, port, name, protocol in _table()["ears"]
        if name in pids
    ]
    known = {each.port for each in found}
    return (*found, *(Ear("*", port) for port in open_ports if port not in known))


def system(board: Board, services: Services) -> list[HostProcess]:
    """Return what runs on a node beside its pods."""
    booted, threads = board.booted, _table()["threads"]
    found = [HostProcess(1, 0, ["/sbin/init"], booted, "0::/init.scope\n")]
    names = {**threads["all"], **(threads["gpus"] if board.devices else {})}
    found += [HostProcess(pid, 0 if pid == 2 else 2, [f"[{name}]"], booted) for pid, name in sorted(names.items())]
    for name, unit in sorted(units(board).items(), key=lambda item: item[1].pid):
        if services.runs(name):
            cgroup, since = f"0::/system.slice/{name}.service\n", services.of(name).since
            at, strike = since or booted + timedelta(seconds=BOOT_S / 2), partial(services.strike, name)
            found.append(HostProcess(services.pid(name), 1, unit.command.split(), at, cgroup, strike=strike))
    return found


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
    processes: Callable[[], list[HostProcess]]
    """Returns everything that runs on it."""
    tree: Callable[[], Files]
    """Returns its files with what is mounted there."""
    services: Services
    """Its services as they stand."""
    now: Callable[[], datetime]
    images: NodeImages
    reboot: Callable[[], None]
    """Turns the machine off and on again."""

    @property
    def units(self) -> dict[str, Unit]:
        """Its services."""
        return units(self.devices.board)

    async def pods(self) -> list[Obj]:
        """Return the pods of the node."""
        return list(json.loads((await self.ask("/pods"))[1])["items"])

    async def containers(self) -> list[Ran]:
        """Return every container that was started, the latest first."""
        return sorted(_ran(await self.pods()), key=lambda each: each.at, reverse=True)


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
                turn = state.get("running") or ended or {}
                start = turn.get("finishedAt" if turn.get("reason") == "StartError" else "startedAt")
                if start and each.get("containerID") and each["name"] in specs:
                    name = "Running" if "running" in state else "Exited"
                    found.append(Ran(pod, specs[each["name"]], each, name, parse(start)))
    return found
