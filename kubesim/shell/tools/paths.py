"""Names of files: basename, dirname, realpath, readlink, which, pwd."""

from __future__ import annotations

import posixpath

from kubesim.shell.errors import FileError
from kubesim.shell.files import Link
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.programs import search
from kubesim.shell.tools import kit


async def basename(process: Process) -> int:
    """Print the last part of a path."""
    opts = await kit.options(process, least=1)
    names = opts.args if opts.any("as") else opts.args[:1]
    suffix = opts.get("s") or (opts.args[1] if len(opts.args) > 1 and not opts.any("as") else "")
    for name in names:
        found = name.rstrip("/").rsplit("/", 1)[-1] or "/"
        await process.write((found.removesuffix(suffix) if found != suffix else found) + "\n")
    return 0


async def dirname(process: Process) -> int:
    """Print all but the last part of a path."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    for name in process.argv[1:]:
        head, slash, _ = name.rstrip("/").rpartition("/")
        await process.write((head.rstrip("/") or ("/" if slash or name.startswith("/") else ".")) + "\n")
    return 0


async def realpath(process: Process) -> int:
    """Print the path without links."""
    opts = await kit.options(process)
    status = 0
    for name in opts.args:
        try:
            place = process.view.place(name)
            if place.node is None and "e" in opts:
                raise FileError("ENOENT", name)
            await process.write(place.path + "\n")
        except FileError as error:
            if "m" in opts:
                await process.write(posixpath.normpath(posixpath.join(process.cwd, name)) + "\n")
            elif "q" not in opts:
                status = await process.fail(f"{name}: {error.text}")
    return status


async def readlink(process: Process) -> int:
    """Print where a link leads."""
    opts = await kit.options(process, least=1)
    status = 0
    for name in opts.args:
        try:
            if opts.any("fem"):
                shown = process.view.place(name).path
            else:
                node = process.view.node(name, follow=False)
                if not isinstance(node, Link):
                    status = 1
                    continue
                shown = node.target
            await process.write(shown + ("" if "n" in opts else "\n"))
        except FileError:
            status = 1
    return status


async def which(process: Process) -> int:
    """Print where programs are."""
    status = 0
    for name in [word for word in process.argv[1:] if word[:1] != "-"]:
        try:
            path = search(process.view, name, process.env.get("PATH", DEFAULT_PATH)) if "/" not in name else name
            node = process.view.node(path)
            if not process.view.may(node, 1):
                raise FileError("EACCES", path)
            await process.write(path + "\n")
        except FileError:
            status = 1
    return status


async def pwd(process: Process) -> int:
    """Print the working directory."""
    await process.write(process.cwd + "\n")
    return 0


TOOLS = kit.named(basename, dirname, realpath, readlink, which, pwd)
