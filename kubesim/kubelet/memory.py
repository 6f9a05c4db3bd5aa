"""What happens to a container whose memory is full: the kernel kills every process in it, and says so in its log.

Since Kubernetes 1.28 the kubelet sets memory.oom.group of a container's control group (version 2): a child's memory
ends its container too; containerd then gives OOMKilled as the reason, whatever the exit code.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.gpu.kernel_log import KernelLog
from kubesim.kubelet.failures import cut
from kubesim.kubelet.programs import OOM_CODE, OOM_REASON, Exit, Program
from kubesim.kubelet.status import qos_class
from kubesim.kubelet.usage import usage

if TYPE_CHECKING:
    from kubesim.kubelet.records import Container
    from kubesim.kubelet.sandbox import Sandbox

LEAST_SCORE, MOST_SCORE, GUARANTEED_SCORE, BEST_EFFORT_SCORE = 3, 999, -997, 1000
"""The kubelet's bounds of oom_score_adj for burstable pods, and its values for the others."""
KIB, NAME_LENGTH = 1024, 15
WARNING, INFO, ERROR = 4, 6, 3
"""Levels of the kernel's log."""
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
    size = int(parse(node.capacity.get("memory", "4Gi")))
    full = (sandbox.overwhelmed or {}).pop(container.name, None)
    who = process(sandbox, container)
    tell(node.gpus.board.log, at, record.pod, record.spec(container), instance.id, who, size, full)


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


def tell(
    log: KernelLog,
    at: datetime,
    pod: Obj,
    container: Obj,
    instance: str,
    process: tuple[str, int],
    node_memory: int,
    full: tuple[str, int] | None = None,
) -> None:
    """Write what the kernel writes of a full control group; ``instance`` is the container's id.

    ``process``: its name and number; ``full``: the group that is full where it is not its own, and the bytes it held.
    """
    group = _group(pod, instance)
    where, held = full or (group, limit_of(container))
    adjusted, size = score(pod, container, node_memory), held // KIB
    name, pid = process
    victim = f"Killed process {pid} ({name}) total-vm:{size + 8192}kB, anon-rss:{size - size // 64}kB, "
    victim += f"file-rss:{size // 128}kB, shmem-rss:0kB, UID:0 pgtables:{size // 256 + 64}kB oom_score_adj:{adjusted}"
    task = f"task_memcg={group},task={name},pid={pid},uid=0"
    ending = "Out of memory" if where == EVERYWHERE else "Memory cgroup out of memory"
    cpuset = group.rpartition("/")[2]
    if where == EVERYWHERE:
        mask = "gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP)"
        cause = ["Mem-Info:", f"{node_memory // 4096} pages RAM", "0 pages HighMem/MovableOnly"]
        chosen = f"constraint=CONSTRAINT_NONE,nodemask=(null),cpuset={cpuset},mems_allowed=0,global_oom,{task}"
    else:
        mask, most = "gfp_mask=0xcc0(GFP_KERNEL)", size if where == group else node_memory // KIB
        cause = [f"memory: usage {most}kB, limit {most}kB, failcnt 28", "swap: usage 0kB, limit 0kB, failcnt 0"]
        cause.append(f"Memory cgroup stats for {where}:")
        chosen = (
            f"constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={cpuset},mems_allowed=0,oom_memcg={where},{task}"
        )
    log.write(at, f"{name} invoked oom-killer: {mask}, order=0, oom_score_adj={adjusted}", WARNING)
    for text in (*cause, f"oom-kill:{chosen}"):
        log.write(at, text, INFO)
    log.write(at, f"{ending}: {victim}", ERROR)
    log.write(at, f"Tasks in {group} are going to be killed due to memory.oom.group set", INFO)
    log.write(at, f"{ending}: {victim}", ERROR)


def _group(pod: Obj, instance: str) -> str:
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
