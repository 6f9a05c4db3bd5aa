"""Facts that a machine tells of itself and of who asks: id, hostname, uname, free, uptime."""

from __future__ import annotations

from datetime import timedelta

from kubesim.gpu.board import BUILD
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.shell.tools.users import name_of, number_of
from kubesim.shell.vitals import BUFFERS, SHARED

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


async def id_(process: Process) -> int:
    """Show who runs this."""
    opts = await kit.options(process)
    view = process.view
    uid, gid = view.uid, view.gid
    if opts.args:
        found = number_of(view, opts.args[0])
        if found is None:
            return await process.fail(f"'{opts.args[0]}': no such user")
        uid = gid = found
    user, group = name_of(view, uid), name_of(view, gid, "/etc/group")
    if opts.any("u"):
        text = user if "n" in opts else str(uid)
    elif opts.any("gG"):
        text = group if "n" in opts else str(gid)
    else:
        named = [
            f"{value}({name})" if name != str(value) else str(value) for value, name in ((uid, user), (gid, group))
        ]
        text = f"uid={named[0]} gid={named[1]} groups={named[1]}"
    await process.write(text + "\n")
    return 0


async def whoami(process: Process) -> int:
    """Show the user's name."""
    name = name_of(process.view, process.view.uid)
    if name.isdecimal():
        return await process.fail(f"cannot find name for user ID {name}")
    await process.write(name + "\n")
    return 0


async def hostname(process: Process) -> int:
    """Show the machine's name."""
    machine = process.machine
    flag = process.argv[1] if len(process.argv) > 1 else ""
    if flag and not flag.startswith("-"):
        return await process.fail("you must be root to change the host name")
    await process.write((machine.address if flag in ("-i", "-I") else machine.hostname) + "\n")
    return 0


async def uname(process: Process) -> int:
    """Show what system this is; all nodes are amd64."""
    opts = await kit.options(process)
    await kit.no_operands(process, opts.args)
    machine = process.machine
    words = {"s": "Linux", "n": machine.hostname, "r": machine.kernel, "v": BUILD}
    words |= dict.fromkeys("mpi", "x86_64") | {"o": "GNU/Linux"}
    chosen = list("snrvmo") if "a" in opts else [flag for flag in words if flag in opts] or ["s"]
    await process.write(" ".join(words[flag] for flag in chosen) + "\n")
    return 0


async def nproc(process: Process) -> int:
    """Count processors."""
    await process.write(f"{process.machine.cpus}\n")
    return 0


async def free(process: Process) -> int:
    """Show memory."""
    opts = await kit.options(process)
    await kit.no_operands(process, opts.args, "unrecognized argument '{}'\n\nUsage:\n free [options]")
    vitals = process.machine.vitals()
    cache = vitals.cached + BUFFERS
    values = [vitals.memory, vitals.memory - vitals.free - cache, vitals.free, SHARED, cache, vitals.available]

    def shown(value: int) -> str:
        if "h" in opts:
            for unit in ("B", "Ki", "Mi", "Gi", "Ti"):
                if value < 1024 or unit == "Ti":
                    return f"{value:.1f}{unit}" if isinstance(value, float) and value < 10 else f"{int(value)}{unit}"
                value = value / 1024  # type: ignore[assignment]
        factor = 1 if "b" in opts else 1 << 20 if "m" in opts else 1 << 30 if "g" in opts else 1024
        return str(value // factor)

    await process.write("               total        used        free      shared  buff/cache   available\n")
    await process.write("Mem:    " + " ".join(f"{shown(value):>11}" for value in values)[: -0 or None] + "\n")
    await process.write("Swap:   " + " ".join(f"{shown(0):>11}" for _ in range(3)) + "\n")
    return 0


def up_for(seconds: float) -> str:
    """Return a span as uptime and top show it."""
    days, rest = divmod(int(seconds), 86400)
    whole = f"{days} day{'s' if days > 1 else ''}, " if days else ""
    return whole + (f"{rest // 3600:2d}:{rest // 60 % 60:02d}" if rest >= 3600 else f"{rest // 60} min")


async def uptime(process: Process) -> int:
    """Show how long the machine runs."""
    now, vitals = process.machine.clock.now(), process.machine.vitals()
    loads = ", ".join(f"{load:.2f}" for load in vitals.loads)
    if {"-s", "--since"} & {*process.argv}:
        await process.write(f"{now - timedelta(seconds=vitals.up_s):%Y-%m-%d %H:%M:%S}\n")
        return 0
    if {"-p", "--pretty"} & {*process.argv}:
        parts = zip((86400, 3600, 60), ("day", "hour", "minute"), (1 << 20, 24, 60), strict=True)
        counts = [(int(vitals.up_s // size) % most, name) for size, name, most in parts]
        shown = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts if count)
        await process.write(f"up {shown or '0 minutes'}\n")
        return 0
    await process.write(f" {now:%H:%M:%S} up {up_for(vitals.up_s)},  0 users,  load average: {loads}\n")
    return 0


TOOLS = kit.named(id_, whoami, hostname, uname, nproc, free, uptime)
