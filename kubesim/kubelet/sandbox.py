"""A pod's sandbox: its containers as machines, their own processes, its volumes and its ports.

A container's own process is computed (``programs``) wherever it is a known workload: it costs nothing, and its
machine is made only when somebody enters it. Every other
command is interpreted in the container's machine from the start.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from kubesim.acting import acting
from kubesim.client import Reader
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.gpu.board import NoDevice
from kubesim.gpu.preload import ReadFile
from kubesim.kubelet import behaviours, computed, failures, inside, keeping, memory, rooted, servers, usage, volumes
from kubesim.kubelet.duties import EXPORTERS, Post
from kubesim.kubelet.environment import ConfigError, Sources, environment, expand
from kubesim.kubelet.failures import nccl_of
from kubesim.kubelet.host import Host
from kubesim.kubelet.layers import NEVER, Birth, birth, taken
from kubesim.kubelet.logfile import LogFile
from kubesim.kubelet.mains import LONGEST_S, Main, ReplayClock, show
from kubesim.kubelet.memory import overrun
from kubesim.kubelet.programs import Exit
from kubesim.kubelet.records import Container
from kubesim.kubelet.servers import Course
from kubesim.kubelet.volumes import MountError
from kubesim.network.pods import PodNetwork
from kubesim.network.policy import Gate
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Directory, File, View
from kubesim.shell.machine import Machine, Stdio
from kubesim.shell.spawn import spawn
from kubesim.streaming.seam import Duplex, RuntimeFailure

if TYPE_CHECKING:
    from kubesim.kubelet.pod import PodWorker

EXEC_ERROR = (
    'failed to exec in container: failed to start exec "{id}": OCI runtime exec failed: exec failed: '
    "unable to start container process: {cause}: unknown"
)
MESSAGE_PATH = "/dev/termination-log"
LONGEST_MESSAGE = 4096  # bytes, as the next
LONGEST_LOG_MESSAGE = 2048
MOST_NOTES = 500
REFRESH_S = 40.0
"""How often a kubelet brings volumes up to date with the objects that they show."""


@dataclass
class Box:
    """The inside of one start of a container: environment, machine, and its own process if that really runs."""

    env: dict[str, str]
    argv: list[str]
    machine: Machine | None = None
    main: Main | None = None
    message: File | None = None
    started: bool = False
    since: Birth = NEVER
    read: ReadFile = lambda path: None


@dataclass
class Sandbox:
    """What surrounds the containers of one pod."""

    worker: PodWorker
    host: Host
    boxes: dict[str, Box] = field(default_factory=dict)
    mounts: dict[str, Directory] | None = None
    servers: dict[str, list[int]] = field(default_factory=dict)
    refreshing: asyncio.Task[None] | None = None
    execs: int = 0
    overwhelmed: dict[str, tuple[str, int]] | None = None
    """Containers that are killed for memory though their own is not full: whose is, and what they held."""

    async def check_volumes(self) -> None:
        """Raise ``MountError`` where the pod's volumes cannot be mounted."""
        await volumes.check(self.host.client, self.worker.record, self.host.node.disk)
        self.host.fabric.attach(self.worker.record.ip)

    async def prepare(self, container: Container) -> None:
        """Make the next start of a container ready. Raises ``ConfigError``."""
        record = self.worker.record
        spec = record.spec(container)
        inside.check_user(record, spec, container.name)
        sources = Sources(self.host.client, record.pod["metadata"]["namespace"])
        real = self.worker.interpreted(container)
        env: dict[str, str] = {}
        if real or spec.get("env") or spec.get("envFrom"):
            env = await environment(sources, record, spec)
        env = {**env, **self._devices(container, spec)}
        box = Box(env, [*self.worker.argv(container)])
        if real:
            box.argv = [expand(word, env) for word in self.worker.command(container)]
            box.machine = await self._machine(container, spec, box, self.host.clock)
        elif "LD_PRELOAD" in env:
            box.read = inside.reader(record, spec, await self.volumes(), env)
        self.boxes[container.name] = box

    def start(self, container: Container) -> str:
        """Start a container that ``prepare`` has made ready; returns the runtime's text where that fails."""
        box, instance = self.boxes[container.name], container.instance
        assert instance is not None
        if error := self.host.node.gpus.start_error(self.owner(container), instance.id):
            return error
        if box.machine is not None:
            error = self._spawn(container, box, self.host.clock)
            if error:
                return error
        else:
            computed.load(self, container)
            if error := self.worker.program(container).start_error:
                return error
        box.started = True
        self.listen(container)
        computed.use_devices(self, container)
        self._take_up(container)
        return ""

    def _take_up(self, container: Container, *, resumed: bool = False) -> None:
        """Let the program do what it is known to do to its node or its cluster."""
        host, record, box = self.host, self.worker.record, self.boxes[container.name]
        work = "" if box.machine is not None else self.worker.program(container).load
        course = container.instance.course if container.instance is not None else []
        host.node.watch.started(usage.held_mib(work))
        host.duties.begin(
            Post(
                host.client,
                host.clock,
                host.fabric,
                host.machines,
                host.node.name,
                record.pod,
                record.ip,
                self.owner(container),
                tuple(box.argv),
                lambda text, code=failures.KILLED_CODE: self.cut(container, text, code),
                lambda text: self.say(container, text),
                resumed,
                work,
                course[-1][1] if course else "",
                lambda behaviour: self._go_on(container, behaviour),
                box.env,
                nccl=nccl_of(record.images[record.spec(container)["image"]]),
                reach=self._network,
            )
        )

    def _network(self, reader: Reader | None = None) -> PodNetwork:
        """Return the network as the pod's programs see it; ``reader`` is asked what there is in the cluster."""
        host, record = self.host, self.worker.record
        reader = reader or host.client
        gate = Gate(reader, host.fabric, record.ip, host.node.tags)
        return PodNetwork(reader, host.fabric, record.ip, lambda: inside.resolv_conf(record), gate, host.node.name)

    def cut(self, container: Container, text: str, code: int = failures.KILLED_CODE) -> None:
        """Let a computed process die now, with a text on standard error."""
        instance = container.instance
        if instance is not None and instance.cut is None:
            instance.cut = (self._age(container), text, code)
            self.host.wake()

    def _go_on(self, container: Container, behaviour: str) -> None:
        """Let a computed process go on as another behaviour, and its devices with it."""
        instance = container.instance
        if instance is not None:
            instance.course = [*instance.course, (self._age(container), behaviour)]
            load = behaviours.workload(behaviour, "").load
            self.host.node.gpus.turn(self.owner(container), load, self.host.clock.now())

    def full(self, container: Container) -> None:
        """Note that a container's memory is full: everything in it is killed, whoever has filled it."""
        instance = container.instance
        if instance is not None and instance.oom_at is None:
            instance.oom_at = max(self._age(container), 0.0)
            self.host.wake()

    def say(self, container: Container, text: str) -> None:
        """Let a computed process print a line now; of very many, the oldest are forgotten."""
        instance = container.instance
        if instance is not None:
            instance.notes = [*instance.notes[1 - MOST_NOTES :], (self._age(container), text)]

    def _age(self, container: Container) -> float:
        return (self.host.clock.now() - container.instance.started_at).total_seconds() if container.instance else 0.0

    def _devices(self, container: Container, spec: Obj) -> dict[str, str]:
        """Give a container its GPUs; returns the variables that come with them. Raises ``ConfigError``."""
        try:
            return self.host.node.gpus.allocate(self.owner(container), spec, self.host.clock.now())
        except NoDevice as error:
            raise ConfigError(str(error)) from error

    def owner(self, container: Container) -> str:
        """Return the name under which the devices know a container."""
        return f"{self.worker.record.pod['metadata']['namespace']}/{self.worker.record.name}/{container.name}"

    def _spawn(self, container: Container, box: Box, clock: Clock) -> str:
        """Run a container's own process in its machine."""
        spec, instance = self.worker.record.spec(container), container.instance
        assert box.machine is not None
        assert instance is not None
        instance.log = LogFile()
        once = bool(spec.get("stdinOnce"))
        main = Main(
            clock,
            instance.started_at,
            instance.log,
            stdin=bool(spec.get("stdin")),
            once=once,
            tty=bool(spec.get("tty")),
        )
        try:
            process = spawn(
                box.machine,
                box.argv,
                env=box.env,
                cwd=inside.folder(self.worker.record, spec, box.machine),
                stdio=main.stdio,
            )
        except (StartError, FileError) as error:
            return behaviours.OCI_ERROR.format(cause=str(error).removeprefix("exec: "))
        box.main = main
        main.follow(process, self.host.wake)
        self._keep_fresh()
        return ""

    async def resume(self, container: Container) -> None:
        """Run again what ran in a container before the kubelet was started again; its past passes at once."""
        instance = container.instance
        assert instance is not None
        try:
            await self.prepare(container)
        except (ConfigError, MountError):
            return
        box = self.boxes[container.name]
        box.started = True
        self.listen(container)
        if box.machine is None:
            computed.use_devices(self, container)
            self._take_up(container, resumed=True)
            return
        began = max(instance.started_at, self.host.clock.now() - timedelta(seconds=LONGEST_S))
        clock = ReplayClock(self.host.clock, began)
        box.machine.clock = clock
        box.machine.booted = began
        if not self._spawn(container, box, clock):
            await clock.catch_up()

    def listen(self, container: Container) -> None:
        """Open the ports of a container whose server is known."""
        record = self.worker.record
        spec = record.spec(container)

        def look(wanted: bool) -> Awaitable[View | None]:
            return self._view(container, wanted=wanted)

        found = (
            {}
            if self.boxes[container.name].machine
            else servers.known(record, spec, look, lambda: self._age(container), lambda: self._course(container))
        )
        behaviour = record.images[spec["image"]].behaviour
        if behaviour in EXPORTERS:
            api = acting(self.host.client, self.host.clock, record.pod, lambda text: self.say(container, text))
            found |= self.host.telemetry.servers(behaviour, record.pod, self.host.node, api, self._network)
        for port, server in found.items():
            self.host.fabric.listen(record.ip, port, server)
        self.servers[container.name] = [*found]

    def _course(self, container: Container) -> Course:
        """Return what the metrics of a container's process depend on."""
        owner, gpus, instance = self.owner(container), self.host.node.gpus, container.instance
        assert instance is not None
        devices = gpus.board.visible(owner) if owner in gpus.given else []
        started, env = instance.started_at.timestamp(), self.boxes[container.name].env
        return Course(started, usage.of(self.worker, container), env, owner, devices)

    def ending(self, container: Container) -> Exit | None:
        """How a container's own process ends by itself, or has; None while nobody knows."""
        box = self.boxes.get(container.name)
        if box is not None and box.main is not None:
            return overrun(box.main.exit, container.instance.oom_at if container.instance is not None else None)
        if box is not None and box.machine is not None and not box.started:
            return None
        if container.instance is not None and container.instance.log is not None:
            return None
        return self.worker.program(container).ending

    def entered(self, container: Container) -> Machine | None:
        """Return the machine of a container in which something runs, or has."""
        box = self.boxes.get(container.name)
        return box.machine if box is not None else None

    def written(self, container: Container) -> int:
        """Return the bytes of disk that a container's own files and its log take."""
        box, instance = self.boxes.get(container.name), container.instance
        log = instance.log.size if instance is not None and instance.log is not None else 0
        return log + (taken(box.machine.files.root) if box is not None and box.machine is not None else 0)

    def real(self, container: Container) -> bool:
        """Whether a container's own process really runs."""
        box = self.boxes.get(container.name)
        return box is not None and box.main is not None

    def over(self, container: Container) -> bool:
        """Whether a container's own process has ended, though its state may not say so yet."""
        box = self.boxes.get(container.name)
        return box is not None and box.main is not None and box.main.exit is not None

    def signal(self, container: Container, name: str) -> None:
        """Signal a container's own process, if it really runs."""
        machine = self.entered(container)
        if machine is not None and (first := machine.processes.get(machine.first)) is not None:
            first.signal(name)

    def message(self, container: Container, code: int) -> str:
        """Return the termination message that a process has left, or the end of its log if it asks for that."""
        box, spec = self.boxes.get(container.name), self.worker.record.spec(container)
        text = bytes(box.message.data).decode("utf-8", "replace") if box is not None and box.message else ""
        log = container.instance.log if container.instance is not None else None
        if not text and code and log is not None and spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = "".join(entry.text + entry.end for entry in log.entries[-80:])[-LONGEST_LOG_MESSAGE:]
        return text[:LONGEST_MESSAGE]

    def ended(self, container: Container) -> None:
        """Note that a container's process has ended: everything in it goes."""
        self.host.duties.end(self.owner(container))
        self.host.node.gpus.end(self.owner(container), self.host.clock.now())
        for port in self.servers.pop(container.name, []):
            self.host.fabric.shut(self.worker.record.ip, port)
        box = self.boxes.pop(container.name, None)
        if box is not None and box.main is not None:
            box.main.stop()
        if box is not None and box.machine is not None:
            keeping.discard(self, box.machine)

    def release(self) -> None:
        """Give the devices of a pod that is over back to the node."""
        for container in self.worker.record.containers:
            self.host.node.gpus.release(self.owner(container), self.host.clock.now())

    def stop(self) -> None:
        """Leave everything as it is and look no further."""
        self.release()
        for container in self.worker.record.containers:
            self.host.duties.end(self.owner(container))
        for name in [*self.boxes]:
            box = self.boxes.pop(name)
            if box.main is not None:
                box.main.stop()
            if box.machine is not None:
                keeping.discard(self, box.machine)
        if self.refreshing is not None:
            self.refreshing.cancel()
        if self.worker.record.ip != self.host.node.ip:
            self.host.fabric.detach(self.worker.record.ip)

    # What goes on inside.

    async def exec(self, container: Container, command: Sequence[str], stdio: Stdio) -> int:
        """Run a command in a running container; returns its exit code. Raises ``RuntimeFailure``."""
        spec = self.worker.record.spec(container)
        box, machine = await self.inside(container)
        await computed.wake(self, container)
        try:
            process = spawn(
                machine, [*command], env=box.env, cwd=inside.folder(self.worker.record, spec, machine), stdio=stdio
            )
        except (StartError, FileError) as error:
            self.execs += 1
            number = hashlib.sha256(f"{self.worker.record.uid}{container.name}{self.execs}".encode()).hexdigest()
            raise RuntimeFailure(EXEC_ERROR.format(id=number, cause=error)) from error
        try:
            return await process.wait()
        finally:
            for member in [*machine.processes.values()]:
                if member.group == process.group:
                    member.signal("KILL")

    async def run(self, container: Container, argv: Sequence[str]) -> tuple[int, bytes, bytes]:
        """Run a command in a container and return its status and what it printed. Raises ``RuntimeFailure``."""
        out, err = inside.Collector(), inside.Collector()
        status = await self.exec(container, argv, Stdio(None, out, err))
        return status, bytes(out.data), bytes(err.data)

    async def inside(self, container: Container) -> tuple[Box, Machine]:
        """Return the inside of a running container, made when it is first wanted."""
        box = self.boxes.get(container.name)
        if box is None:
            with suppress(ConfigError, MountError):
                await self.prepare(container)
            box = self.boxes.setdefault(container.name, Box({}, [*self.worker.argv(container)]))
        if box.machine is None:
            box.machine = await self._entered(container, box)
        return box, box.machine

    async def _view(self, container: Container, *, wanted: bool) -> View | None:
        """Return the files of a container that somebody has entered, or whose files are ``wanted`` in any case."""
        box = self.boxes.get(container.name)
        machine = (await self.inside(container))[1] if wanted else box.machine if box is not None else None
        return View(machine.files, machine.now) if machine is not None else None

    async def _entered(self, container: Container, box: Box) -> Machine:
        """Return a machine for a container whose own process is computed: that stands in it as its first."""
        spec = self.worker.record.spec(container)
        sources = Sources(self.host.client, self.worker.record.pod["metadata"]["namespace"])
        with suppress(ConfigError):
            box.env = {**await environment(sources, self.worker.record, spec), **self._devices(container, spec)}
        machine = await self._machine(container, spec, box, self.host.clock)
        computed.enter(self, container, box, machine, inside.folder(self.worker.record, spec, machine))
        self._keep_fresh()
        return machine

    async def _machine(self, container: Container, spec: Obj, box: Box, clock: Clock) -> Machine:
        """Return a new machine with the files of a container's image and its mounts. Raises ``ConfigError``."""
        record = self.worker.record
        mounts = await self.volumes()
        machine = inside.machine(record, spec, clock, self.host, self.owner(container))
        self._number(container, machine)
        memory.mount(machine, spec, lambda: computed.used(self, container, machine), lambda: self._age(container))
        await computed.join(self, container, machine)
        machine.on_full = lambda: self.full(container)
        watch, machine.files.disk = self.host.node.watch, self.host.node.disk.room
        machine.on_growth, machine.on_crowd = watch.grown, watch.touch
        machine.files.on_memory = machine.check_memory
        inside.mount(machine, record, spec, mounts, box.env)
        rooted.enter_all(machine, record.pod, spec, self.host)
        box.message = inside.message_file(machine, spec.get("terminationMessagePath") or MESSAGE_PATH)
        box.since, machine.files.touched = birth(machine.now()), self.host.written
        return machine

    @property
    def hostname(self) -> str:
        """The pod's name as its processes have it."""
        return inside.hostname(self.worker.record)

    def _number(self, container: Container, machine: Machine) -> None:
        """Let the node know a container's processes by its own numbers, and with hostPID the container itself."""

        def number(inner: int) -> int:
            key = container.instance.id if container.instance is not None else self.worker.record.uid
            at = container.instance.started_at if inner == 1 and container.instance is not None else None
            return self.host.node.gpus.numbers.of(key, inner, at or self.host.clock.now())

        if self.worker.record.pod["spec"].get("hostPID"):
            machine.numbering = number
        else:
            machine.on_node = number

    async def volumes(self) -> Mapping[str, Directory]:
        """Return the pod's volumes by name. Raises ``ConfigError``."""
        if self.mounts is None:
            now = self.host.clock.now()
            try:
                self.mounts = await volumes.mount(self.host.client, self.worker.record, self.host.node.disk, now)
            except MountError as error:
                raise ConfigError(str(error)) from error
        return self.mounts

    def _keep_fresh(self) -> None:
        """Bring the volumes up to date now and then, where something inside may look and there is what changes."""
        if self.refreshing is None and volumes.changing(self.worker.record.pod):
            self.refreshing = asyncio.ensure_future(self._refresh())

    async def _refresh(self) -> None:
        while self.mounts is not None:
            await self.host.clock.sleep(REFRESH_S)
            await volumes.refresh(self.host.client, self.worker.record, self.mounts, self.host.clock.now())

    async def attach(self, container: Container, stdio: Stdio) -> int:
        """Join a container's own process until it ends."""
        box = self.boxes.get(container.name)
        if box is not None and box.main is not None:
            await box.main.attach(stdio)
        else:
            await show(self.worker, container, stdio)
        return 0

    async def forward(self, port: int, connection: Duplex) -> None:
        """Join a connection with a port of the pod. Raises ``RuntimeFailure``."""
        await servers.join_port(self.host.fabric, self.worker.record, port, connection)
