"""Who uses what on a machine: lsof, fuser."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.gpu.board import Board
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of, seen

SERVICES = {"nvidia-persistenced": "nvidia-persistenced", "nvidia-fabricmanager": "nv-fabricmanager"}
"""Services that have the devices open, and their programs."""
MAJOR, CONTROL = 195, 255
Held = tuple[int, str, int]
"""The number of a process, and the path and minor number of a device that it has open."""


def _held(process: Process) -> Iterator[Held]:
    """Yield who has which of the driver's devices open, as far as the process may see."""
    side, access = host_of(process), process.machine.devices
    board: Board | None = side.devices.board if side is not None else access.board if access is not None else None
    if board is None or not board.loaded:
        return
    known = seen(process)
    for name in SERVICES if side is not None else ():
        if side is not None and name in side.units and side.services.runs(name):
            yield side.services.pid(name), "/dev/nvidiactl", CONTROL
    for device in board.devices:
        for task in sorted(device.tasks.values(), key=lambda task: task.pid):
            if task.pid in known:
                yield task.pid, f"/dev/nvidia{device.minor}", device.minor
                yield task.pid, "/dev/nvidiactl", CONTROL


async def lsof(process: Process) -> int:
    """List who has files open: the driver's devices, or what listens."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    known = seen(process)
    rows = [held for held in dict.fromkeys(_held(process)) if not words or held[1] in words]
    for word in words:
        if process.view.find(word) is None:
            await process.error(f"lsof: status error on {word}: No such file or directory\n")
    if {"-t", "-tn"} & {*process.argv}:
        await process.write("".join(f"{pid}\n" for pid in sorted({pid for pid, *_ in rows})))
        return int(not rows)
    if rows:
        await process.write(f"{'COMMAND':<9} {'PID':>8} USER  FD   TYPE  DEVICE SIZE/OFF NODE NAME\n")
    for at, (pid, path, minor) in enumerate(sorted(rows)):
        name = known[pid].name if pid in known else "?"
        number = f"{MAJOR},{minor}"
        await process.write(
            f"{name[:9]:<9} {pid:>8} root {3 + at:>4}u  CHR {number:>7}      0t0 {509 + minor:>4} {path}\n"
        )
    return int(not rows)


async def fuser(process: Process) -> int:
    """Tell which processes use files."""
    opts = await kit.options(process)
    known, status = seen(process), 1
    if not opts.args:
        await process.error("No process specification given\n")
        return 1
    head = f"{'':<21}{'USER':<8} {'PID':>10} ACCESS COMMAND\n"
    for path in opts.args:
        if process.view.find(path) is None:
            await process.error(f"Specified filename {path} does not exist.\n")
            continue
        pids = sorted({pid for pid, at, _ in _held(process) if at == path})
        status = 0 if pids else status
        if "v" in opts and pids:
            rows = [f"root     {pid:>10} F...m {known[pid].name if pid in known else '?'}\n" for pid in pids]
            await process.write(f"{head}{path + ':':<21}{(' ' * 21).join(rows)}")
            head = ""
        elif pids:
            await process.write(f"{path + ':':<21}{''.join(f'{pid:>6}' for pid in pids)}\n")
        for pid in pids if "k" in opts else ():
            if pid in known:
                known[pid].signal("KILL")
    return status


TOOLS: dict[str, Tool] = {"lsof": lsof, "fuser": fuser}
