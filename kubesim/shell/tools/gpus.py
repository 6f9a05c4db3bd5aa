"""nvidia-smi, the driver's services and dmesg: devices and kernel log of the node, as a container sees them."""

from __future__ import annotations

from kubesim.gpu.access import Access
from kubesim.gpu.products import driver
from kubesim.gpu.smi import cli
from kubesim.gpu.xids import LEVELS, Record, dmesg
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of
from kubesim.shell.tools.kit import options

FOLLOW_S = 0.5


def _devices(process: Process) -> Access | None:
    """Return the devices as a process may see them: all of the node's, where it has the node's root."""
    side = host_of(process)
    return process.machine.devices if side is None else side.devices


async def nvidia_smi(process: Process) -> int:
    """Show the devices, once or again and again."""
    access = _devices(process)
    if access is None or not access.has_driver:
        await process.write(kit.told("gpus_library"))
        return 12
    try:
        call = cli.parse(process.argv[1:])
    except cli.BadUsage as error:
        await process.write(str(error))
        return 2
    if host_of(process) is not None:
        access.board.load(process.machine.clock.now())  # nvidia-modprobe puts the modules in for root
    done, logged = 0, ""
    while True:
        view = access.view(process.machine.clock.now())
        while view.stalled():  # the real one waits for the firmware, too
            await process.sleep(60)
            if call.page == "reset":
                break  # which does without the firmware in the end
        out, status = cli.run(view, call)
        if done and not status:
            out = "".join(out.splitlines(keepends=True)[call.heads :])
        if call.file:
            logged += out
            process.view.write(call.file, logged.encode())
        else:
            await process.write(out)
        done += 1
        if not call.loop_s or done == call.passes or status:
            return status
        await process.flush()
        await process.sleep(call.loop_s)


async def kernel(process: Process) -> int:
    """``dmesg``: show or follow the kernel's log."""
    opts = await options(process)
    access = _devices(process)
    log = access.log if access is not None else None
    if log is None:
        return await process.fail("read kernel buffer failed: Operation not permitted")
    levels = {name.strip() for name in opts.get("l").split(",")} if "l" in opts else set(LEVELS)
    if unknown := levels - set(LEVELS):
        return await process.fail(f"unknown level '{min(unknown)}'")
    if "C" in opts:
        log.clear()
        return 0
    end = log.end
    for record in [*log.records()]:
        if LEVELS[record.level] in levels and _wanted(record, kernel="k" in opts, user="u" in opts):
            text = record.text if "t" in opts else dmesg(log, record, human=opts.any("TH"), decode="x" in opts)
            await process.write(text + "\n")
    if "c" in opts:
        log.clear()
    while "w" in opts:
        await process.flush()
        await process.sleep(FOLLOW_S)
        for record in log.after(end):
            await process.write(dmesg(log, record, human=opts.any("TH"), decode="x" in opts) + "\n")
        end = log.end
    return 0


def _wanted(record: Record, *, kernel: bool, user: bool) -> bool:
    return not (kernel or user) or (kernel and record.facility == 0) or (user and record.facility != 0)


async def version(process: Process) -> int:
    """Tell the version of a service of the driver, which systemd starts."""
    if process.name == "nv-fabricmanager":
        await process.write(f"Fabric Manager version is : {driver().version}\n")
    elif {"-v", "-V", "--version"} & {*process.argv}:
        await process.write(f"nvidia-persistenced:  version {driver().version}\n\nThe NVIDIA Persistence Daemon.\n")
    else:
        await process.error("nvidia-persistenced failed to initialize. Check syslog for more details.\n")
        return 1
    return 0


SERVICES = ("nvidia-persistenced", "nv-fabricmanager")
TOOLS: dict[str, Tool] = {"nvidia-smi": nvidia_smi, "dmesg": kernel, **dict.fromkeys(SERVICES, version)}
