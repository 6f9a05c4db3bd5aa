"""Everything that runs on a node, by its own numbers, and the logs of its pods as files: made when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from kubesim.errors import Obj
from kubesim.kubelet import computed, logs
from kubesim.kubelet.host import Node as HostNode
from kubesim.kubelet.memory import control_group
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.records import Container
from kubesim.kubelet.rooted import PODS
from kubesim.kubelet.torchrun import PAUSE, SHIM, shown
from kubesim.shell.files import Directory, File, Link, Listing, Node
from kubesim.shell.hostside import HostProcess, sandbox, system
from kubesim.shell.machine import Process
from kubesim.shell.meter import Use

if TYPE_CHECKING:
    from kubesim.kubelet.pod import PodWorker


SHIM_WORDS = "/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id {id} -address /run/containerd/containerd.sock"


def table(node: HostNode, workers: Iterable[PodWorker]) -> list[HostProcess]:
    """Return the node's processes: the kernel's, the system's, and those of its pods."""
    here = [worker for worker in workers if not worker.gone]
    keys = [worker.record.uid for worker in here]
    keys += [each.instance.id for worker in here for each in worker.record.containers if each.instance is not None]
    node.gpus.numbers.keep(keys)
    found = system(node.gpus.board, node.agents.services)
    for worker in sorted(here, key=lambda worker: (worker.record.bound_at, worker.record.uid)):
        found += _pod(worker)
    return found


def _pod(worker: PodWorker) -> Iterator[HostProcess]:
    record, number = worker.record, worker.node.gpus.numbers.of
    running = [each for each in record.containers if each.running and each.name in worker.sandbox.boxes]
    started = [each.instance.started_at for each in running if each.instance is not None]
    if not started:
        return
    at = min(started)
    shim = number(record.uid, SHIM, at - timedelta(seconds=1))
    words, cgroup = SHIM_WORDS.format(id=sandbox(record.pod)), "0::/system.slice/containerd.service\n"
    yield HostProcess(shim, 1, words.split(), at, cgroup=cgroup)
    own = _cgroup(record.pod, sandbox(record.pod))
    yield HostProcess(number(record.uid, PAUSE, at), shim, ["/pause"], at, own, 65535)
    for container in running:
        yield from _container(worker, container, shim)


def _container(worker: PodWorker, container: Container, shim: int) -> Iterator[HostProcess]:
    """Yield the processes of a container: those of its machine, or those that would stand in one."""
    box, instance, record = worker.sandbox.boxes[container.name], container.instance, worker.record
    assert instance is not None
    cgroup = _cgroup(record.pod, instance.id)
    if box.machine is not None:
        box.machine.muster()
        numbers = {pid: box.machine.on_node(pid) for pid in box.machine.processes}
        for pid, inner in [*box.machine.processes.items()]:
            yield _seen(inner, numbers[pid], numbers.get(inner.parent, shim), cgroup)
        return
    number, spec = worker.node.gpus.numbers.of, record.spec(container)
    context = {**(record.pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
    uid = int(context.get("runAsUser") or 0)
    parents = {1: number(instance.id, 1, instance.started_at)}
    others = computed.members(worker.sandbox, container)
    ranks = sum(each.rank >= 0 for each in others)
    yield HostProcess(
        parents[1], shim, [*shown(worker.argv(container))], instance.started_at, cgroup=cgroup, uid=uid, env=box.env,
        use=partial(computed.use, worker.sandbox, container, ranks, first=True),
        strike=partial(computed.strike, worker.sandbox, container, None), within=1,
    )  # fmt: skip
    for each in others:
        parents[each.pid] = number(instance.id, each.pid, instance.started_at)
        yield HostProcess(
            parents[each.pid], parents.get(each.parent, shim), [*each.argv], instance.started_at, cgroup, uid,
            env={**box.env, **dict(each.env)},
            use=partial(computed.use, worker.sandbox, container, ranks, first=False) if each.rank >= 0 else Use,
            strike=partial(computed.strike, worker.sandbox, container, each), within=each.pid,
        )  # fmt: skip


def _seen(each: Process, pid: int, parent: int, cgroup: str) -> HostProcess:
    """Return a process of a container as its node has it."""
    return HostProcess(
        pid, parent, each.argv, each.started, cgroup=cgroup, uid=each.view.uid, env=each.env, use=lambda: each.use(),
        within=each.pid, strike=each.signal, inner=each,
    )  # fmt: skip


def _cgroup(pod: Obj, ident: str) -> str:
    return f"0::{control_group(pod, ident)}\n"


def pod_logs(workers: Callable[[], list[PodWorker]], now: Callable[[], datetime]) -> tuple[Directory, Directory]:
    """Return /var/log/pods and /var/log/containers of a node."""

    def folders() -> dict[str, Callable[[], Node]]:
        return {_folder(worker): partial(_pod_folder, worker, now) for worker in workers()}

    def links() -> dict[str, Callable[[], Node]]:
        return {name: partial(_link, target) for worker in workers() for name, target in _links(worker)}

    return _listing(folders), _listing(links)


def _listing(entries: Callable[[], dict[str, Callable[[], Node]]]) -> Listing:
    def find(name: str) -> Node | None:
        make = entries().get(name)
        return make() if make is not None else None

    return Listing(find=find, all=lambda: sorted(entries()))


def _link(target: str) -> Node:
    return Link(target=target)


def _folder(worker: PodWorker) -> str:
    meta = worker.record.pod["metadata"]
    return f"{meta['namespace']}_{meta['name']}_{meta['uid']}"


def _links(worker: PodWorker) -> Iterator[tuple[str, str]]:
    meta = worker.record.pod["metadata"]
    for each in worker.record.containers:
        if each.instance is not None:
            name = f"{meta['name']}_{meta['namespace']}_{each.name}-{each.instance.id}.log"
            yield name, f"{PODS}/{_folder(worker)}/{each.name}/{each.restarts}.log"


def _pod_folder(worker: PodWorker, now: Callable[[], datetime]) -> Node:
    def container(name: str) -> Node | None:
        each = next((each for each in worker.record.containers if each.name == name and each.instance), None)
        if each is None:
            return None
        files: dict[str, Callable[[], Node]] = {}
        files[f"{each.restarts}.log"] = partial(_log, worker, name, now, previous=False)
        if each.previous is not None:
            files[f"{each.restarts - 1}.log"] = partial(_log, worker, name, now, previous=True)
        return _listing(lambda: files)

    return Listing(find=container, all=lambda: sorted(c.name for c in worker.record.containers if c.instance))


def _log(worker: PodWorker, container: str, now: Callable[[], datetime], *, previous: bool) -> Node:
    """Return the log of a container as the runtime writes it: when, which stream, whether the line is whole."""

    def lines() -> bytes:
        text = logs.read(worker, container, {"timestamps": True, "previous": previous}, now())
        whole = (line.partition(b" ") for line in text.splitlines())
        return b"".join(at + b" stdout F " + line + b"\n" for at, _, line in whole)

    return File(mode=0o640, make=lines)
