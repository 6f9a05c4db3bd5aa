"""kubectl exec, and joining a container: the processes of other containers, their three streams over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlencode

from kubesim.shell.errors import NetworkError, UpgradeError
from kubesim.shell.handles import Handle, Messages
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, refusal_of
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.targets import kinds_and_names
from kubesim.shell.machine import Process

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
DEFAULT = "kubectl.kubernetes.io/default-container"
POLL_S = 0.2


async def exec_(process: Process, client: Client, opts: Flags) -> int:
    """Run a command in a container."""
    pod = (await pods_of(client, opts.args[0], "attach to"))[0]
    phase = (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise KubectlError(f"error: cannot exec into a container in a completed pod; current phase is {phase}")
    container = await container_of(process, opts, pod)
    tty = await _has_terminal(process, opts)
    asked = [*(("command", word) for word in opts.after or ()), *_asked(container, opts.on("stdin"), tty)]
    return await _converse(process, client, pod, "exec", asked, stdin=opts.on("stdin"), tty=tty)


async def _has_terminal(process: Process, opts: Flags) -> bool:
    """Tell whether a terminal is asked for and is there."""
    missing = opts.on("tty") and process.tty(0) is None
    if missing:
        await process.error(TEXTS["no terminal"])
    return opts.on("tty") and not missing


def _asked(container: str, stdin: bool, tty: bool) -> list[tuple[str, str]]:
    """Return the streams that are wanted of a container, as a query has them."""
    found = [("container", container), ("stdout", "true")] + [("stdin", "true")] * stdin
    return [*found, ("tty", "true") if tty else ("stderr", "true")]


async def enter(process: Process, client: Client, opts: Flags, pod: Obj, container: str) -> int:
    """Wait for a container and join it; show its log where it is over, or cannot be joined."""
    pod, state = await _started(process, client, pod, container, quiet=opts.on("quiet"))
    if "terminated" not in state:
        try:
            return await _attached(process, client, opts, pod, container)
        except KubectlError as error:
            await process.error(
                f"warning: couldn't attach to pod/{pod['metadata']['name']}, falling back to streaming logs: "
                f"{error.message}\n"
            )
    metadata = pod["metadata"]
    query = urlencode({"container": container})
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log?{query}"
    await process.write(await client.raw("GET", path))
    return 0


async def _started(process: Process, client: Client, pod: Obj, container: str, *, quiet: bool) -> tuple[Obj, Obj]:
    """Wait until a container runs or has ended; returns its pod and its state. Raises KubectlError."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
    told = ""
    while True:
        pod = await client.request("GET", path)
        status = pod.get("status") or {}
        kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        found = [each for kind in kinds for each in status.get(kind) or [] if each["name"] == container]
        state = found[0].get("state") or {} if found else {}
        if "running" in state or "terminated" in state:
            return pod, state
        text = (state.get("waiting") or {}).get("message", "")
        if text and text != told and not quiet:
            await process.error(f"Warning: container {container}: {text}\n")
        told = text or told
        await process.sleep(POLL_S)


async def _attached(process: Process, client: Client, opts: Flags, pod: Obj, container: str) -> int:
    """Join the process of a container that runs."""
    spec: Obj = next((each for _, each in containers(pod) if each["name"] == container), {})
    tty = await _has_terminal(process, opts)
    if tty and not spec.get("tty"):
        await process.error(f"error: Unable to use a TTY - container {container} did not allocate one\n")
        tty = False
    elif not tty and spec.get("tty") and opts.on("stdin"):
        tty = process.tty(0) is not None
    stdin = opts.on("stdin")
    if stdin and not spec.get("stdin"):
        stdin = False
    if not opts.on("quiet"):
        await process.error(TEXTS["joined"])
    return await _converse(process, client, pod, "attach", _asked(container, stdin, tty), stdin=stdin, tty=tty)


async def pods_of(client: Client, word: str, doing: str) -> list[Obj]:
    """Return the pod of a name, or those of a workload or service, the best first. Raises KubectlError."""
    kind, name = (await kinds_and_names(client, [word if "/" in word else f"pods/{word}"]))[0]
    obj = await client.request("GET", kind.path(client.namespace, name))
    if kind.kind == "Pod" and not kind.group:
        return [obj]
    labels, shown = selector_of(obj), f"*{kind.version}.{kind.kind}"
    if not labels:
        known = "selector" in (obj.get("spec") or {}) or kind.kind == "Service"
        missing = "no pod selector" if known else f"selector for {shown} not implemented"
        raise KubectlError(f"error: cannot {doing} {shown}: {missing}")
    query = urlencode({"labelSelector": labels})
    found = (await client.request("GET", f"/api/v1/namespaces/{client.namespace}/pods?{query}")).get("items") or []
    if not found:
        raise KubectlError("error: timed out waiting for the condition")
    return sorted(found, key=_worth)


def selector_of(obj: Obj) -> str:
    """Return the labels of the pods that an object means, as a query has them."""
    chosen = (obj.get("spec") or {}).get("selector") or {}
    labels = chosen.get("matchLabels", {}) if "matchLabels" in chosen or "matchExpressions" in chosen else chosen
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _worth(pod: Obj) -> tuple[bool, bool, str]:
    """Order pods: running and ready ones first."""
    state = pod.get("status") or {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in state.get("conditions") or [])
    return state.get("phase") != "Running", not ready, pod["metadata"].get("creationTimestamp", "")


def containers(pod: Obj) -> list[tuple[str, Obj]]:
    """Return every container of a pod with what is said of its kind."""
    spec = pod["spec"]
    found = [("", each) for each in spec.get("containers") or []]
    found += [(" (init)", each) for each in spec.get("initContainers") or []]
    return found + [(" (ephem)", each) for each in spec.get("ephemeralContainers") or []]


async def container_of(process: Process, opts: Flags, pod: Obj) -> str:
    """Return the container that is meant: the one that is named, or the first."""
    known = containers(pod)
    if opts.get("container"):
        return opts.get("container")
    wanted = (pod["metadata"].get("annotations") or {}).get(DEFAULT)
    if wanted and wanted in [each["name"] for _, each in known]:
        return str(wanted)
    first = str(pod["spec"]["containers"][0]["name"])
    if len(known) > 1 and not opts.on("quiet"):
        listed = ", ".join(each["name"] + mark for mark, each in known)
        await process.error(f'Defaulted container "{first}" out of: {listed}\n')
    return first


async def _converse(
    process: Process, client: Client, pod: Obj, what: str, asked: list[tuple[str, str]], *, stdin: bool, tty: bool
) -> int:
    """Join this process's streams with a container's; returns the exit code."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/{what}?{urlencode(asked)}"
    terminal = process.tty(0) if tty else None
    if terminal is not None:
        terminal.mode(raw=True)
        terminal.processed = False
    try:
        async with client.kube.open(path, headers=client.headers({})) as socket:
            status = await _joined(process, socket, process.fds.get(0) if stdin else None, tty)
        return await _ended(process, status)
    except UpgradeError as error:
        raise _refused(error) from error
    except NetworkError as error:
        raise client.unreachable(error) from error
    finally:
        if terminal is not None:
            terminal.mode(raw=False)
            terminal.processed = True


def _refused(error: UpgradeError) -> KubectlError:
    try:
        json.loads(error.body)
    except ValueError:
        text = error.body.decode("utf-8", "replace").strip()
        return KubectlError(f"error: unable to upgrade connection: {text}")
    return refusal_of(error.status, error.body)


async def _joined(process: Process, socket: Messages, source: Handle | None, tty: bool) -> Obj:
    tasks: list[asyncio.Task[None]] = []
    await process.flush()
    if tty and (terminal := process.tty(0)) is not None:

        async def resize() -> None:
            rows, columns = terminal.size
            await socket.send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

        await resize()
        process.handlers["WINCH"] = lambda name: tasks.append(asyncio.ensure_future(resize()))
    if source is not None:
        tasks.append(asyncio.ensure_future(_send(socket, source)))
    try:
        return await _received(process, socket)
    finally:
        process.handlers.pop("WINCH", None)
        for task in tasks:
            task.cancel()


async def _send(socket: Messages, source: Handle) -> None:
    while data := await source.read(1 << 15):
        await socket.send(STDIN, data)
    await socket.send(CLOSE, bytes([STDIN]))


async def _received(process: Process, socket: Messages) -> Obj:
    status: Obj = {}
    while message := await socket.receive():
        channel, data = message
        if channel == STDOUT and data:
            await process.fds[1].write(data)
        elif channel == STDERR and data:
            await process.fds[2].write(data)
        elif channel == ERROR and data:
            status = json.loads(data)
        await process.tick()
    return status


async def _ended(process: Process, status: Obj) -> int:
    """Return the exit code of a Status, and say what was wrong. Raises KubectlError."""
    if status.get("status") != "Failure":
        return 0
    causes = (status.get("details") or {}).get("causes") or []
    code = next((each["message"] for each in causes if each.get("reason") == "ExitCode"), "")
    if status.get("reason") == "NonZeroExitCode" and code.isdecimal():
        await process.error(f"command terminated with exit code {code}\n")
        return int(code)
    raise KubectlError(f"error: {status.get('message', '')}")
