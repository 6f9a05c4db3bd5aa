"""Programs of a node's own: chroot into it, systemctl, crictl."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

from kubesim.shell.errors import FileError, StartError
from kubesim.shell.files import Directory, Files
from kubesim.shell.hostside import HostSide, Ran, digest, sandbox
from kubesim.shell.machine import DEFAULT_PATH, Process, Tool
from kubesim.shell.programs import find
from kubesim.shell.tools import kit

NO_RUNTIME = (
    'FATA[0000] validate service connection: validate CRI v1 runtime API for endpoint "unix:///run/containerd/'
    'containerd.sock": rpc error: code = Unavailable desc = connection error: desc = "transport: Error while '
    "dialing: "
    'dial unix /run/containerd/containerd.sock: connect: no such file or directory"\n'
)
SHOWN_ID = 13
TAIL = ("--tail", "-n")


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
        quoted = "can't" if process.busybox else "cannot"
        shown = f"{quoted} change root directory to '{path}'"
        return await process.fail(f"{shown}: {error.text}", 1 if process.busybox else 125)
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
    argv = argv or [*_shell(view.find("/bin/bash") is not None), "-i"]
    try:
        program = find(view, argv, DEFAULT_PATH)
    except StartError as error:
        shown = "can't execute" if process.busybox else "failed to run command"
        return await process.fail(f"{shown} '{argv[0]}': {error.text or 'No such file or directory'}", error.code)
    child = process.child(program, env={**process.env, "PATH": DEFAULT_PATH})
    child.view = view
    return await child.start(process.machine.tools[program.tool]).wait()


NAMESPACES = {"m": "mnt", "u": "uts", "i": "ipc", "n": "net", "p": "pid", "C": "cgroup", "U": "user", "T": "time"}
LONG = {"mount?": "m", "uts?": "u", "ipc?": "i", "net?": "n", "pid?": "p", "cgroup?": "C", "user?": "U", "time?": "T"}


async def nsenter(process: Process) -> int:
    """Run a command in the namespaces of another process: those of the node's first are the node's own."""
    long = {**LONG, "target=": "t", "all": "a", "root?": "r", "wd?": "w", "no-fork": "F"}
    opts = await kit.options(process, "t:am::u::i::n::p::C::U::T::r::w::FS:G:", long, stop=True)
    target, wanted = opts.get("t"), [flag for flag in NAMESPACES if flag in opts or "a" in opts]
    if not target.isdecimal():
        every = "no target PID specified for --all"
        return await process.fail(every if "a" in opts else "neither filename nor target pid supplied for ns/mnt")
    found, machine = process.machine.all().get(int(target)), process.machine
    if found is None:
        text = f"can't open '/proc/{target}/ns/mnt'" if process.busybox else f"cannot open /proc/{target}/ns/ipc"
        return await process.fail(f"{text}: No such file or directory")
    if machine.devices is None or not machine.devices.privileged:
        name = NAMESPACES[wanted[0]] if wanted else "mnt"
        text = (
            f"can't open '/proc/{target}/ns/{name}'" if process.busybox else f"cannot open /proc/{target}/ns/{name}"
        )
        return await process.fail(f"{text}: Permission denied")
    inner = getattr(found, "inner", None)
    if inner is not None or "m" not in wanted or machine.host is None:
        files = inner.machine.files if inner is not None and "m" in wanted else process.view.files
        return await _enter(process, files, opts.args)
    tree = machine.host.tree()
    return await _enter(process, process.view.files.within(tree.root, tree.mounts), opts.args)


def _shell(bash: bool) -> list[str]:
    return ["/bin/bash"] if bash else ["/bin/sh"]


def shown_line(line: tuple[datetime, str, int, str], host: str) -> str:
    """Return a line of a unit's journal as journalctl prints it."""
    at, name, pid, text = line
    return f"{at:%b %d %H:%M:%S} {host} {name}[{pid}]: {text}"


def _human(seconds: float) -> str:
    """Return a time span as crictl words it."""
    if seconds < 60:
        return "Less than a second ago" if seconds < 1 else f"{int(seconds)} seconds ago"
    for size, one, many in (
        (60, "About a minute ago", "minutes"),
        (3600, "About an hour ago", "hours"),
        (86400, "", "days"),
    ):
        count = int(seconds // size)
        limit = {60: 60, 3600: 48, 86400: 1 << 30}[size]
        if count < limit:
            return one if count == 1 and one else f"{count} {many} ago"
    return ""


async def crictl(process: Process) -> int:
    """Ask the node's container runtime."""
    side = host_of(process)
    words = process.argv[1:]
    while words[:1] and words[0].startswith("-"):
        words = words[
            2 if words[0] in ("-r", "--runtime-endpoint", "-i", "--image-endpoint", "-t", "--timeout") else 1 :
        ]
    if not words:
        await process.write(
            "NAME:\n   crictl - client for CRI\n\nUSAGE:\n   crictl [global options] command [command options]\n"
        )
        return 0
    verb, rest = words[0], words[1:]
    if verb == "--version":
        await process.write("crictl version v1.34.0\n")
        return 0
    if side is None:
        await process.error(NO_RUNTIME)
        return 1
    known = {"ps": _ps, "pods": _pods, "images": _images, "image": _images, "img": _images, "logs": _logs,
             "inspect": _inspect, "version": _version}  # fmt: skip
    if verb not in known:
        await process.write(f"No help topic for '{verb}'\n")
        return 3
    return await known[verb](process, side, rest)


def _table(rows: list[list[str]]) -> str:
    """Return rows as Go's tabwriter with columns of at least twenty does."""
    widths = [max(20, *(len(row[at]) + 3 for row in rows)) for at in range(len(rows[0]))]
    return "".join("".join(cell.ljust(widths[at]) for at, cell in enumerate(row)).rstrip(" ") + "\n" for row in rows)


async def _ps(process: Process, side: HostSide, words: list[str]) -> int:
    name = words[words.index("--name") + 1] if "--name" in words[:-1] else ""
    found = [each for each in await side.containers() if name in each.spec["name"]]
    if not {"-a", "--all"} & {*words}:
        found = [each for each in found if each.state == "Running"]
    if {"-q", "--quiet"} & {*words}:
        await process.write("".join(each.id + "\n" for each in found))
        return 0
    now = process.machine.clock.now()
    rows = [["CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD ID", "POD", "NAMESPACE"]]
    for each in found:
        meta, age = each.pod["metadata"], _human((now - each.at).total_seconds())
        rows.append([
            each.id[:SHOWN_ID], each.image[:SHOWN_ID], age, each.state, each.spec["name"],
            str(each.status.get("restartCount", 0)), sandbox(each.pod)[:SHOWN_ID], meta["name"], meta["namespace"],
        ])  # fmt: skip
    await process.write(_table(rows))
    return 0


async def _pods(process: Process, side: HostSide, words: list[str]) -> int:
    now = process.machine.clock.now()
    rows = [["POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT", "RUNTIME"]]
    for pod in await side.pods():
        meta, status = pod["metadata"], pod.get("status") or {}
        start = datetime.fromisoformat((status.get("startTime") or meta["creationTimestamp"]).replace("Z", "+00:00"))
        state = "NotReady" if status.get("phase") in ("Succeeded", "Failed") else "Ready"
        age = _human((now - start).total_seconds())
        rows.append([sandbox(pod)[:SHOWN_ID], age, state, meta["name"], meta["namespace"], "0", "(default)"])
    await process.write(_table(rows))
    return 0


async def _images(process: Process, side: HostSide, words: list[str]) -> int:
    rows = {("registry.k8s.io/pause", "3.10"): ["873ed75102791", "320kB"]}
    for each in await side.containers():
        image = str(each.status.get("image") or each.spec["image"])
        name, colon, tag = image.partition("@")[0].rpartition(":")
        size = 2 + int(each.image[:4], 16) % 900
        rows[(name if colon and "/" not in tag else image, tag if colon and "/" not in tag else "latest")] = [
            digest(each.image)[:SHOWN_ID], f"{size}MB",
        ]  # fmt: skip
    table = [["IMAGE", "TAG", "IMAGE ID", "SIZE"], *([*key, *value] for key, value in sorted(rows.items()))]
    await process.write(_table(table))
    return 0


def _named(words: list[str]) -> str:
    """Return what a command line names: the first word that is no option, nor the value of one."""
    rest = iter(words)
    for word in rest:
        if word in TAIL:
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return ""


async def _one(process: Process, side: HostSide, words: list[str]) -> Ran | None:
    prefix = _named(words)  # an id may well be all digits
    found = [each for each in await side.containers() if prefix and each.id.startswith(prefix)]
    if not found:
        await process.error(
            f'E{process.machine.clock.now():%m%d %H:%M:%S.%f}   51234 log.go:32] "ContainerStatus from runtime '
            f'service failed" '
            f'err="rpc error: code = NotFound desc = an error occurred when try to find container '
            f'\\"{prefix}\\": not found" '
            f'containerID="{prefix}"\nFATA[0000] rpc error: code = NotFound desc = an error occurred when try '
            f"to find "
            f'container "{prefix}": not found\n'
        )
        return None
    return found[0]


async def _logs(process: Process, side: HostSide, words: list[str]) -> int:
    tail = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in TAIL), "")
    found = await _one(process, side, words)
    if found is None:
        return 1
    meta = found.pod["metadata"]
    query = f"?tailLines={tail}" if tail.isdecimal() else ""
    _, data = await side.ask(f"/containerLogs/{meta['namespace']}/{meta['name']}/{found.spec['name']}{query}")
    await process.write(data)
    return 0


async def _inspect(process: Process, side: HostSide, words: list[str]) -> int:
    found = await _one(process, side, words)
    if found is None:
        return 1
    meta = found.pod["metadata"]
    labels = {
        "io.kubernetes.container.name": found.spec["name"],
        "io.kubernetes.pod.name": meta["name"],
        "io.kubernetes.pod.namespace": meta["namespace"],
        "io.kubernetes.pod.uid": meta["uid"],
    }
    ended = (found.status.get("state") or {}).get("terminated") or {}
    status = {
        "id": found.id,
        "metadata": {"attempt": found.status.get("restartCount", 0), "name": found.spec["name"]},
        "state": f"CONTAINER_{found.state.upper()}",
        "startedAt": f"{found.at:%Y-%m-%dT%H:%M:%S}Z",
        "finishedAt": ended.get("finishedAt", "0001-01-01T00:00:00Z"),
        "exitCode": ended.get("exitCode", 0),
        "reason": ended.get("reason", ""),
        "image": {"image": found.status.get("image", "")},
        "imageRef": found.status.get("imageID", ""),
        "labels": labels,
        "logPath": f"/var/log/pods/{meta['namespace']}_{meta['name']}_{meta['uid']}/{found.spec['name']}/0.log",
    }
    await process.write(json.dumps({"status": status}, indent=2) + "\n")
    return 0


async def _version(process: Process, side: HostSide, words: list[str]) -> int:
    await process.write("Version:  0.1.0\nRuntimeName:  containerd\nRuntimeVersion:  2.0.4\nRuntimeApiVersion:  v1\n")
    return 0


TOOLS: dict[str, Tool] = {"chroot": chroot, "nsenter": nsenter, "crictl": crictl}
