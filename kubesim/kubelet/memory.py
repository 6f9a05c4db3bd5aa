"""What happens to a container whose memory is full: the kernel kills every process in it, and says so in its log.

Since Kubernetes 1.28 the kubelet sets memory.oom.group of a container's control group (version 2): a child's memory
ends its container too; containerd then gives OOMKilled as the reason, whatever the exit code.
"""

from __future__ import annotations

from datetime import datetime

from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.gpu.kernel_log import KernelLog
from kubesim.kubelet.failures import cut
from kubesim.kubelet.programs import OOM_CODE, OOM_REASON, Exit, Program
from kubesim.kubelet.status import qos_class
from kubesim.kubelet.usage import usage

LEAST_SCORE, MOST_SCORE, GUARANTEED_SCORE, BEST_EFFORT_SCORE = 3, 999, -997, 1000
"""The kubelet's bounds of oom_score_adj for burstable pods, and its values for the others."""
KIB, NAME_LENGTH = 1024, 15
WARNING, INFO, ERROR = 4, 6, 3
"""Levels of the kernel's log."""


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


def tell(
    log: KernelLog, at: datetime, pod: Obj, container: Obj, instance: str, program: str, node_memory: int
) -> None:
    """Write what the kernel writes of a full control group; ``instance`` is the container's id."""
    group = _group(pod, instance)
    scope, score, limit = group.rpartition("/")[2], _score(pod, container, node_memory), limit_of(container) // KIB
    name, pid = program.rpartition("/")[2][:NAME_LENGTH], 10_000 + int(instance[:4], 16)
    victim = f"Killed process {pid} ({name}) total-vm:{limit + 8192}kB, anon-rss:{limit - limit // 64}kB, "
    victim += f"file-rss:{limit // 128}kB, shmem-rss:0kB, UID:0 pgtables:{limit // 256 + 64}kB oom_score_adj:{score}"
    where = f"oom_memcg={group},task_memcg={group},task={name},pid={pid},uid=0"
    lines = [
        (WARNING, f"{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj={score}"),
        (INFO, f"memory: usage {limit}kB, limit {limit}kB, failcnt 28"),
        (INFO, "swap: usage 0kB, limit 0kB, failcnt 0"),
        (INFO, f"Memory cgroup stats for {group}:"),
        (INFO, f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={scope},mems_allowed=0,{where}"),
        (ERROR, f"Memory cgroup out of memory: {victim}"),
        (INFO, f"Tasks in {group} are going to be killed due to memory.oom.group set"),
        (ERROR, f"Memory cgroup out of memory: {victim}"),
    ]
    for level, text in lines:
        log.write(at, text, level)


def _group(pod: Obj, instance: str) -> str:
    """Return the control group of a container, as systemd names it."""
    kind = qos_class(pod["spec"]).lower()
    inner = "" if kind == "guaranteed" else f"-{kind}"
    outer = "" if kind == "guaranteed" else f"/kubepods-{kind}.slice"
    uid = pod["metadata"]["uid"].replace("-", "_")
    return f"/kubepods.slice{outer}/kubepods{inner}-pod{uid}.slice/cri-containerd-{instance}.scope"


def _score(pod: Obj, container: Obj, node_memory: int) -> int:
    """Return the kubelet's oom_score_adj of a container: less for who has asked for more."""
    kind = qos_class(pod["spec"])
    if kind != "Burstable":
        return GUARANTEED_SCORE if kind == "Guaranteed" else BEST_EFFORT_SCORE
    asked = int(parse(str(((container.get("resources") or {}).get("requests") or {}).get("memory", 0))))
    return min(max(1000 - 1000 * asked // max(node_memory, 1), LEAST_SCORE), MOST_SCORE)
