"""What a node is set to and what is installed on it: sysctl, dpkg, findmnt, pstree."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from kubesim.gpu.products import driver
from kubesim.shell import mounts
from kubesim.shell.hostside import settings
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of, seen


def sysctl(own: Mapping[str, str]) -> Tool:
    """Return ``sysctl``, which reads the kernel's parameters; ``own`` are those that a pod has set."""

    async def run(process: Process) -> int:
        opts = await kit.options(process)
        values = {"hostname": process.machine.hostname, "kernel": process.machine.kernel}
        known = {**{name: text.format(**values) for name, text in settings("sysctl").items()}, **own}
        names = sorted(known) if opts.any("aA") else [word.replace("/", ".") for word in opts.args]
        status = 0
        for name in names:
            if "=" in name:
                status = await process.fail(f'permission denied on key "{name.partition("=")[0].strip()}"')
            elif name not in known:
                status = await process.fail(
                    f"cannot stat /proc/sys/{name.replace('.', '/')}: No such file or directory"
                )
            else:
                await process.write(f"{known[name]}\n" if "n" in opts else f"{name} = {known[name]}\n")
        return status

    return run


async def dpkg(process: Process) -> int:
    """Show what is installed (``-l``), of a node."""
    side = host_of(process)
    opts = await kit.options(process)
    found: dict[str, str] = dict(settings("packages")) if side is not None else {}
    if side is not None and side.devices.board.devices:
        found |= {name: text.format(driver=driver().version) for name, text in settings("driver").items()}
    chosen = {
        name: version
        for name, version in sorted(found.items())
        if not opts.args or any(fnmatchcase(name, each) for each in opts.args)
    }
    if "l" not in opts or not chosen:
        name = opts.args[0] if opts.args else ""
        return await process.fail(f"no packages found matching {name}")
    await process.write(
        f"{kit.told('settings_legend')}||/ {'Name':<30} {'Version':<24} {'Architecture':<12} Description\n"
    )
    await process.write(f"+++-{'=' * 30}-{'=' * 24}-{'=' * 12}-{'=' * 33}\n")
    for name, version in chosen.items():
        await process.write(f"ii  {name:<30} {version:<24} {'amd64':<12} {name}\n")
    return 0


async def findmnt(process: Process) -> int:
    """Show what is mounted, as a tree."""
    root, *below = mounts.seen(process.machine, process.view.files)
    rows = [("/", root.source, root.kind, root.options)]
    rows += [(f"├─{row.path}", row.source, row.kind, row.options) for row in sorted(below, key=lambda row: row.path)]
    wanted = [word for word in process.argv[1:] if word[:1] in "/" or word[:1].isalnum()]
    if wanted and not (
        rows := [(row[0].lstrip("├─"), *row[1:]) for row in rows if {*wanted} & {row[0].lstrip("├─"), row[1]}]
    ):
        return 1
    rows = [*rows[:-1], (rows[-1][0].replace("├", "└"), *rows[-1][1:])]
    table = [("TARGET", "SOURCE", "FSTYPE", "OPTIONS"), *rows]
    widths = [max(len(row[at]) for row in table) for at in range(3)]
    for row in table:
        await process.write(
            " ".join([*(cell.ljust(wide) for cell, wide in zip(row, widths, strict=False)), row[3]]) + "\n"
        )
    return 0


async def pstree(process: Process) -> int:
    """Show processes below their parents."""
    opts = await kit.options(process)
    every = seen(process)
    roots = [each for each in every.values() if each.parent not in every]
    await kit.no_operands(process, [each for each in opts.args if not each.isdecimal()], "No such user name: {}")
    if opts.args and opts.args[0].isdecimal():
        roots = [every[int(opts.args[0])]] if int(opts.args[0]) in every else []
    for each in sorted(roots, key=lambda each: each.pid):
        await _branch(process, every, each, opts, 0)
    return int(not roots)


async def _branch(process: Process, every: Mapping[int, Any], each: Any, opts: kit.Options, depth: int) -> None:
    number = f",{each.pid}" if "a" in opts and "p" in opts else f"({each.pid})" if "p" in opts else ""
    words = " " + " ".join(each.argv[1:]) if "a" in opts and len(each.argv) > 1 else ""
    await process.write("  " * max(depth - 1, 0) + "  |-"[: 4 * bool(depth)] + f"{each.name[:15]}{number}{words}\n")
    for pid, child in sorted(every.items()):
        if child.parent == each.pid and pid != each.pid:
            await _branch(process, every, child, opts, depth + 1)


TOOLS: dict[str, Tool] = {"sysctl": sysctl({}), "dpkg": dpkg, "findmnt": findmnt, "pstree": pstree}
