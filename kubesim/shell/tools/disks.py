"""How full disks are: du, df and mount."""

from __future__ import annotations

from kubesim.shell import mounts
from kubesim.shell.files import Directory
from kubesim.shell.machine import Process, Tool
from kubesim.shell.mounts import Row
from kubesim.shell.share import BYTES_OF_ENTRY
from kubesim.shell.tools import kit, ls

DISK, USED = 100 << 30, 37 << 30
SMALL = 64 << 20
"""Size of /dev, as container runtimes make it."""
SHOWN = ("overlay", "ext4", "tmpfs", "devtmpfs")


async def du(process: Process) -> int:
    """Show how much space trees take."""
    opts = await kit.options(process)
    status = total = 0
    for name in opts.args or ["."]:
        if process.view.find(name, follow=False) is None:
            status = await process.fail(f"cannot access '{name}': No such file or directory")
            continue
        total += await _du(process, name, opts, 0)
    if "c" in opts:
        await process.write(f"{_du_size(total, opts)}\ttotal\n")
    return status


def _du_size(kib: int, opts: kit.Options) -> str:
    if "h" in opts:
        return ls.human(kib * 1024) if kib else "0"
    return str(-(-kib // 1024) if "m" in opts else kib * 1024 if "b" in opts else kib)


async def _du(process: Process, path: str, opts: kit.Options, depth: int) -> int:
    await process.tick()
    node = process.view.find(path, follow=False)
    if node is None or depth > 64:
        return 0
    total = ls.size(node) // 1024 if "b" in opts else ls.blocks(node)
    if isinstance(node, Directory):
        for name in node.names():
            total += await _du(process, f"{path.rstrip('/')}/{name}", opts, depth + 1)
    limit = 0 if "s" in opts else int(opts.get("d") or 999)
    if depth <= limit and (isinstance(node, Directory) or "a" in opts or depth == 0):
        await process.write(f"{_du_size(total, opts)}\t{path}\n")
    return total


async def df(process: Process) -> int:
    """Show how full file systems are."""
    opts = await kit.options(process)
    files, disk = process.view.files, process.view.files.disk
    whole, full = (disk.limit, disk.look()) if disk is not None else (DISK, USED + files.used)
    rows = []
    for row in _apart(mounts.seen(process.machine, files)):
        memory = files.mounts[row.path].directory.memory if row.path in files.mounts else None
        size = memory.limit if memory else SMALL if "size=65536k" in row.options else process.machine.memory
        found = (size, memory.used if memory else 0) if row.kind.endswith("tmpfs") else (whole, full)
        rows.append((row.source, row.kind, *found, row.path))
    if opts.args:
        missing = [name for name in opts.args if process.view.find(name) is None]
        for name in missing:
            await process.fail(f"{name}: No such file or directory")
        if len(missing) == len(opts.args):
            return 1
        paths = [process.view.place(name).path for name in opts.args if name not in missing]
        rows = [
            max((row for row in rows if f"{path}/".startswith(row[4].rstrip("/") + "/")), key=lambda row: len(row[4]))
            for path in paths
        ]
    if "i" in opts:
        await _inodes(process, rows)
        return 0
    human, unit = "h" in opts, 1 << 20 if "m" in opts else 1024
    kinds = " Type    " if "T" in opts else ""
    sizes = "Size  Used Avail Use%" if human else f"{'1M' if unit > 1024 else '1K'}-blocks     Used Available Use%"
    source = max([15, *(len(row[0]) for row in rows)]) if not human else max([10, *(len(row[0]) for row in rows)])
    await process.write(f"{'Filesystem':<{source}}{kinds} {' ' if human else ''}{sizes} Mounted on\n")
    for name, kind, size, used, place in rows:
        free = size - used
        shown = [
            ls.human(value) if human else str(-(-value // unit) if "m" in opts else value // unit)
            for value in (size, used, free)
        ]
        wide = (5, 5, 5) if human else (9, 8, 9)
        numbers = " ".join(f"{value:>{width}}" for value, width in zip(shown, wide, strict=True))
        percent = f"{-(-used * 100 // size)}%"
        await process.write(f"{name:<{source}}{f' {kind:<8}' if kinds else ''} {numbers} {percent:>4} {place}\n")
    return 0


def _apart(rows: list[Row]) -> list[Row]:
    """Return the mounts that df shows: of one disk the one nearest to the root, and nothing of the kernel's own."""
    shown = [row for row in rows if row.kind in SHOWN]
    nearest = {row.source: row for row in sorted(shown, key=lambda row: len(row.path), reverse=True)}
    return [row for row in shown if row.kind.endswith("tmpfs") or nearest[row.source] is row]


async def _inodes(process: Process, rows: list[tuple[str, str, int, int, str]]) -> None:
    """Show how many entries the file systems have room for, and how many there are (``df -i``)."""
    disk = process.view.files.disk
    wide = max([15, *(len(row[0]) for row in rows)])
    await process.write(f"{'Filesystem':<{wide}}   Inodes  IUsed   IFree IUse% Mounted on\n")
    for name, kind, size, _, place in rows:
        most, used = size // 4096 if kind.endswith("tmpfs") else size // BYTES_OF_ENTRY, 1
        if disk is not None and not kind.endswith("tmpfs"):
            most, used = disk.inodes, disk.entries
        percent = f"{-(-used * 100 // max(most, 1))}%"
        await process.write(f"{name:<{wide}} {most:>8} {used:>6} {most - used:>7} {percent:>5} {place}\n")


async def mount(process: Process) -> int:
    """Show what is mounted; mounting is not allowed."""
    words = process.argv[1:]
    if len(words) > 2 and words[0] == "-t":
        return await process.fail(f"{words[-1]}: permission denied.", 32)
    if len(words) > 2 or (words and not words[0].startswith("-t")):
        return await process.fail("only root can do that", 1)
    for row in mounts.seen(process.machine, process.view.files):
        await process.write(f"{row.source} on {row.path} type {row.kind} ({row.options})\n")
    return 0


TOOLS: dict[str, Tool] = {"du": du, "df": df, "mount": mount}
