"""/proc: computed when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesim.gpu.board import BUILD, COMMAND_LINE, COMPILED
from kubesim.gpu.hardware import modules
from kubesim.shell.files import HIDDEN, Directory, File, Link, Listing, Mount, Node
from kubesim.shell.machine import Machine, Process

CPU = """processor\t: {number}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
stepping\t: 8
cpu MHz\t\t: 2699.998
cache size\t: 107520 KB
cpu cores\t: {cores}
bogomips\t: 5399.99

"""


def _file(make: Callable[[], str]) -> File:
    return File(mode=0o444, make=lambda: make().encode("utf-8", "surrogateescape"))


def directory(machine: Machine, everyone: Callable[[], Mapping[int, Any]] | None = None) -> Directory:
    """Return the /proc of a machine, or with ``everyone`` that of its node: with these processes."""
    seen = everyone or machine.all
    fixed = {
        "cpuinfo": lambda: "".join(
            CPU.format(number=at, cores=max(machine.cpus // 2, 1)) for at in range(machine.cpus)
        ),
        "meminfo": lambda: _memory(machine.vitals().meminfo()),
        "loadavg": lambda: f"{_loads(machine)} 1/{len(machine.processes) + 150} {machine.next_pid}\n",
        "uptime": lambda: f"{machine.vitals().up_s:.2f} {machine.vitals().times()['idle']:.2f}\n",
        "version": lambda: f"Linux version {machine.kernel} {COMPILED} {BUILD}\n",
        "mounts": lambda: mounts(machine),
        "stat": lambda: _stat(machine),
        "modules": lambda: _modules(machine),
        "filesystems": lambda: "nodev\tproc\nnodev\ttmpfs\nnodev\toverlay\n\text4\n",
        "cmdline": lambda: COMMAND_LINE.format(kernel=machine.kernel) + "\n",
    }

    def find(name: str) -> Node | None:
        if name in fixed:
            return _file(fixed[name])
        if name == "self":
            running = max(machine.processes, default=1)
            return Link(target=str(machine.on_node(running) if everyone else running))
        if name.isdecimal() and (found := seen().get(int(name))) is not None:
            return _process(machine, found)
        return None

    def names() -> list[str]:
        return [*(str(pid) for pid in sorted(seen())), *sorted(fixed), "self"]

    return Listing(mode=0o555, find=find, all=names)


def _memory(rows: dict[str, int]) -> str:
    return "".join(
        f"{name + ':':<16}{value:>8}\n" if name.startswith("Huge") else f"{name + ':':<16}{value // 1024:>8} kB\n"
        for name, value in rows.items()
    )


def _modules(machine: Machine) -> str:
    rows = modules(machine.devices.board if machine.devices is not None else None)
    return "".join(
        f"{name} {size} {count} {''.join(each + ',' for each in by) or '-'} Live 0x0000000000000000\n"
        for name, size, count, by in rows
    )


def _loads(machine: Machine) -> str:
    return " ".join(f"{load:.2f}" for load in machine.vitals().loads)


STAT = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
"""The order of the columns of /proc/stat."""


def _stat(machine: Machine) -> str:
    vitals = machine.vitals()
    spent = vitals.times()
    ticks = [spent.get(mode, 0.0) * 100 for mode in STAT]
    each = " ".join(f"{count / vitals.cpus:.0f}" for count in ticks)
    rows = [f"cpu  {' '.join(f'{count:.0f}' for count in ticks)}", *(f"cpu{n} {each}" for n in range(vitals.cpus))]
    rows += [f"btime {machine.now() - vitals.up_s:.0f}", f"processes {machine.next_pid + 41822}", "procs_running 1"]
    return "\n".join([*rows, "procs_blocked 0"]) + "\n"


def mounts(machine: Machine) -> str:
    """Return the text of /proc/mounts."""
    return table("overlay / overlay", machine.files.mounts)


def table(root: str, mounted: Mapping[str, Mount]) -> str:
    """Return the text of a table of mounts: the root (source, path, kind) and what is mounted below it."""
    rows = [f"{root} rw,relatime 0 0", "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0"]
    for path, mount in mounted.items():
        if path != "/proc" and mount.kind != HIDDEN:
            rows.append(f"{mount.source} {path} {mount.kind} {'ro' if mount.readonly else 'rw'},relatime 0 0")
    return "\n".join(rows) + "\n"


def _process(machine: Machine, process: Any) -> Directory:
    files: dict[str, Node] = {
        "cmdline": _file(lambda: "".join(word + "\0" for word in process.argv)),
        "comm": _file(lambda: process.name[:15] + "\n"),
        "environ": _file(lambda: "".join(f"{name}={text}\0" for name, text in process.env.items())),
        "status": _file(lambda: _status(process)),
        "mounts": _file(lambda: mounts(machine)),
        "cgroup": _file(lambda: getattr(process, "cgroup", "0::/\n")),
        "oom_score_adj": _file(lambda: "0\n"),
        "ns": Directory(mode=0o511, entries={name: Link(target=f"{name}:[{number}]") for name, number in NAMESPACES}),
        "limits": _file(
            lambda: (
                "Limit                     Soft Limit           Hard Limit           Units     \n"
                "Max open files            1048576              1048576              files     \n"
            )
        ),
        "cwd": Link(target=process.cwd),
        "exe": Link(target=_executable(process)),
        **({"root": root} if (root := _root(process)) is not None else {}),
    }
    return Directory(mode=0o555, entries=dict(files))


NAMESPACES = (("ipc", 4026531839), ("mnt", 4026531841), ("net", 4026531840), ("pid", 4026531836), ("uts", 4026531838))
"""The node's own, by their kinds."""


def _root(process: Any) -> Directory | None:
    """Return the tree that a process sees, without what is mounted into it."""
    inner = process if isinstance(process, Process) else getattr(process, "inner", None)
    return inner.view.files.root if inner is not None else None


def _executable(process: Any) -> str:
    """Return the file that a process runs."""
    known = process.program.path if isinstance(process, Process) else ""
    first = str(process.argv[0]) if process.argv else ""
    return known or (first if first.startswith("/") else f"/usr/bin/{process.name}")


def _inside(process: Any) -> str:
    """Return under which numbers a process is known: on its node, and in its container."""
    inner = getattr(process, "within", 0) or process.pid
    return f"NSpid:\t{process.pid}" + (f"\t{inner}\n" if inner != process.pid else "\n")


def _status(process: Any) -> str:
    view = process.view
    state = "T (stopped)" if process.stopped else "S (sleeping)"
    return (
        f"Name:\t{process.name[:15]}\nUmask:\t{view.umask:04o}\nState:\t{state}\nTgid:\t{process.pid}\nPid:\t{process.pid}\n"
        f"PPid:\t{process.parent}\nUid:\t{view.uid}\t{view.uid}\t{view.uid}\t{view.uid}\n"
        f"Gid:\t{view.gid}\t{view.gid}\t{view.gid}\t{view.gid}\n"
        f"{_inside(process)}VmRSS:\t{process.use().memory >> 10:8d} kB\nThreads:\t1\n"
    )
