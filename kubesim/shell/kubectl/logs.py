"""kubectl logs."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags, number
from kubesim.shell.kubectl.streams import container_of, containers, pods_of
from kubesim.shell.kubectl.targets import seconds
from kubesim.shell.machine import Process


async def logs(process: Process, client: Client, opts: Flags) -> int:
    """Show or follow the logs of containers."""
    if len(opts.args) > 1:
        opts.given.setdefault("container", [opts.args[1]])
    _check(opts)
    wanted = [(pod, name) for pod in await _pods(process, client, opts) for name in await _names(process, opts, pod)]
    most = int(opts.get("max-log-requests") or 5)
    if opts.on("follow") and len(wanted) > most:
        raise KubectlError(
            f"error: you are attempting to follow {len(wanted)} log streams, but maximum allowed concurrency is "
            f"{most}, use --max-log-requests to increase the limit"
        )
    several = len(wanted) > 1
    if opts.on("follow") and several:
        await asyncio.gather(*(_one(process, client, opts, pod, name, several) for pod, name in wanted))
        return 0
    for pod, name in wanted:
        await _one(process, client, opts, pod, name, several)
    return 0


def _check(opts: Flags) -> None:
    if number(opts, "tail") < -1:
        raise KubectlError("error: --tail must be greater than or equal to -1")
    if "limit-bytes" in opts and number(opts, "limit-bytes") < 1:
        raise KubectlError("error: --limit-bytes must be greater than 0")
    if opts.on("all-containers") and opts.get("container"):
        name = opts.get("container")
        raise KubectlError(f"error: --all-containers=true should not be specified with container name {name}")


async def _pods(process: Process, client: Client, opts: Flags) -> list[Obj]:
    if opts.get("selector"):
        text = urlencode({"labelSelector": opts.get("selector")})
        found = await client.request("GET", f"/api/v1/namespaces/{client.namespace}/pods?{text}")
        if not found.get("items"):
            await process.error(f"No resources found in {client.namespace} namespace.\n")
        return list(found.get("items") or [])
    try:
        pods = await pods_of(client, opts.args[0], "get the logs from")
    except KubectlError as error:
        if error.reason != "NotFound":
            raise
        text = f'error: error from server (NotFound): {error.message} in namespace "{client.namespace}"'
        raise KubectlError(text, reason=error.reason) from error
    if len(pods) > 1 and not opts.on("all-pods"):
        pods.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")))
        await process.error(f"Found {len(pods)} pods, using pod/{pods[0]['metadata']['name']}\n")
        return pods[:1]
    return pods


async def _names(process: Process, opts: Flags, pod: Obj) -> list[str]:
    known = containers(pod)
    if opts.on("all-containers"):
        order = {" (init)": 0, "": 1, " (ephem)": 2}
        return [each["name"] for _, each in sorted(known, key=lambda pair: order[pair[0]])]
    name = await container_of(process, opts, pod)
    if name not in [each["name"] for _, each in known]:
        raise KubectlError(f"error: container {name} is not valid for pod {pod['metadata']['name']}")
    return [name]


def _path(opts: Flags, pod: Obj, name: str) -> str:
    tail = opts.get("tail") if "tail" in opts else "10" if opts.get("selector") else ""
    pairs = {
        "container": name,
        "previous": "true" if opts.on("previous") else "",
        "tailLines": "" if tail == "-1" else tail,
        "timestamps": "true" if opts.on("timestamps") else "",
        "follow": "true" if opts.on("follow") else "",
        "sinceSeconds": str(round(seconds(opts, "since", 0.0)) or ""),
        "sinceTime": opts.get("since-time"),
        "limitBytes": opts.get("limit-bytes"),
    }
    metadata = pod["metadata"]
    query = urlencode({key: value for key, value in pairs.items() if value})
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log?{query}"


async def _one(process: Process, client: Client, opts: Flags, pod: Obj, name: str, several: bool) -> None:
    prefix = f"[pod/{pod['metadata']['name']}/{name}] ".encode() if opts.on("prefix") else b""
    path = _path(opts, pod, name)
    try:
        if opts.on("follow"):
            await _follow(process, client, path, prefix)
        else:
            await _write(process, await client.raw("GET", path), prefix)
    except KubectlError as error:
        if not opts.on("ignore-errors"):
            raise
        await process.error(error.text + "\n")


async def _write(process: Process, data: bytes, prefix: bytes) -> None:
    if prefix:
        data = b"".join(prefix + line for line in data.splitlines(keepends=True))
    await process.write(data)


async def _follow(process: Process, client: Client, path: str, prefix: bytes) -> None:
    rest = b""
    async for piece in client.kube.stream(path, headers=client.headers({"Accept": "application/json, */*"})):
        if not rest and not prefix and piece.startswith(b'{"kind":"Status"'):
            found = json.loads(piece)
            raise KubectlError(f"Error from server ({found.get('reason', '')}): {found.get('message', '')}")
        *lines, rest = (rest + piece).split(b"\n") if prefix else (piece, b"")
        for line in lines:
            await process.write(prefix + line + b"\n" if prefix else line)
        await process.flush()
