"""Processes in a container whose own process is computed, those beside it, and those that containers share.

They are made when somebody looks into the container; until then their GPUs alone know of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from kubesim.gpu import access as gpu_found
from kubesim.gpu import collectives
from kubesim.gpu.cuda import CudaDevice
from kubesim.gpu.preload import preloaded
from kubesim.kubelet import behaviours, failures, usage
from kubesim.kubelet.gpus import User
from kubesim.kubelet.records import Container
from kubesim.kubelet.torchrun import Member, crew, shown
from kubesim.shell.files import View
from kubesim.shell.hostside import HostProcess
from kubesim.shell.machine import Machine, Process
from kubesim.shell.meter import Use
from kubesim.shell.programs import Program
from kubesim.shell.signals import HARMLESS, NUMBERS, STOPPING

if TYPE_CHECKING:
    from kubesim.kubelet.sandbox import Box, Sandbox


def members(sandbox: Sandbox, container: Container) -> tuple[Member, ...]:
    """Return the processes that a container's own has started beside it."""
    box = sandbox.boxes.get(container.name)
    if box is None or box.main is not None or container.instance is None:
        return ()
    argv = sandbox.worker.argv(container)
    if not collectives.is_launcher(argv):
        return ()
    spec = sandbox.worker.record.spec(container)
    named = {**dict(behaviours.environment(spec, sandbox.worker.record.pod)), **box.env}
    found = container.instance.found
    return crew(argv, named, len(found.names) if found is not None else 0)


def users(sandbox: Sandbox, container: Container) -> list[User]:
    """Return the processes of a container that use its GPUs: the ranks, or its own process."""
    assert container.instance is not None
    number = partial(sandbox.host.node.gpus.numbers.of, container.instance.id, at=container.instance.started_at)
    found = [User(number(each.pid), each.argv[0], each.device) for each in members(sandbox, container)]
    argv = shown(sandbox.worker.argv(container))
    return [each for each in found if each.device != -1] or [User(number(1), argv[0] if argv else "")]


def load(sandbox: Sandbox, container: Container) -> None:
    """Let a computed process be loaded, with what it preloads, and find out which GPUs it has."""
    box = sandbox.boxes[container.name]
    for line in preloaded(box.env, box.read)[1]:
        sandbox.say(container, line)
    look(sandbox, container)


def look(sandbox: Sandbox, container: Container) -> tuple[CudaDevice, ...]:
    """Let a computed process find out which GPUs it has, when it starts; returns those that it can use."""
    instance, box, record = container.instance, sandbox.boxes[container.name], sandbox.worker.record
    spec, gpus, owner = record.spec(container), sandbox.host.node.gpus, sandbox.owner(container)
    assert instance is not None
    image = record.images[spec["image"]]
    if owner not in gpus.given and not image.scripts:
        return ()
    access = replace(gpus.access_of(owner, record.pod, spec, image.env), read=box.read)
    env = {**dict(behaviours.environment(spec, record.pod)), **box.env}
    found, devices = gpu_found.look(access, env, instance.started_at, usage.cpu_limit(spec))
    instance.found = instance.found or found
    return devices if not instance.found.error else ()


def use_devices(sandbox: Sandbox, container: Container) -> None:
    """Let a computed process work its GPUs."""
    instance, box, host = container.instance, sandbox.boxes[container.name], sandbox.host
    if instance is None or box.machine is not None or instance.cut is not None:
        return
    if not (devices := look(sandbox, container)):
        return
    program, argv, gpus = sandbox.worker.program(container), sandbox.worker.argv(container), host.node.gpus
    owner, record = sandbox.owner(container), sandbox.worker.record
    libraries = failures.of(record.images[record.spec(container)["image"]], argv)

    def die(error: int) -> None:
        sandbox.cut(container, libraries.cuda(error))

    found = users(sandbox, container)
    if not gpus.start(owner, program, found, instance.started_at, die, devices):
        return
    if instance.course:
        gpus.turn(owner, behaviours.workload(instance.course[-1][1], "").load, host.clock.now())
    if text := gpus.shortage(program, libraries, argv, box.env, devices, found):
        instance.cut = (failures.MEMORY_AT_S, text, failures.KILLED_CODE)


def enter(sandbox: Sandbox, container: Container, box: Box, machine: Machine, at: str) -> None:
    """Let a container's processes stand in its machine, in the directory ``at``."""
    argv = shown(box.argv)
    program = Program("", "", argv[0] if argv else "/", argv)
    first = Process(machine, program, box.env, View(machine.files, machine.now, at), {})
    if container.instance is None:
        return
    beside: dict[int, Process] = {}
    first.started = container.instance.started_at
    first.use = lambda: use(sandbox, container, working(beside.values()), first=True)
    first.fate = partial(_end, sandbox, container)
    if (code := sandbox.worker.program(container).term_code) is not None:
        first.handlers["TERM"] = lambda name: sandbox.cut(container, "", code)
    machine.muster = partial(_muster, sandbox, container, first, beside)
    machine.muster()


def _muster(sandbox: Sandbox, container: Container, first: Process, beside: dict[int, Process]) -> None:
    """Let those stand ``beside`` the first process that are there now."""
    machine = first.machine
    wanted = {machine.numbering(each.pid): each for each in members(sandbox, container)}
    for pid in [pid for pid in beside if pid not in wanted]:
        beside.pop(pid).vanish()
    for pid, member in wanted.items():
        if pid not in machine.processes:
            made = stand(first, member, partial(_lose, sandbox, container, member, machine.hostname))
            if member.rank >= 0:
                made.use = lambda: use(sandbox, container, working(beside.values()), first=False)
            beside[pid] = made


def working(beside: Iterable[Process]) -> int:
    """Return how many of these processes compute."""
    return sum(each.use is not Use for each in beside)


def stand(first: Process, member: Member, fate: Callable[[str], None]) -> Process:
    """Let one of the processes that another has started stand beside it; ``fate`` is told what has killed it."""
    machine = first.machine
    program, env = Program("", "", member.argv[0], member.argv), {**first.env, **dict(member.env)}
    view = View(machine.files, machine.now, first.cwd, first.view.uid, first.view.gid)
    made = Process(machine, program, env, view, {}, pid=machine.numbering(member.pid))
    made.parent, made.group = machine.numbering(member.parent), first.group
    machine.next_pid = max(machine.next_pid, member.pid + 1)
    made.started, made.fate = first.started, fate
    return made


def use(sandbox: Sandbox, container: Container, ranks: int, *, first: bool) -> Use:
    """Return what one of a container's processes uses now: the ``ranks`` do the work, where there are some."""
    if container.instance is None:
        return Use()
    elapsed = (sandbox.host.clock.now() - container.instance.started_at).total_seconds()
    whole = usage.of(sandbox.worker, container).at(elapsed)
    if not ranks:
        return whole
    return LAUNCHER if first else whole.part(ranks)


def used(sandbox: Sandbox, container: Container, machine: Machine) -> Use:
    """Return what all processes of a container use now, as the kubelet measures it."""
    if container.instance is None:
        return Use()
    now = sandbox.host.clock.now()
    elapsed = (now - container.instance.started_at).total_seconds()
    own, meter, at = usage.of(sandbox.worker, container), machine.meter, now.timestamp()
    return Use(
        own.cpu(elapsed) + meter.cores(at),
        own.cpu_seconds(elapsed) + meter.seconds(at),
        int(own.memory(elapsed)) + machine.held,
    )


LAUNCHER = Use(0.01, 3.4, 402 << 20)
"""What torchrun itself uses, whose ranks compute."""


def strike(sandbox: Sandbox, container: Container, member: Member | None, name: str) -> None:
    """Let a signal from the node reach a container's own process (``member`` None) or one beside it."""
    if name in HARMLESS or name in STOPPING:
        return
    if member is not None:
        _lose(sandbox, container, member, sandbox.hostname, name)
    elif name == "KILL":
        _end(sandbox, container, name)
    elif name == "TERM" and (code := sandbox.worker.program(container).term_code) is not None:
        sandbox.cut(container, "", code)


def _end(sandbox: Sandbox, container: Container, name: str) -> None:
    """The container's own process is killed from outside."""
    sandbox.cut(container, "", 128 + NUMBERS[name])


def _lose(sandbox: Sandbox, container: Container, member: Member, host: str, name: str) -> None:
    """A rank is killed: torchrun notices, tells and ends."""
    sandbox.cut(container, last_words(member, host, sandbox.host.clock.now(), name), 1)


def last_words(member: Member, host: str, at: datetime, name: str) -> str:
    """Return what torchrun prints where a signal has ended one of its ranks."""
    script = next((word for word in member.argv if word.endswith(".py")), "train.py").rpartition("/")[2]
    local = int(dict(member.env).get("LOCAL_RANK", "0"))
    return collectives.ended(local, member.rank, member.pid, NUMBERS[name], script, host, at)


APART = 400
"""Between the numbers of two containers' first processes."""
AFTER_PAUSE = 6
PAUSE = "/pause"


async def join(sandbox: Sandbox, container: Container, made: Machine) -> None:
    """Let a new machine see the processes that it shares, and be seen."""
    record = sandbox.worker.record
    pod = record.pod["spec"]
    if pod.get("hostPID"):
        return
    place = [each.name for each in record.containers].index(container.name)
    if pod.get("shareProcessNamespace"):
        made.numbering = partial(_shifted, AFTER_PAUSE + APART * place)
        made.outside = partial(_all, sandbox, made)
        return
    name = record.spec(container).get("targetContainerName")
    target = next((each for each in record.containers if each.name == name and each.running), None)
    if target is not None:
        _, looked_at = await sandbox.inside(target)
        made.numbering = partial(_shifted, looked_at.next_pid + APART * place)
        made.outside = partial(_beside, looked_at)
        before = looked_at.outside
        looked_at.outside = lambda: {**before(), **made.processes}


def _shifted(offset: int, inner: int) -> int:
    return offset + inner


def _beside(other: Machine) -> Mapping[int, Any]:
    other.muster()
    return other.processes


def _all(sandbox: Sandbox, made: Machine) -> Mapping[int, Any]:
    """Return the processes of a pod's other containers that somebody has entered, and the one that holds it open."""
    started = sandbox.worker.record.bound_at
    found: dict[int, Any] = {1: HostProcess(1, 0, [PAUSE], started, uid=65535)}
    for box in sandbox.boxes.values():
        if box.machine is not None and box.machine is not made:
            found |= _beside(box.machine)
    return found


async def wake(sandbox: Sandbox, container: Container) -> None:
    """Let all of a pod's containers have a machine whose processes are seen from the one that is entered."""
    record = sandbox.worker.record
    if record.pod["spec"].get("shareProcessNamespace"):
        for each in record.containers:
            if each is not container and each.running and sandbox.entered(each) is None:
                await sandbox.inside(each)
