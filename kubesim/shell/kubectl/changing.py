"""kubectl scale, label, annotate and patch: objects changed where they are."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import yaml

from kubesim import data
from kubesim.shell.errors import FileError
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.results import change, dry, for_each, report, send
from kubesim.shell.kubectl.targets import JSON, MERGE, STRATEGIC, chosen, place
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit

Changes = dict[str, str | None]
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


async def scale(process: Process, client: Client, opts: Flags) -> int:
    """Set the number of replicas."""
    if not re.fullmatch(r"\d+", opts.get("replicas")):
        raise KubectlError(
            "error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"
        )
    try:
        found = await chosen(process, client, opts, opts.args)
    except KubectlError as error:
        if error.reason not in ("NotFound", "Forbidden") or opts.files:
            raise
        raise KubectlError(f"error: no objects passed to scale {error.message}", reason=error.reason) from error
    if not found:
        raise KubectlError("error: no objects passed to scale")
    for kind, obj in found:
        path = f"{place(client, kind, obj)}/scale"
        await client.request("GET", path)
        body = {"spec": {"replicas": int(opts.get("replicas"))}}
        if dry(opts) != "client":
            await send(client, opts, "PATCH", path, body, MERGE)
        await report(process, opts, kind, obj, "scaled")
    return 0


async def label(process: Process, client: Client, opts: Flags) -> int:
    """Set labels; annotate sets annotations."""
    field = "labels" if opts.command == "label" else "annotations"
    changes: Changes = {}
    words: list[str] = []
    for word in opts.args:
        if re.fullmatch(r"[^=]+=.*", word, re.DOTALL):
            changes[word.partition("=")[0]] = word.partition("=")[2]
        elif word.endswith("-") and words:
            changes[word[:-1]] = None
        else:
            words.append(word)
    if not words and not opts.files:
        raise KubectlError("error: one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if not changes and not opts.on("list"):
        raise KubectlError(f"error: at least one {field[:-1]} update is required")
    if field == "labels":
        _check_labels(changes)
    found = await chosen(process, client, opts, words)
    if opts.on("list"):
        for _, obj in found:
            known = obj["metadata"].get(field) or {}
            await process.write("".join(f"{key}={value}\n" for key, value in sorted(known.items())))
        return 0
    return await for_each(process, found, partial(_label, process, client, opts, changes))


def _check_labels(changes: Changes) -> None:
    for key, value in changes.items():
        if value is not None and (len(value) > 63 or not LABEL.fullmatch(value)):
            raise KubectlError(f'error: invalid label value: "{key}={value}": {TEXTS["wrong label"]}')


async def _label(process: Process, client: Client, opts: Flags, changes: Changes, kind: Resource, obj: Obj) -> None:
    field, done = ("labels", "labeled") if opts.command == "label" else ("annotations", "annotated")
    before = obj["metadata"].get(field) or {}
    clash = [key for key, value in changes.items() if value is not None and before.get(key, value) != value]
    if clash and not opts.on("overwrite"):
        found = [f"'{key}' already has a value ({before[key]})" for key in clash]
        raise KubectlError(
            f"error: {found[0]}, and --overwrite is false"
            if field == "labels"
            else f"error: --overwrite is false but found the following declared annotation(s): {'; '.join(found)}"
        )
    for key in (key for key, value in changes.items() if value is None and key not in before and field == "labels"):
        await process.write(f'label "{key}" not found.\n')
    real = {key: value for key, value in changes.items() if before.get(key) != value}
    if field == "labels" and not real:
        done = "not labeled"
    elif field == "labels" and all(value is None for value in changes.values()):
        done = "unlabeled"
    if real:
        await change(process, client, opts, kind, obj, {"metadata": {field: real}}, done)
    else:
        await report(process, opts, kind, obj, done)


async def patch(process: Process, client: Client, opts: Flags) -> int:
    """Change fields."""
    text = opts.get("patch")
    if opts.get("patch-file"):
        try:
            text = kit.text(await kit.everything(process, process.open(opts.get("patch-file"))))
        except FileError as error:
            raise KubectlError(
                f"error: unable to read patch file: open {opts.get('patch-file')}: {error.text}"
            ) from error
    sorts = {"merge": MERGE, "json": JSON, "strategic": STRATEGIC, "": STRATEGIC}
    body: object = text.encode("utf-8", "surrogateescape")
    if text.lstrip()[:1] not in ("{", "["):
        try:
            body = data.parse_sent(text)
        except yaml.YAMLError as error:
            raise KubectlError(f'error: unable to parse "{text}": yaml: {str(error).splitlines()[0]}') from error
    for kind, obj in await chosen(process, client, opts, opts.args):
        path, after, how = place(client, kind, obj), obj, dry(opts)
        path += f"/{opts.get('subresource')}" if opts.get("subresource") else ""
        if how != "client":
            after = await send(client, opts, "PATCH", path, body, sorts[opts.get("type")])
        same = obj["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
        if opts.get("subresource") == "scale":
            kind = replace(kind, group="autoscaling", singular="scale")
        await report(process, opts, kind, after, "patched (no change)" if same and how != "client" else "patched")
    return 0
