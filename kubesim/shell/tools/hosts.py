"""The ways into a node: chroot, nsenter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Directory, Files
from kubesim.shell.hostside import HostSide
from kubesim.shell.machine import DEFAULT_PATH, Process, Tool
from kubesim.shell.programs import find
from kubesim.shell.tools import kit


def host_of(process: Process) -> HostSide | None:
    """Return the node, where a process has its root directory as its own."""
    side = process.machine.host
    return side if side is not None and process.view.files.root is side.root else None


def seen(process: Process) -> dict[int, Any]:
    """Return the processes that a process sees, by number: all of the node, where its root is the node's."""
    side = host_of(process)
    return {each.pid: each for each in side.processes()} if side is not None else process.machine.all()


async def chroot(process: Process) -> int:
    """Run a command with another root directory."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    path = process.argv[1]
    try:
        place = process.view.place(path)
        if not isinstance(place.node, Directory):
            raise FileError("ENOENT" if place.node is None else "ENOTDIR", path)
    except FileError as error:
        return await process.fail(f"cannot change root directory to '{path}': {error.text}", 125)
    at = "/" + place.path.strip("/")
    mounts = process.view.files.mounts
    inner = {
        each.removeprefix(at) or "/": mount
        for each, mount in mounts.items()
        if each.startswith(at + "/") or at == "/"
    }
    return await _enter(process, process.view.files.within(place.node, inner), process.argv[2:])


async def _enter(process: Process, files: Files, argv: list[str]) -> int:
    """Run a command (or a shell) in another tree."""
    view = replace(process.view, files=files, cwd="/")
    argv = argv or ["/bin/bash" if view.find("/bin/bash") is not None else "/bin/sh", "-i"]
    try:
        program = find(view, argv, DEFAULT_PATH)
    except StartError as error:
        shown = "failed to run command"
        return await process.fail(f"{shown} '{argv[0]}': {error.text or 'No such file or directory'}", error.code)
    child = process.child(program, env={**process.env, "PATH": DEFAULT_PATH})
    child.view = view
    return await child.start(process.machine.tools[program.tool]).wait()


NAMESPACES = {"m": "mnt", "u": "uts", "i": "ipc", "n": "net", "p": "pid", "C": "cgroup", "U": "user", "T": "time"}


async def nsenter(process: Process) -> int:
    """Run a command in the namespaces of another process: those of the node's first are the node's own."""
    opts = await kit.options(process)
    target, wanted = opts.get("t"), [flag for flag in NAMESPACES if flag in opts or "a" in opts]
    if not target.isdecimal():
        every = "no target PID specified for --all"
        return await process.fail(every if "a" in opts else "neither filename nor target pid supplied for ns/mnt")
    found, machine = process.machine.all().get(int(target)), process.machine
    if found is None:
        return await process.fail(f"cannot open /proc/{target}/ns/ipc: No such file or directory")
    if machine.devices is None or not machine.devices.privileged:
        name = NAMESPACES[wanted[0]] if wanted else "mnt"
        return await process.fail(f"cannot open /proc/{target}/ns/{name}: Permission denied")
    inner = getattr(found, "inner", None)
    if inner is not None or "m" not in wanted or machine.host is None:
        files = inner.machine.files if inner is not None and "m" in wanted else process.view.files
        return await _enter(process, files, opts.args)
    tree = machine.host.tree()
    return await _enter(process, process.view.files.within(tree.root, tree.mounts), opts.args)


TOOLS: dict[str, Tool] = {"chroot": chroot, "nsenter": nsenter}
