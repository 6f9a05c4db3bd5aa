"""kubectl delete."""

from __future__ import annotations

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.results import DRY, dry
from kubesim.shell.kubectl.targets import needs, paths, seconds
from kubesim.shell.machine import Process

POLL_S = 0.2


async def delete(process: Process, client: Client, opts: Flags) -> int:
    """Delete objects and wait until they are gone."""
    gone: list[tuple[Resource, str]] = []
    status = 0
    grace = "1" if opts.on("now") else "0" if opts.on("force") else opts.get("grace-period")
    if grace == "0" and not opts.on("force"):
        grace = "1"
    if opts.on("force"):
        await process.error(TEXTS["forced"])
    if not opts.files:
        needs(opts, 1, TEXTS["nothing named"])
    doomed = await paths(process, client, opts)
    if not doomed:
        await process.write("No resources found\n")
    for kind, path in doomed:
        try:
            await _delete(process, client, opts, kind, path, grace)
            gone.append((kind, path))
        except KubectlError as error:
            if not (opts.on("ignore-not-found") and error.reason == "NotFound"):
                await process.error(error.text + "\n")
                status = error.status
    if opts.on("wait", True) and not opts.on("force") and not dry(opts):
        for kind, path in gone:
            await _until_gone(process, client, opts, kind, path)
    return status


async def _delete(process: Process, client: Client, opts: Flags, kind: Resource, path: str, grace: str) -> None:
    if dry(opts) == "client":
        await client.request("GET", path)
    else:
        body = options(opts, grace)
        await client.request("DELETE", path, body={**body, "dryRun": ["All"]} if dry(opts) else body)
    name = path.rsplit("/", 1)[-1]
    if opts.on("quiet"):
        return
    if opts.get("output") == "name":
        await process.write(f"{kind.qualified}/{name}\n")
        return
    scope = f" from {path.split('/namespaces/')[1].split('/')[0]} namespace" if kind.namespaced else ""
    done = "force deleted" if opts.on("force") else "deleted"
    await process.write(f'{kind.qualified} "{name}" {done}{scope}{DRY[dry(opts)]}\n')


def options(opts: Flags, grace: str) -> Obj:
    """Return the body of a deletion. Raises KubectlError."""
    cascade = opts.get("cascade")
    known = {"": "Background", "background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
    known |= {"true": "Background", "false": "Orphan"}
    if cascade not in known:
        raise KubectlError(
            f'error: invalid cascade value ({cascade}). Must be "background", "foreground", or "orphan"'
        )
    body: Obj = {"propagationPolicy": known[cascade]}
    if grace.isdecimal():
        body["gracePeriodSeconds"] = int(grace)
    return body


async def remove(
    process: Process, client: Client, opts: Flags, kind: Resource, path: str, *, missing_ok: bool = False
) -> None:
    """Delete one object, say so, and wait until it is gone."""
    try:
        plain = Flags(opts.command, {"quiet": ["true"]} if opts.on("quiet") and opts.command == "delete" else {})
        await _delete(process, client, plain, kind, path, opts.get("grace-period"))
    except KubectlError as error:
        if missing_ok and error.reason == "NotFound":
            return
        raise
    await _until_gone(process, client, opts, kind, path)


async def _until_gone(process: Process, client: Client, opts: Flags, kind: Resource, path: str) -> None:
    late = f"timed out waiting for the condition on {kind.plural}/{path.rpartition('/')[2]}"
    await until_gone(process, client, path, end_of(process, opts), late)


def end_of(process: Process, opts: Flags) -> float:
    """Return when ``--timeout`` is over, on the machine's clock."""
    return process.machine.now() + (seconds(opts, "timeout", 0.0) or float("inf"))


async def until_gone(process: Process, client: Client, path: str, end: float, late: str) -> None:
    """Wait until an object is gone, or another has its name. Raises KubectlError where that is too ``late``."""
    uid = ""
    while True:
        try:
            found = await client.request("GET", path)
        except KubectlError as error:
            if error.reason in ("NotFound", "Forbidden"):
                return
            raise
        uid = uid or found["metadata"].get("uid", "")
        if found["metadata"].get("uid", "") != uid:
            return
        if process.machine.now() >= end:
            raise KubectlError(f"error: {late}")
        await process.sleep(POLL_S)
