"""Programs that make and remove files: mkdir, rm, touch, ln, mktemp, truncate, dd."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, Link
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.shell.tools.kit import missing
from kubesim.shell.tools.permissions import changed_mode

DEEPEST = 64
TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y%m%d%H%M", "%Y%m%d%H%M.%S")


def base(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1] or "/"


async def mkdir(process: Process) -> int:
    """Make directories."""
    opts = await kit.options(process)
    await missing(process, opts.args, 1)
    return await kit.for_each(
        process, opts.args, lambda name: _make_directory(process, name, opts), "cannot create directory '{}'"
    )


async def _make_directory(process: Process, name: str, opts: kit.Options) -> None:
    if "p" in opts:
        made = "/" if name.startswith("/") else ""
        for part in filter(None, name.split("/")):
            made = f"{made.rstrip('/')}/{part}" if made else part
            node = process.view.find(made)
            if node is None:
                process.view.mkdir(made)
            elif not isinstance(node, Directory):
                raise FileError("ENOTDIR" if made != name.rstrip("/") else "EEXIST", name)
    else:
        process.view.mkdir(name)
    if "m" in opts:
        node = process.view.node(name)
        node.mode = changed_mode(node, opts.get("m"), 0) or node.mode
    if "v" in opts:
        await process.write(f"mkdir: created directory '{name}'\n")


async def rmdir(process: Process) -> int:
    """Remove empty directories."""
    opts = await kit.options(process)
    await missing(process, opts.args, 1)
    remove = partial(process.view.remove, directory=True)
    return await kit.for_each(process, opts.args, remove, "failed to remove '{}'")


async def rm(process: Process) -> int:
    """Remove files and trees."""
    opts = await kit.options(process)
    if not opts.args and "f" not in opts:
        await missing(process, opts.args, 1)
    status = 0
    for name in opts.args:
        if base(name) in (".", ".."):
            status = await process.fail(f"refusing to remove '.' or '..' directory: skipping '{name}'")
        elif process.view.find(name) is process.view.files.root and opts.any("rR"):
            await process.fail("it is dangerous to operate recursively on '/'")
            status = await process.fail("use --no-preserve-root to override this failsafe")
        else:
            status = await _remove(process, name, opts, 0) or status
    return status


async def _remove(process: Process, name: str, opts: kit.Options, depth: int) -> int:
    await process.tick()
    node = process.view.find(name, follow=False)
    status = 0
    try:
        if node is None:
            if "f" in opts:
                return 0
            process.view.node(name, follow=False)
        if isinstance(node, Directory) and not opts.any("rRd"):
            raise FileError("EISDIR", name)
        if isinstance(node, Directory) and opts.any("rR") and depth < DEEPEST:
            for below in node.names():
                status = await _remove(process, f"{name.rstrip('/')}/{below}", opts, depth + 1) or status
        process.view.remove(name, directory=isinstance(node, Directory))
    except FileError as error:
        return await process.fail(f"cannot remove '{name}': {error.text}")
    if "v" in opts:
        what = "directory " if isinstance(node, Directory) else ""
        await process.write(f"removed {what}'{name}'\n")
    return status


async def touch(process: Process) -> int:
    """Make files or set their times."""
    opts = await kit.options(process)
    await missing(process, opts.args, 1)
    moment = _moment(process, opts)
    if moment is None:
        return await process.fail(f"invalid date format '{opts.get('d') or opts.get('t')}'")

    def set_time(name: str) -> None:
        node = process.view.find(name)
        if node is None and "c" in opts:
            return
        node = node or process.view.file(name)
        if process.view.place(name).readonly:
            raise FileError("EROFS", name)
        node.mtime = moment

    return await kit.for_each(process, opts.args, set_time, "cannot touch '{}'")


def _moment(process: Process, opts: kit.Options) -> float | None:
    if "r" in opts:
        node = process.view.find(opts.get("r"))
        return node.mtime if node else None
    word = opts.get("d") or opts.get("t")
    if not word:
        return process.machine.now()
    for form in TIMES:
        try:
            return datetime.strptime(word, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


async def ln(process: Process) -> int:
    """Make links."""
    opts = await kit.options(process)
    if not opts.args:
        await kit.usage(process, "missing file operand")
    await missing(process, opts.args, 1)
    if len(opts.args) > 2 and process.view.find(opts.args[-1]) is None:
        return await process.fail(f"target '{opts.args[-1]}': No such file or directory")
    *targets, name = opts.args if len(opts.args) > 1 else [opts.args[0], base(opts.args[0])]
    status = 0
    for target in targets:
        place = name
        if isinstance(process.view.find(name, follow="n" not in opts), Directory):
            place = f"{name.rstrip('/')}/{base(target)}"
        try:
            if "f" in opts and process.view.find(place, follow=False):
                process.view.remove(place)
            if "s" not in opts and process.view.find(target, follow=False) is None:
                status = await process.fail(f"failed to access '{target}': No such file or directory")
                continue
            if "s" in opts:
                process.view.add(place, Link(target=target))
            else:
                process.view.link(target, place)
        except FileError as error:
            sort = "symbolic" if "s" in opts else "hard"
            status = await process.fail(f"failed to create {sort} link '{place}': {error.text}")
    return status


async def sync(process: Process) -> int:
    """Nothing waits to be written."""
    missing = [name for name in process.argv[1:] if name[:1] != "-" and process.view.find(name) is None]
    for name in missing:
        await process.fail(f"error opening '{name}': No such file or directory")
    return int(bool(missing))


TOOLS = kit.named(mkdir, rmdir, rm, touch, ln, sync)
