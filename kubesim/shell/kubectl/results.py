"""How kubectl tells what it has done: a line, a name, or the object; and its refusals."""

from __future__ import annotations

from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.machine import Process

LEFT_OUT = ("go-template", "go-template-file", "template", "templatefile", "jsonpath-file", "custom-columns-file")
"""Formats of output that only a candidate's own kubectl has."""
DRY = {"server": " (server dry run)", "client": " (dry run)", "": ""}
VALIDATION = {
    "": "Strict",
    "true": "Strict",
    "strict": "Strict",
    "warn": "Warn",
    "false": "Ignore",
    "ignore": "Ignore",
}


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
    if opts.args:
        raise KubectlError("error: arguments may not be passed when --raw is specified")
    if opts.get("output"):
        raise KubectlError("error: --raw and --output are mutually exclusive")
    if not opts.get("raw").startswith("/") and ":" not in opts.get("raw"):
        text = opts.get("raw")
        raise KubectlError(f'error: --raw must be a valid URL path: parse "{text}": invalid URI for request')


async def complain(process: Process, error: KubectlError) -> int:
    """Show a refusal where others of the same command go on; returns the status."""
    await process.error(error.text + "\n")
    return error.status
