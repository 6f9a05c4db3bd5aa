"""How kubectl tells what it has done: a line, a name, or the object; and its refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import urlencode

from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.targets import MERGE, place
from kubesim.shell.machine import Process

LEFT_OUT = ("go-template", "go-template-file", "template", "templatefile", "jsonpath-file", "custom-columns-file")
"""Formats of output that only a candidate's own kubectl has."""
DRY = {"server": " (server dry run)", "client": " (dry run)", "": ""}
VALIDATION = dict.fromkeys(("", "true", "strict"), "Strict") | {"warn": "Warn", "false": "Ignore", "ignore": "Ignore"}


def dry(opts: Flags) -> str:
    """Return what ``--dry-run`` asks: "", client or server."""
    found = opts.get("dry-run")
    if found not in ("", "none", "client", "server", "unchanged"):
        raise KubectlError(f'error: Invalid dry-run value ({found}). Must be "none", "server", or "client".')
    return "" if found == "none" else "client" if found == "unchanged" else found


def validation(opts: Flags) -> str:
    """Return how strictly the server looks for fields that it does not know."""
    found = opts.get("validate")
    if found.lower() not in VALIDATION:
        raise KubectlError(f'error: invalid - validate option "{found}"')
    return VALIDATION[found.lower()]


def headless(obj: Obj) -> Obj:
    """Return an object without who owns what in it."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def check_format(opts: Flags) -> None:
    """Refuse formats of output that this kubectl does not have. Raises KubectlError."""
    form = opts.get("output").partition("=")[0]
    if form in LEFT_OUT:
        raise KubectlError(f"error: this kubectl was built without {form}")


async def send(
    client: Client, opts: Flags, method: str, path: str, body: Any, sort: str = "application/json", **more: str
) -> Obj:
    """Write something in the name of the command, or only try to where that is asked."""
    pairs = {"fieldManager": opts.get("field-manager") or f"kubectl-{opts.command.partition(' ')[0]}", **more}
    pairs |= {"dryRun": "All"} if dry(opts) else {}
    return await client.request(method, f"{path}?{urlencode(pairs)}", body=body, sort=sort)


async def change(
    process: Process,
    client: Client,
    opts: Flags,
    kind: Resource,
    obj: Obj,
    body: Any,
    done: str,
    *,
    sort: str = MERGE,
    local: Obj | None = None,
) -> None:
    """Patch an object, and say that it is done; ``local`` is what a dry run on this side makes of it."""
    if dry(opts) == "client":
        after = local or obj
    else:
        after = await send(client, opts, "PATCH", place(client, kind, obj), body, sort)
    await report(process, opts, kind, after, done)


async def for_each(process: Process, found: Iterable[tuple[Any, ...]], act: Callable[..., Awaitable[object]]) -> int:
    """Do something with one object after another, whatever becomes of the others; returns the status."""
    status = 0
    for some in found:
        try:
            await act(*some)
        except KubectlError as error:
            await process.error(error.text + "\n")
            status = error.status
    return status


async def report(process: Process, opts: Flags, kind: Resource, obj: Obj, done: str) -> None:
    """Say what has happened to an object, or print it as ``-o`` asks."""
    form, name = opts.get("output"), (obj.get("metadata") or {}).get("name", "")
    if form == "name":
        await process.write(f"{kind.qualified}/{name}\n")
    elif form:
        whole = opts.on("show-managed-fields") or form not in printing.PLAIN
        await process.write(printing.formatted(form, obj if whole else headless(obj)))
    else:
        await process.write(f"{kind.qualified}/{name} {done}{DRY[dry(opts)]}\n")


def check_raw(opts: Flags) -> None:
    """Refuse what does not go with a path of the API. Raises KubectlError."""
    if not opts.get("raw").startswith("/") and ":" not in opts.get("raw"):
        text = opts.get("raw")
        raise KubectlError(f'error: --raw must be a valid URL path: parse "{text}": invalid URI for request')
