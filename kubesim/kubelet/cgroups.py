"""Control group of a container (version 2): its limits, and what its processes use, as files below /sys/fs/cgroup.

The kubelet, ``kubectl top`` and Prometheus measure the same use. Formats: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.shell.files import HIDDEN, Directory, File, Mount
from kubesim.shell.machine import Machine
from kubesim.shell.meter import Use

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
        "anon": use.memory * 9 // 10,
        "file": _pages(use) + use.memory // 10,
        "kernel": use.memory // 60,
        "kernel_stack": 16384 * 8,
        "pagetables": use.memory // 400,
        "shmem": 0,
        "file_mapped": use.memory // 14,
        "file_dirty": 0,
        "inactive_anon": use.memory * 9 // 10,
        "active_anon": 4096,
        "inactive_file": _pages(use),
        "active_file": use.memory // 10,
        "slab": use.memory // 90,
        "pgfault": use.memory // 4096,
        "pgmajfault": 12,
    }
    return "\n".join(f"{name} {value}" for name, value in rows.items())
