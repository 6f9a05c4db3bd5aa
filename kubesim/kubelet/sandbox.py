"""A pod's sandbox: its containers as machines that can be entered, and its ports.

A container's own process is computed (``programs``) wherever it is a known workload; its machine is then made only
when somebody enters it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesim.clock import Clock
from kubesim.kubelet.records import Container, container_id
from kubesim.network.fabric import Fabric, NetworkError
from kubesim.shell import machine as machines
from kubesim.shell import rootfs
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import View
from kubesim.shell.machine import Machine, Process, Stdio
from kubesim.shell.programs import Program
from kubesim.shell.tools import TOOLS
from kubesim.streaming.seam import Duplex, RuntimeFailure

if TYPE_CHECKING:
    from kubesim.kubelet.pod import PodWorker

EXEC_ERROR = (
    'failed to exec in container: failed to start exec "{id}": OCI runtime exec failed: exec failed: '
    "unable to start container process: {cause}: unknown"
)
FORWARD_ERROR = (
    "error forwarding port {port} to pod {id}, uid : failed to execute portforward in network namespace "
    '"/var/run/netns/cni-{network}": '
    'failed to connect to localhost:{port} inside namespace "{id}", IPv4: dial tcp4 127.0.0.1:{port}: '
    "{reason} IPv6 dial tcp6 [::1]:{port}: {reason} "
)
BASES = {"python": "debian", "cuda": "debian", "none": "distroless"}
"""What of the shell's images those of the catalogue are built on."""


@dataclass
class Box:
    """The inside of one start of a container."""

    instance: str
    machine: Machine


class Sandbox:
    """What surrounds the containers of one pod."""

    def __init__(self, worker: PodWorker, clock: Clock, fabric: Fabric) -> None:
        self._worker = worker
        self._clock = clock
        self._fabric = fabric
        self._boxes: dict[str, Box] = {}
        self._execs = 0

    async def exec(self, container: Container, command: Sequence[str], stdio: Stdio) -> int:
        """Run a command in a running container; returns its exit code. Raises ``RuntimeFailure``."""
        machine = await self.machine(container)
        directory = self._worker.record.spec(container).get("workingDir") or "/"
        try:
            process = machines.spawn(machine, [*command], cwd=directory, stdio=stdio)
        except (StartError, FileError) as error:
            self._execs += 1
            number = hashlib.sha256(f"{container.instance}{self._execs}".encode()).hexdigest()
            raise RuntimeFailure(EXEC_ERROR.format(id=number, cause=error)) from error
        try:
            return await process.wait()
        finally:
            for member in [*machine.processes.values()]:
                if member.group == process.group:
                    member.signal("KILL")

    async def machine(self, container: Container) -> Machine:
        """Return the inside of a running container, made when it is first wanted."""
        assert container.instance is not None
        box = self._boxes.get(container.name)
        if box is None or box.instance != container.instance.id:
            box = Box(container.instance.id, self._make(container))
            self._boxes[container.name] = box
        return box.machine

    def _make(self, container: Container) -> Machine:
        record = self._worker.record
        spec = record.spec(container)
        image = record.images[spec["image"]]
        machine = Machine(
            clock=self._clock,
            files=rootfs.files(BASES.get(image.base, image.base)),
            tools=TOOLS,
            hostname=record.pod["spec"].get("hostname") or record.name,
            env={},
            address=record.ip,
        )
        view = View(machine.files, machine.now)
        Process(machine, Program("", "", "/", self._worker.argv(container)), machine.env, view, {})
        return machine

    async def forward(self, port: int, connection: Duplex) -> None:
        """Join a connection with a port of the pod. Raises ``RuntimeFailure``."""
        try:
            server = self._fabric.find(self._worker.record.ip, port)
        except NetworkError as error:
            number = container_id(self._worker.record.uid, "", 0)
            namespace = (
                f"/var/run/netns/cni-{number[:8]}-{number[8:12]}-{number[12:16]}-{number[16:20]}-{number[20:32]}"
            )
            text = FORWARD_ERROR.format(port=port, id=number, netns=namespace, reason=error.reason)
            raise RuntimeFailure(text) from error
        await server.converse(connection, "127.0.0.1")

    def ended(self, container: Container) -> None:
        """Note that a container's process has ended: everything in it goes."""
        box = self._boxes.pop(container.name, None)
        if box is not None:
            box.machine.stop()

    async def attach(self, container: Container, stdio: Stdio) -> int:
        """Join a container's own process until it ends."""
        ended = asyncio.Event()
        await ended.wait()
        return 0
