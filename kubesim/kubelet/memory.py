"""Control group of a container (version 2): its limits and use as files, and its end where its memory is full.

The kubelet, ``kubectl top`` and Prometheus measure the same use (Documentation/admin-guide/cgroup-v2.rst). Since
Kubernetes 1.28 the kubelet sets memory.oom.group: a child's memory ends its container too; containerd then gives
OOMKilled as the reason, whatever the exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from kubesim import data
from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.kubelet.failures import cut
from kubesim.kubelet.programs import OOM_CODE, OOM_REASON, Exit, Program
from kubesim.kubelet.status import qos_class
from kubesim.kubelet.usage import usage
from kubesim.shell.files import HIDDEN, Directory, File, Mount
from kubesim.shell.machine import Machine
from kubesim.shell.meter import Use

if TYPE_CHECKING:
    from kubesim.kubelet.records import Container
    from kubesim.kubelet.sandbox import Sandbox

_texts = data.beside(__file__, "oom.yaml")
LEAST_SCORE, MOST_SCORE, GUARANTEED_SCORE, BEST_EFFORT_SCORE = 3, 999, -997, 1000
"""The kubelet's bounds of oom_score_adj for burstable pods, and its values for the others."""
KIB, NAME_LENGTH = 1024, 15
PODS, EVERYWHERE = "/kubepods.slice", "/"
"""The control group of all pods, and that of the whole node."""


def limit_of(spec: Obj) -> int:
    """Return the bytes that a container may use at most; 0: no limit."""
    limits = (spec.get("resources") or {}).get("limits") or {}
    return int(parse(str(limits["memory"]))) if "memory" in limits else 0


def bounded(program: Program, limit: int) -> Program:
    """Return a program that is killed when it needs more than ``limit`` bytes (0: none)."""
    full = usage(program.load, "", memory_limit=limit).full_at() if limit else None
    return killed(program, full) if full is not None else program


def killed(program: Program, at: float) -> Program:
    """Return a program that the kernel kills ``at`` seconds after its start, unless it is over before that."""
    return cut(program, at, "", OOM_CODE, OOM_REASON)


def overrun(ending: Exit | None, at: float | None) -> Exit | None:
    """Return the end of a process whose group's memory was full ``at`` seconds after its start (None: never)."""
    return Exit(ending.at, ending.code, OOM_REASON) if ending is not None and at is not None else ending


def report(sandbox: Sandbox, container: Container, at: datetime) -> None:
    """Let the node's kernel log say that a container was killed for memory."""
    record, node, instance = sandbox.worker.record, sandbox.host.node, container.instance
    assert instance is not None
    spec, memory = record.spec(container), int(parse(node.capacity.get("memory", "4Gi")))
    group, (name, pid) = control_group(record.pod, instance.id), process(sandbox, container)
    full = (sandbox.overwhelmed or {}).pop(container.name, None)
    where, held = full or (group, limit_of(spec))
    adjusted, size, texts = score(record.pod, spec, memory), held // KIB, _texts()
    victim = texts["victim"].format(
        pid=pid, name=name, adjusted=adjusted, total=size + 8192, anon=size - size // 64, file=size // 128,
        tables=size // 256 + 64,
    )  # fmt: skip
    values = {
        "name": name, "adjusted": adjusted, "group": group, "where": where, "cpuset": group.rpartition("/")[2],
        "task": f"task_memcg={group},task={name},pid={pid},uid=0", "victim": victim, "pages": memory // 4096,
        "most": size if where == group else memory // KIB,
    }  # fmt: skip
    for level, text in texts["node" if where == EVERYWHERE else "group"]:
        node.gpus.board.log.write(at, text.format(**values), level)


def overwhelm(sandbox: Sandbox, container: Container, scope: str, held: int) -> None:
    """Let the kernel kill a container that holds so many bytes: the control group ``scope`` is full."""
    sandbox.overwhelmed = {**(sandbox.overwhelmed or {}), container.name: (scope, held)}
    sandbox.full(container)
    if (machine := sandbox.entered(container)) is not None:
        machine.stop()


def process(sandbox: Sandbox, container: Container) -> tuple[str, int]:
    """Return the name and number by which the kernel knows a container's own process."""
    argv, instance = sandbox.worker.argv(container), container.instance
    assert instance is not None
    number = sandbox.host.node.gpus.numbers.of(instance.id, 1, instance.started_at)
    return (argv[0] if argv else "").rpartition("/")[2][:NAME_LENGTH], number


def control_group(pod: Obj, instance: str) -> str:
    """Return the control group of a container, as systemd names it."""
    kind = qos_class(pod["spec"]).lower()
    inner = "" if kind == "guaranteed" else f"-{kind}"
    outer = "" if kind == "guaranteed" else f"/kubepods-{kind}.slice"
    uid = pod["metadata"]["uid"].replace("-", "_")
    return f"/kubepods.slice{outer}/kubepods{inner}-pod{uid}.slice/cri-containerd-{instance}.scope"


def score(pod: Obj, container: Obj, node_memory: int) -> int:
    """Return the kubelet's oom_score_adj of a container: less for who has asked for more."""
    kind = qos_class(pod["spec"])
    if kind != "Burstable":
        return GUARANTEED_SCORE if kind == "Guaranteed" else BEST_EFFORT_SCORE
    asked = int(parse(str(((container.get("resources") or {}).get("requests") or {}).get("memory", 0))))
    return min(max(1000 - 1000 * asked // max(node_memory, 1), LEAST_SCORE), MOST_SCORE)


ROOT = "/sys/fs/cgroup"
CPU_PERIOD_US, USEC = 100_000, 1_000_000
USER_SHARE, THROTTLED_SHARE, NEAR_LIMIT = 0.87, 0.83, 0.97
"""The share of the CPU time outside the kernel; the share of periods that are throttled near a limit."""
MIN_SHARES, MAX_SHARES = 2, 262144
CONTROLLERS = "cpuset cpu io memory hugetlb pids rdma misc"


def mount(machine: Machine, spec: Obj, used: Callable[[], Use], age: Callable[[], float]) -> None:
    """Put the files into a container's machine; ``used`` tells what all its processes together use.

    ``age`` tells for how many seconds the container has run.
    """
    resources = spec.get("resources") or {}
    limits, folder = resources.get("limits") or {}, Directory(mtime=machine.now())
    machine.files.mount(ROOT, Mount(folder, kind=HIDDEN))  # of the kernel: it takes no disk
    for name, text in _limits(limits, resources.get("requests") or {}, machine.cpus).items():
        folder.put(name, File(mode=0o644, data=f"{text}\n".encode()))
    cores = float(parse(str(limits.get("cpu", 0))))
    figures: dict[str, Callable[[], str]] = {
        "cpu.stat": lambda: _cpu(used(), cores, age()),
        "memory.current": lambda: str(used().memory + _pages(used())),
        "memory.peak": lambda: str(used().memory + _pages(used())),
        "memory.stat": lambda: _memory(used()),
        "pids.current": lambda: str(len(machine.processes)),
        "cgroup.procs": lambda: "\n".join(str(pid) for pid in sorted(machine.all())),
    }
    for name, tell in figures.items():
        folder.put(name, File(mode=0o444, make=lambda tell=tell: f"{tell()}\n".encode()))  # type: ignore[misc]


def _limits(limits: Obj, requests: Obj, cpus: int) -> dict[str, str]:
    memory, cpu = limits.get("memory"), limits.get("cpu")
    quota = f"{int(parse(str(cpu)) * CPU_PERIOD_US)}" if cpu else "max"
    return {
        "cgroup.controllers": CONTROLLERS,
        "cgroup.type": "domain",
        "cpu.max": f"{quota} {CPU_PERIOD_US}",
        "cpu.weight": str(weight(float(parse(str(requests.get("cpu", cpu or 0)))))),
        "cpuset.cpus.effective": f"0-{max(cpus - 1, 0)}",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
        "memory.high": "max",
        "memory.low": "0",
        "memory.max": str(int(parse(str(memory)))) if memory else "max",
        "memory.min": "0",
        "memory.oom.group": "1",
        "memory.swap.current": "0",
        "memory.swap.max": "0",
        "pids.max": "max",
    }


def weight(cores: float) -> int:
    """Return cpu.weight of a request, as runc converts the shares of version 1 (opencontainers/cgroups)."""
    shares = min(max(int(cores * 1024), MIN_SHARES), MAX_SHARES)
    return 1 + ((shares - MIN_SHARES) * 9999) // (MAX_SHARES - MIN_SHARES)


def _cpu(use: Use, limit: float, elapsed_s: float) -> str:
    whole = int(use.seconds * USEC)
    periods = int(elapsed_s * USEC / CPU_PERIOD_US) if limit else 0
    throttled = int(periods * THROTTLED_SHARE) if limit and use.cores >= limit * NEAR_LIMIT else 0
    rows = {
        "usage_usec": whole,
        "user_usec": int(whole * USER_SHARE),
        "system_usec": whole - int(whole * USER_SHARE),
        "nr_periods": periods,
        "nr_throttled": throttled,
        "throttled_usec": throttled * CPU_PERIOD_US // 3,
        "nr_bursts": 0,
        "burst_usec": 0,
    }
    return "\n".join(f"{name} {value}" for name, value in rows.items())


def _pages(use: Use) -> int:
    """Return the bytes of files that the kernel keeps for the group and gives back where memory is short."""
    return use.memory // 9 // 4096 * 4096


def _memory(use: Use) -> str:
    rows = {
        "anon": use.memory * 9 // 10, "file": _pages(use) + use.memory // 10, "kernel": use.memory // 60,
        "kernel_stack": 16384 * 8, "pagetables": use.memory // 400, "shmem": 0, "file_mapped": use.memory // 14,
        "file_dirty": 0, "inactive_anon": use.memory * 9 // 10, "active_anon": 4096, "inactive_file": _pages(use),
        "active_file": use.memory // 10, "slab": use.memory // 90, "pgfault": use.memory // 4096, "pgmajfault": 12,
    }  # fmt: skip
    return "\n".join(f"{name} {value}" for name, value in rows.items())
