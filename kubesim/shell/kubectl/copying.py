"""kubectl cp: files from and into containers, as archives through their tar."""

from __future__ import annotations

import posixpath
import re

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory
from kubesim.shell.handles import Bytes, Capture
from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.streams import captured, container_of, pod_of
from kubesim.shell.machine import Process

LARGEST = 64 << 20


async def cp(process: Process, client: Client, opts: Flags) -> int:
    """Copy files from or into a container."""
    if len(opts.args) != 2:
        raise KubectlError("error: source and destination are required")
    source, target = (_parsed(word) for word in opts.args)
    if source and target:
        raise KubectlError("error: one of src or dest must be a local file specification")
    if not source and not target:
        raise KubectlError("error: one of src or dest must be a remote file specification")
    if not opts.args[0].partition(":")[2] and source or not opts.args[0]:
        raise KubectlError("error: filepath can not be empty")
    if target:
        return await _into(process, client, opts, opts.args[0], target)
    assert source is not None
    return await _from(process, client, opts, source, opts.args[1])


def _parsed(word: str) -> tuple[str, str, str] | None:
    """Return namespace, pod and path of a place in a container; None for a file here."""
    head, colon, path = word.partition(":")
    if colon and not head:
        raise KubectlError("error: filespec must match the canonical format: [[namespace/]pod:]file/path")
    if not colon or head.startswith(("/", ".")):
        return None
    if not re.fullmatch(r"[-a-z0-9.]+(/[-a-z0-9.]+)?", head):
        raise KubectlError(f"error: pod, if specified, should be in the form <namespace>/<pod>: {word}")
    space, _, pod = head.rpartition("/")
    return space, pod, path


async def _into(process: Process, client: Client, opts: Flags, local: str, place: tuple[str, str, str]) -> int:
    node = process.view.find(local)
    if node is None:
        raise KubectlError(f"error: {local} doesn't exist in local filesystem")
    client.namespace = place[0] or client.namespace
    pod = await pod_of(client, place[1])
    container = await container_of(process, opts, pod)
    path = posixpath.normpath(place[2]) if place[2] else "."
    base = posixpath.basename(posixpath.normpath(local))
    if place[2].endswith("/") or await _is_folder(process, client, pod, container, path):
        path = posixpath.join(path, base)
    data = await _packed(process, local, posixpath.basename(path))
    command = ["tar", "-xmf", "-", "-C", posixpath.dirname(path) or "."]
    return (await captured(process, client, pod, container, command, Bytes(data)))[0]


async def _is_folder(process: Process, client: Client, pod: dict[str, object], container: str, path: str) -> bool:
    quiet = process.child(process.program, fds={2: Capture(1 << 20)})
    try:
        return (await captured(quiet, client, pod, container, ["test", "-d", path]))[0] == 0
    except KubectlError:
        return False
    finally:
        quiet.status = 0
        process.machine.processes.pop(quiet.pid, None)


async def _packed(process: Process, local: str, name: str) -> bytes:
    """Return an archive of a file or folder here under another name."""
    folder = Directory(mtime=process.machine.now())
    node = process.view.node(local)
    folder.put(name, node)
    root = process.view.node("/tmp")  # noqa: S108 - of the simulated container
    assert isinstance(root, Directory)
    mark = f".cp-{process.pid}"
    root.put(mark, folder)
    try:
        sink = Capture(LARGEST)
        await process.run(["tar", "cf", "-", "-C", f"/tmp/{mark}", name], fds={**process.fds, 1: sink}).wait()  # noqa: S108
    finally:
        root.drop(mark)
    return bytes(sink.data)


async def _from(process: Process, client: Client, opts: Flags, place: tuple[str, str, str], local: str) -> int:
    client.namespace = place[0] or client.namespace
    pod = await pod_of(client, place[1])
    container = await container_of(process, opts, pod)
    path = posixpath.normpath(place[2])
    code, data = await captured(process, client, pod, container, ["tar", "cf", "-", path])
    if code:
        return 0  # as kubectl, which takes what came of the archive
    scratch = f"/tmp/.cp-{process.pid}"  # noqa: S108
    process.view.mkdir(scratch, 0o755)
    try:
        fds = {**process.fds, 0: Bytes(data)}
        await process.run(["tar", "xf", "-", "-C", scratch], fds=fds).wait()
        found = process.view.node(f"{scratch}/{path.lstrip('/')}")
        _keep(process, local, path, found)
    except FileError as error:
        raise KubectlError(f"error: open {local}: {error.text.lower()}") from error
    finally:
        root = process.view.node("/tmp")  # noqa: S108
        assert isinstance(root, Directory)
        root.drop(scratch.rpartition("/")[2])
    return 0


def _keep(process: Process, local: str, path: str, node: object) -> None:
    place = process.view.place(local.rstrip("/") or "/")
    directory = place.node
    if isinstance(directory, Directory) and not isinstance(node, Directory):
        directory.put(posixpath.basename(path), node)  # type: ignore[arg-type]
        return
    if isinstance(directory, Directory) and isinstance(node, Directory):
        for name in node.names():
            below = node.get(name)
            if below is not None:
                directory.put(name, below)
        return
    place.directory.put(place.name, node)  # type: ignore[arg-type]
