"""cp and mv."""

from __future__ import annotations

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, File, Link, Node
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sparse import whole
from kubesim.shell.tools import kit
from kubesim.shell.tools.filetools import DEEPEST, base
from kubesim.shell.tools.kit import missing


async def cp(process: Process) -> int:
    """Copy files and trees."""
    opts = await kit.options(process)
    return await _transfer(process, opts, move=False)


async def mv(process: Process) -> int:
    """Move files and trees."""
    opts = await kit.options(process)
    return await _transfer(process, opts, move=True)


async def _transfer(process: Process, opts: kit.Options, *, move: bool) -> int:
    args = [*opts.args, opts.get("t")] if "t" in opts else opts.args
    await missing(process, args, 2)
    *sources, target = args
    inside = isinstance(process.view.find(target), Directory) and "T" not in opts
    if len(sources) > 1 and not inside:
        return await process.fail(f"target '{target}' is not a directory")
    status = 0
    for source in sources:
        place = f"{target.rstrip('/')}/{base(source)}" if inside else target
        work = _move_one if move else _copy_one
        status = await work(process, source, place, opts) or status
    return status


async def _move_one(process: Process, source: str, place: str, opts: kit.Options) -> int:
    if "n" in opts and process.view.find(place, follow=False):
        return 0
    try:
        here, there = process.view.place(source, follow=False), process.view.place(place, follow=False)
        if here.node is not None and here.node is there.node:
            return await process.fail(f"'{source}' and '{place}' are the same file")
        process.view.rename(source, place)
    except FileError as error:
        if error.code == "ENOENT" and process.view.find(source, follow=False) is None:
            text = f"cannot stat '{source}'"
        else:
            text = f"cannot move '{source}' to '{place}'"
        return await process.fail(f"{text}: {error.text}")
    if "v" in opts:
        await process.write(f"renamed '{source}' -> '{place}'\n")
    return 0


async def _copy_one(process: Process, source: str, place: str, opts: kit.Options) -> int:
    recursive = opts.any("rRa")
    try:
        node = process.view.node(source, follow=not (opts.any("adP") or recursive and "L" not in opts))
    except FileError as error:
        text = f"cannot stat '{source}'"
        return await process.fail(f"{text}: {error.text}")
    if isinstance(node, Directory) and not recursive:
        text = f"-r not specified; omitting directory '{source}'"
        return await process.fail(text)
    if "n" in opts and process.view.find(place):
        return 0
    there = process.view.find(place, follow=False)
    if there is node:
        return await process.fail(f"'{source}' and '{place}' are the same file")
    if isinstance(node, Directory) and f"{process.view.place(place).path}/".startswith(
        f"{process.view.place(source).path}/"
    ):
        return await process.fail(f"cannot copy a directory, '{source}', into itself, '{place}'")
    return await _copy(process, node, source, place, opts, 0)


async def _copy(process: Process, node: Node, source: str, place: str, opts: kit.Options, depth: int) -> int:
    await process.tick()
    if "v" in opts:
        await process.write(f"'{source}' -> '{place}'\n")
    try:
        if isinstance(node, Directory):
            if not isinstance(process.view.find(place), Directory):
                process.view.mkdir(place, node.mode)
        elif isinstance(node, Link):
            if process.view.find(place, follow=False):
                process.view.remove(place)
            process.view.add(place, Link(target=node.target))
        else:
            _copy_file(process, node, source, place)
        if opts.any("ap"):
            copy = process.view.node(place, follow=False)
            copy.mode, copy.mtime, copy.uid, copy.gid = node.mode, node.mtime, node.uid, node.gid
    except FileError as error:
        verb = "cannot create regular file"
        if error.code == "EACCES" and not process.view.may(node, 4):
            verb = "cannot open"
            return await process.fail(f"{verb} '{source}' for reading: {error.text}")
        return await process.fail(f"{verb} '{place}': {error.text}")
    status = 0
    if isinstance(node, Directory) and depth < DEEPEST:
        for name in node.names():
            below = node.get(name)
            if below is not None:
                path = f"{source.rstrip('/')}/{name}"
                status = await _copy(process, below, path, f"{place.rstrip('/')}/{name}", opts, depth + 1) or status
    return status


def _copy_file(process: Process, node: Node, source: str, place: str) -> None:
    if not process.view.may(node, 4):
        raise FileError("EACCES", source)
    new = process.view.find(place) is None
    copy = process.view.file(place, append=False)
    if isinstance(copy, File):
        process.view.store(copy, whole(node.content()) if isinstance(node, File) else b"")
        if new:
            copy.mode = node.mode & ~process.view.umask
        if isinstance(node, File):
            copy.program, copy.platform = node.program, node.platform


TOOLS: dict[str, Tool] = {"cp": cp, "mv": mv}
