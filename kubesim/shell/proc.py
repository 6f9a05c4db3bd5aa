"""/proc: computed when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from kubesim import data
from kubesim.gpu.board import BUILD, COMMAND_LINE, COMPILED
from kubesim.gpu.hardware import driver_files, modules
from kubesim.shell import mounts
from kubesim.shell.files import Directory, File, Link, Listing, Node
from kubesim.shell.machine import Machine, Process
from kubesim.shell.meter import Use

CPU = Path(__file__).with_name("cpuinfo.txt").read_text(encoding="ascii")
"""One processor as /proc/cpuinfo has it."""
FIXED: dict[str, Any] = data.table(__file__, "proc.yaml")

SOCKET_CPUS = 104
"""The CPUs of one processor."""


def _topology(at: int, cpus: int) -> dict[str, int]:
    """Return where a CPU sits: two threads share a core, and the cores are spread over the processors."""
    sockets = max(-(-cpus // SOCKET_CPUS), 1)
    cores = max(cpus // 2 // sockets, 1)
    core = at % max(cpus // 2, 1)
    return {"socket": core // cores, "siblings": max(cpus // sockets, 1), "core": core % cores, "cores": cores}


def _file(make: Callable[[], str]) -> File:
    return File(mode=0o444, make=lambda: make().encode("utf-8", "surrogateescape"))


def directory(machine: Machine, everyone: Callable[[], Mapping[int, Any]] | None = None) -> Directory:
    """Return the /proc of a machine, or with ``everyone`` that of its node: with these processes."""
    seen = everyone or machine.all
    fixed: dict[str, Callable[[], str]] = {
        **{name: partial(str, text) for name, text in FIXED["files"].items()},
        "cpuinfo": lambda: "".join(
            CPU.format(number=at, **_topology(at, machine.cpus)) for at in range(machine.cpus)
        ),
        "meminfo": lambda: _memory(machine.vitals().meminfo()),
        "loadavg": lambda: f"{_loads(machine)} 1/{len(machine.processes) + 150} {machine.next_pid}\n",
        "uptime": lambda: f"{machine.vitals().up_s:.2f} {machine.vitals().times()['idle']:.2f}\n",
        "version": lambda: f"Linux version {machine.kernel} {COMPILED} {BUILD}\n",
        "mounts": lambda: table(machine),
        "stat": lambda: _stat(machine),
        "modules": lambda: _modules(machine),
        "cmdline": lambda: COMMAND_LINE.format(kernel=machine.kernel) + "\n",
        "devices": lambda: (
            FIXED["devices"] + FIXED["driver_devices"] * bool(machine.devices and machine.devices.board.devices)
        ),
    }

    def find(name: str) -> Node | None:
        if name in fixed:
            return replace(_file(fixed[name]), mtime=machine.now())
        if name in FOLDERS:
            return tree(_below(machine, whole=everyone is not None), machine.now()).get(name)
        if name == "self":
            running = max(machine.processes, default=1)
            return Link(target=str(machine.on_node(running) if everyone else running), mtime=machine.now())
        if name.isdecimal() and (found := seen().get(int(name))) is not None:
            return _process(machine, found)
        return None

    def names() -> list[str]:
        below = tree(_below(machine, whole=everyone is not None)).names()
        return [*(str(pid) for pid in sorted(seen())), *sorted(fixed), *below, "self"]

    return Listing(mode=0o555, mtime=machine.now(), find=find, all=names)


FOLDERS = ("driver", "net", "pressure", "sys")
"""Entries of /proc with a folder of their own, beside the processes."""


def tree(texts: Mapping[str, str], mtime: float = 0.0) -> Directory:
    """Return a folder of files that nobody can write, by their paths."""
    root = Directory(mode=0o555, mtime=mtime)
    for path, text in texts.items():
        *folders, name = path.split("/")
        here = root
        for each in folders:
            below = here.get(each)
            if not isinstance(below, Directory):
                below = Directory(mode=0o555, mtime=mtime)
                here.put(each, below)
            here = below
        here.put(name, File(mode=0o444, data=text.encode(), mtime=mtime))
    return root


def _below(machine: Machine, *, whole: bool) -> dict[str, str]:
    """Return the files in folders: of the driver those of the devices that a container has, or of all (``whole``)."""
    wires, found = machine.wires(), _settings(machine)
    if (access := machine.devices) is not None:
        apart = access.has_driver and not access.privileged and not whole
        own = dict.fromkeys(access.devices()) if apart else access.board.devices
        found |= driver_files(access.board, own)
    names = [each.name for each in wires.wires]
    found["net/dev"] += "".join(f"{name:>6}: {' '.join(['0'] * 16)}\n" for name in names)
    if wires.gateway:
        turned = "".join(f"{int(part):02X}" for part in reversed(wires.gateway.split(".")))
        found["net/route"] += f"eth0\t00000000\t{turned}\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    return found


def _settings(machine: Machine) -> dict[str, str]:
    kernel = {
        "hostname": machine.hostname,
        "osrelease": machine.kernel,
        "version": BUILD,
        "random/boot_id": machine.info.get("bootID", ""),
        "random/uuid": str(uuid4()),
    }
    return {**FIXED["folders"], **{f"sys/kernel/{name}": f"{text}\n" for name, text in kernel.items()}}


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


def _stat(machine: Machine) -> str:
    vitals = machine.vitals()
    spent = vitals.times()
    ticks = [spent.get(mode, 0.0) * 100 for mode in FIXED["stat"]]
    each = " ".join(f"{count / vitals.cpus:.0f}" for count in ticks)
    rows = [f"cpu  {' '.join(f'{count:.0f}' for count in ticks)}", *(f"cpu{n} {each}" for n in range(vitals.cpus))]
    rows += [f"btime {machine.now() - vitals.up_s:.0f}", f"processes {machine.next_pid + 41822}", "procs_running 1"]
    return "\n".join([*rows, "procs_blocked 0"]) + "\n"


def table(machine: Machine) -> str:
    """Return the text of a container's /proc/mounts."""
    return text_of(mounts.of_container(machine, machine.files))


def text_of(rows: Iterable[mounts.Row]) -> str:
    """Return mounts as lines of /proc/mounts."""
    return "".join(f"{' '.join(row)} 0 0\n" for row in rows)


def _process(machine: Machine, process: Any) -> Directory:
    def used() -> Use:
        return process.use().of(process.name)  # type: ignore[no-any-return]

    spaces = FIXED["namespaces"].items()
    files: dict[str, Node] = {
        "cmdline": _file(lambda: "".join(word + "\0" for word in process.argv)),
        "comm": _file(lambda: process.name[:15] + "\n"),
        "environ": _file(lambda: "".join(f"{name}={text}\0" for name, text in process.env.items())),
        "status": _file(lambda: _status(process)),
        "mounts": _file(lambda: table(machine)),
        "mountinfo": _file(lambda: _mount_info(machine)),
        "stat": _file(lambda: _process_stat(machine, process)),
        "statm": _file(lambda: f"{used().reserved >> 12} {used().memory >> 12} {used().memory >> 13} 1 0 256 0\n"),
        "cgroup": _file(lambda: getattr(process, "cgroup", "0::/\n")),
        "ns": Directory(mode=0o511, entries={name: Link(target=f"{name}:[{at}]") for name, at in spaces}),
        **{name: _file(partial(str, text)) for name, text in FIXED["process"].items()},
        "cwd": Link(target=process.cwd),
        "exe": Link(target=_executable(process)),
        "fd": _descriptors(process),
        **({"root": Link(target="/", leads=root)} if (root := _root(process)) is not None else {}),
    }
    at = process.started.timestamp()
    for node in files.values():
        node.mtime = at
    return Directory(mode=0o555, mtime=at, entries=dict(files))


def _mount_info(machine: Machine) -> str:
    return "".join(
        f"{620 + at} {600 if at else 500} 0:{40 + at} / {path} {flags} - {kind} {source} {flags.partition(',')[0]}\n"
        for at, (source, path, kind, flags) in enumerate(mounts.of_container(machine, machine.files))
    )


def _process_stat(machine: Machine, process: Any) -> str:
    """Return the 52 columns of proc(5), as far as they are told: number, name, state, parent, group, ..., memory."""
    began = max((process.started.timestamp() - machine.up_since) * 100, 0)
    use = process.use().of(process.name)
    tail = f"20 0 1 0 {began:.0f} {use.reserved} {use.memory >> 12} 18446744073709551615"
    head = f"{process.pid} ({process.name[:15]}) {_state(process)[0]} {process.parent}"
    group = getattr(process, "group", process.pid)
    return f"{head} {group} 1 0 -1 4194560 0 0 0 0 0 0 0 0 {tail} {' '.join(['0'] * 27)}\n"


def _root(process: Any) -> Directory | None:
    """Return the tree that a process sees, without what is mounted into it."""
    inner = process if isinstance(process, Process) else getattr(process, "inner", None)
    return inner.view.files.root if inner is not None else None


def _descriptors(process: Any) -> Directory:
    """Return the open files of a process: those of a program of the runtime are pipes, the first is none."""
    if not isinstance(process, Process):
        return Directory(mode=0o500)
    entries: dict[str, Node | None] = {}
    for number, handle in process.fds.items():
        pipe = f"pipe:[{process.pid * 8 + 41_816_000 + number}]"
        entries[str(number)] = Link(target="/dev/pts/0" if handle.tty else handle.path or pipe, mode=0o700)
    return Directory(mode=0o500, entries=entries)


def _executable(process: Any) -> str:
    """Return the file that a process runs."""
    known = process.program.path if isinstance(process, Process) else ""
    first = str(process.argv[0]) if process.argv else ""
    return known or (first if first.startswith("/") else f"/usr/bin/{process.name}")


def _inside(process: Any) -> str:
    """Return under which numbers a process is known: on its node, and in its container."""
    inner = getattr(process, "within", 0) or process.pid
    return f"NSpid:\t{process.pid}" + (f"\t{inner}\n" if inner != process.pid else "\n")


def _state(process: Any) -> str:
    """Return the state of a process: one that reads of itself is running, as is one that computes."""
    reads = isinstance(process, Process) and process.pid == max(process.machine.processes, default=0)
    return (
        "T (stopped)" if process.stopped else "R (running)" if reads or process.use().cores > 0.01 else "S (sleeping)"
    )


def _capabilities(process: Any) -> str:
    """Return what a process may do: what runc leaves to root, or all where it is privileged or the node's own."""
    access = process.machine.devices if isinstance(process, Process) else None
    alone = isinstance(process, Process) and not (access is not None and access.privileged)
    bound = "00000000a80425fb" if alone else "000001ffffffffff"
    held, none = "0" * 16 if process.view.uid else bound, "0" * 16
    rows = {"CapInh": none, "CapPrm": held, "CapEff": held, "CapBnd": bound, "CapAmb": none, "Seccomp": 0}
    return "".join(f"{name}:\t{value}\n" for name, value in rows.items())


def _status(process: Any) -> str:
    view, state = process.view, _state(process)
    return (
        f"Name:\t{process.name[:15]}\nUmask:\t{view.umask:04o}\nState:\t{state}\nTgid:\t{process.pid}\nPid:\t{process.pid}\n"
        f"PPid:\t{process.parent}\nUid:\t{view.uid}\t{view.uid}\t{view.uid}\t{view.uid}\n"
        f"Gid:\t{view.gid}\t{view.gid}\t{view.gid}\t{view.gid}\n"
        f"{_inside(process)}VmRSS:\t{process.use().of(process.name).memory >> 10:8d} kB\nThreads:\t1\n"
        + _capabilities(process)
    )
