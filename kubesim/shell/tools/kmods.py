"""The driver's modules: modprobe, rmmod, dkms."""

from __future__ import annotations

from kubesim.gpu.board import MODULE, MODULES, Board
from kubesim.gpu.hardware import modules
from kubesim.gpu.products import driver
from kubesim.shell.hostside import HostSide
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of

HOLDERS = ("nvidia-persistenced", "nvidia-fabricmanager")
"""Services that have the devices open."""
BEFORE = "5.15.0-1071-gke"
"""The kernel before an update."""


async def modprobe(process: Process) -> int:
    """Load a module, or with ``-r`` unload it."""
    side, words = host_of(process), [word.replace("-", "_") for word in process.argv[1:] if not word.startswith("-")]
    if not words:
        await process.error("modprobe: ERROR: missing parameters. See -h.\n")
        return 1
    if {"-r", "--remove"} & {*process.argv}:
        return await _remove(process, words, "modprobe: FATAL")
    known = {name for name, *_ in modules(side.devices.board)} if side is not None else set()
    for name in words:
        board = side.devices.board if side is not None and name in MODULES else None
        if side is not None and board is not None and board.devices and board.load(side.now()):
            continue
        if name not in known:
            text = f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{process.machine.kernel}\n"
            await process.error(text)
            return 1
    return 0


async def rmmod(process: Process) -> int:
    """Unload modules."""
    words = [word.replace("-", "_") for word in process.argv[1:] if not word.startswith("-")]
    if not words:
        await process.error("rmmod: ERROR: missing module name.\n")
        return 1
    return await _remove(process, words, "rmmod: ERROR")


async def _remove(process: Process, words: list[str], head: str) -> int:
    side, status = host_of(process), 0
    for name in words:
        why = _stays(side, name)
        if why:
            await process.error(f"{head}: {why}\n")
            status = 1
        elif side is not None:
            side.devices.board.unload(side.now(), name)
    return status


def _stays(side: HostSide | None, name: str) -> str:
    """Return why a module cannot be unloaded; empty where it can."""
    if side is None:
        return f"could not remove module {name}: Operation not permitted"
    known = {each: (count, by) for each, _, count, by in modules(side.devices.board)}
    if name not in known:
        return f"Module {name} is not currently loaded"
    count, by = known[name]
    if by:
        return f"Module {name} is in use by: {' '.join(by)}"
    if name == MODULE and not _held(side):
        return ""
    return f"Module {name} is in use" if count or name not in MODULES else ""


def _held(side: HostSide) -> bool:
    """Whether something has the devices open."""
    board = side.devices.board
    return (
        any(device.tasks for device in board.devices)
        or board.registered
        or any(name in side.units and side.services.runs(name) for name in HOLDERS)
    )


async def dkms(process: Process) -> int:
    """Show for which kernel the driver's modules are built, or build them for this one."""
    side, verb = host_of(process), process.argv[1] if len(process.argv) > 1 else ""
    board = side.devices.board if side is not None else None
    if verb not in ("status", "autoinstall", "install", "build"):
        await process.error(f"Error! Unknown action specified: {verb}\nUsage: /usr/sbin/dkms [action] [options]\n")
        return 4
    if side is None or board is None or not board.devices:
        return 0
    if verb == "status":
        kernel = process.machine.kernel if board.built else BEFORE
        await process.write(f"nvidia/{driver().version}, {kernel}, x86_64: installed\n")
        return 0
    if not board.built and verb != "build":
        await _build(process, board)
    return 0


async def _build(process: Process, board: Board) -> None:
    values = {"cpus": process.machine.cpus, "kernel": process.machine.kernel, "version": driver().version}
    await process.write(kit.told("dkms_begins", **values))
    for name in ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"):
        await process.write(kit.told("dkms_module", name=name, **values))
    await process.write(kit.told("dkms_ends", **values))
    board.built = True
    board.noted()


TOOLS: dict[str, Tool] = {"modprobe": modprobe, "rmmod": rmmod, "dkms": dkms}
