"""What programs of known images do beside printing: a device plugin speaks for GPUs, an operator works on objects.

A duty lasts as long as its container: whoever deletes, breaks or mis-selects the pod stops what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from kubesim import data
from kubesim.acting import acting
from kubesim.client import Client, Reader
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.network.fabric import Fabric, Server
from kubesim.network.pods import PodNetwork

if TYPE_CHECKING:
    from kubesim.kubelet.host import Node
    from kubesim.kubelet.machines import Machines
    from kubesim.metrics.telemetry import Telemetry

_table = data.beside(__file__, "duties.yaml")


class Duty(Protocol):
    """What a program does; it has begun."""

    def stop(self) -> None:
        """End it at once."""


class Die(Protocol):
    """Ends a program with a text on standard error."""

    def __call__(self, text: str, code: int = 1) -> None:
        """End it with an exit code."""


@dataclass(frozen=True, slots=True)
class Post:
    """Where a program stands, and the ways that it has. ``owner`` is namespace/pod/container."""

    client: Client
    clock: Clock
    fabric: Fabric
    machines: Machines
    node: str
    pod: Obj
    address: str
    owner: str
    argv: tuple[str, ...] = ()
    die: Die = lambda text, code=1: None
    say: Callable[[str], None] = lambda text: None
    """Adds a line to the program's log."""
    resumed: bool = False
    """Whether it ran already before the kubelet was started again."""
    work: str = ""
    """The behaviour that it has by its image and command line."""
    doing: str = ""
    """The behaviour that it has gone on with, if there was one."""
    go_on: Callable[[str], None] = lambda behaviour: None
    """Lets the program go on as another behaviour from now."""
    env: Mapping[str, str] = field(default_factory=dict)
    pid: int = 1
    """Its number in its container."""
    nccl: str = ""
    """The version of NCCL in its image."""
    reach: Callable[[], PodNetwork] | None = None
    """Makes the network as the program sees it."""

    @property
    def api(self) -> Client:
        """The API as the program has it: with the rights of its pod's account."""
        return acting(self.client, self.clock, self.pod, self.say)

    @property
    def network(self) -> PodNetwork:
        """The network as the program sees it."""
        assert self.reach is not None
        return self.reach()

    def listen(self, port: int, server: Server) -> None:
        """Open a port of the pod."""
        self.fabric.listen(self.address, port, server)


class Duties:
    """Everything that programs do in a cluster, by the container in which they run."""

    def __init__(self) -> None:
        self._running: dict[str, Duty] = {}
        self._waiting: dict[str, dict[str, Post]] = {}
        """Program that works alone -> the containers that have it, in the order in which they came."""

    def begin(self, post: Post) -> None:
        """Let the program of a container begin, if it is known to do something."""
        name = post.argv[0].rpartition("/")[2] if post.argv else ""
        known = _table()["begins"]
        name = post.work if post.work in known else name
        if name not in known or post.owner in self._running:
            return
        if name in _table()["alone"]:
            self._waiting.setdefault(name, {})[post.owner] = post
            if next(iter(self._waiting[name])) != post.owner:
                return
        if (duty := _factory(name)(post)) is not None:
            self._running[post.owner] = duty

    def end(self, owner: str) -> None:
        """The container's process is gone; of those that stand by, the next takes over."""
        duty = self._running.pop(owner, None)
        if duty is not None:
            duty.stop()
        for posts in self._waiting.values():
            if posts.pop(owner, None) is not None and posts and duty is not None:
                self.begin(next(iter(posts.values())))


def _factory(name: str) -> Callable[[Post], Duty | None]:
    module, _, function = _table()["begins"][name].partition(":")
    found: Callable[[Post], Duty | None] = getattr(import_module(module), function or "begin")
    return found


EXPORTERS = frozenset({"dcgm-exporter", "kube-state-metrics", "metrics-server", "node_exporter", "prometheus"})
"""Behaviours of images whose servers are those of ``metrics.telemetry``."""


class Monitoring:
    """Makes the telemetry of a cluster when it is first wanted: a cluster without it starts sooner."""

    def __init__(self, client: Client, clock: Clock, fabric: Fabric) -> None:
        self._parts = (client, clock, fabric)
        self._telemetry: Telemetry | None = None

    def servers(
        self, behaviour: str, pod: Obj, node: Node, api: Client, reach: Callable[[Reader], PodNetwork]
    ) -> dict[int, Server]:
        """Return what a pod of ``node`` with one of ``EXPORTERS`` listens with.

        ``api`` has the rights of its account; ``reach`` makes its network.
        """
        if self._telemetry is None:
            self._telemetry = import_module("kubesim.metrics.telemetry").Telemetry(*self._parts)
        return self._telemetry.servers(behaviour, pod, node, api, reach)

    @property
    def following(self) -> bool:
        """Tell whether anything of the cluster is followed."""
        return self._telemetry is not None and self._telemetry.following

    async def stop(self) -> None:
        """Follow the cluster no longer."""
        if self._telemetry is not None:
            await self._telemetry.stop()
