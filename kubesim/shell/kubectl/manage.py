"""kubectl's verbs that make, change and delete objects."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import yaml

from kubesim.shell.errors import FileError
from kubesim.shell.kubectl import printing
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.targets import (
    JSON,
    MERGE,
    STRATEGIC,
    change,
    chosen,
    kinds_and_names,
    manifests,
    needs,
    place,
    query,
    seconds,
)
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit

APPLY = "application/apply-patch+yaml"
FORCED = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
    "The resource may continue to run on the cluster indefinitely.\n"
)
DRY = {"server": " (server dry run)", "client": " (dry run)", "unchanged": " (dry run)"}


def dry(opts: Flags) -> str:
    """Return what ``--dry-run`` asks: "", client or server."""
    found = opts.get("dry-run")
    if found not in ("", "none", "client", "server", "unchanged"):
        raise KubectlError(f'error: Invalid dry-run value ({found}). Must be "none", "server", or "client".')
    return "" if found == "none" else "client" if found == "unchanged" else found


async def report(process: Process, opts: Flags, kind: Resource, obj: Obj, done: str) -> None:
    """Say that an object has been made, or print it as ``-o`` asks."""
    form = opts.get("output")
    if form == "name":
        await process.write(f"{kind.qualified}/{obj['metadata']['name']}\n")
    elif form:
        if not opts.on("show-managed-fields"):
            obj.get("metadata", {}).pop("managedFields", None)
        await process.write(printing.formatted(form, obj))
    else:
        await process.write(f"{kind.qualified}/{obj['metadata']['name']} {done}{DRY.get(dry(opts), '')}\n")


async def make(process: Process, client: Client, opts: Flags, obj: Obj, manager: str) -> Obj:
    """Create an object and say so."""
    kind = await client.of_object(obj)
    path = kind.path((obj.get("metadata") or {}).get("namespace") or client.namespace)
    how = dry(opts)
    made = obj
    if how != "client":
        pairs = {"fieldManager": manager, **({"dryRun": "All"} if how else {})}
        made = await client.request("POST", f"{path}?{urlencode(pairs)}", body=obj)
    await report(process, opts, kind, made, "created")
    return made


async def apply(process: Process, client: Client, opts: Flags) -> int:
    """Bring objects to what manifests say."""
    status = 0
    for obj in await manifests(process, opts):
        try:
            await _apply(process, client, opts, obj)
        except KubectlError as error:
            status = error.status
            await process.error(error.text + "\n")
    return status


async def _apply(process: Process, client: Client, opts: Flags, obj: Obj) -> None:
    kind = await client.of_object(obj)
    path, how = place(client, kind, obj), dry(opts)
    before: Obj | None = None
    try:
        before = await client.request("GET", path)
    except KubectlError as error:
        if error.reason != "NotFound":
            raise
    after, server = before or obj, opts.on("server-side")
    if how != "client":
        pairs = {
            "fieldManager": opts.get("field-manager") or "kubectl",
            "force": "true" if not server or opts.on("force-conflicts") else "false",
            **({"dryRun": "All"} if how else {}),
        }
        after = await client.request("PATCH", f"{path}?{urlencode(pairs)}", body=obj, sort=APPLY)
    same = before and before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
    done = "serverside-applied" if server else "created" if not before else "unchanged" if same else "configured"
    await report(process, opts, kind, after, done)


async def create(process: Process, client: Client, opts: Flags) -> int:
    """Make objects of manifests."""
    for obj in await manifests(process, opts):
        await make(process, client, opts, obj, "kubectl-create")
    return 0


async def delete(process: Process, client: Client, opts: Flags) -> int:
    """Delete objects and wait until they are gone."""
    gone: list[tuple[Resource, str, str]] = []
    status = 0
    grace = "1" if opts.on("now") else "0" if opts.on("force") else opts.get("grace-period")
    if grace == "0" and opts.on("force"):
        await process.error(FORCED)
    for kind, name, path in await _doomed(process, client, opts):
        try:
            await _delete(process, client, opts, kind, path, grace)
            gone.append((kind, name, path))
        except KubectlError as error:
            if not (opts.on("ignore-not-found") and error.reason == "NotFound"):
                status = error.status
                await process.error(error.text + "\n")
    if opts.on("wait", True) and grace != "0" and not dry(opts):
        for kind, name, path in gone:
            await _until_gone(process, client, opts, f"{kind.plural}/{name}", path)
    return status


async def _doomed(process: Process, client: Client, opts: Flags) -> list[tuple[Resource, str, str]]:
    if opts.all("filename"):
        objects = [(await client.of_object(obj), obj) for obj in await manifests(process, opts)]
        return [(kind, obj["metadata"]["name"], place(client, kind, obj)) for kind, obj in objects]
    needs(opts, 1, "You must provide one or more resources by argument or filename.")
    found = []
    for kind, name in await kinds_and_names(client, opts.args):
        if name:
            found.append((kind, name, kind.path(client.namespace, name)))
            continue
        if not (opts.on("all") or opts.get("selector") or opts.get("field-selector")):
            raise KubectlError("error: resource(s) were provided, but no name was specified")
        space = "" if opts.on("all-namespaces") else client.namespace
        answer = await client.request("GET", kind.path(space) + query(opts))
        found += [(kind, item["metadata"]["name"], place(client, kind, item)) for item in answer.get("items", [])]
    if not found and not opts.on("ignore-not-found"):
        await process.write("No resources found\n")
    return found


async def _delete(process: Process, client: Client, opts: Flags, kind: Resource, path: str, grace: str) -> None:
    how = {"foreground": "Foreground", "orphan": "Orphan"}.get(opts.get("cascade"), "Background")
    body: Obj = {"propagationPolicy": how}
    if grace.isdecimal():
        body["gracePeriodSeconds"] = int(grace)
    if dry(opts) == "server":
        body["dryRun"] = ["All"]
    if dry(opts) == "client":
        await client.request("GET", path)
    else:
        await client.request("DELETE", path, body=body)
    name = path.rsplit("/", 1)[-1]
    if opts.get("output") == "name":
        await process.write(f"{kind.qualified}/{name}\n")
        return
    scope = f" from {path.split('/namespaces/')[1].split('/')[0]} namespace" if kind.namespaced else ""
    done = "force deleted" if grace == "0" and opts.on("force") else "deleted"
    await process.write(f'{kind.qualified} "{name}" {done}{scope}{DRY.get(dry(opts), "")}\n')


async def _until_gone(process: Process, client: Client, opts: Flags, shown: str, path: str) -> None:
    left = seconds(opts, "timeout", 0.0) or float("inf")
    uid = ""
    while True:
        try:
            found = await client.request("GET", path)
        except KubectlError as error:
            if error.reason == "NotFound":
                return
            raise
        uid = uid or found["metadata"].get("uid", "")
        if found["metadata"].get("uid", "") != uid:
            return
        if left <= 0:
            raise KubectlError(f"error: timed out waiting for the condition on {shown}")
        await process.sleep(min(0.5, left))
        left -= 0.5


async def scale(process: Process, client: Client, opts: Flags) -> int:
    """Set the number of replicas."""
    if not opts.get("replicas").isdecimal():
        raise KubectlError(
            "error: The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"
        )
    for kind, obj in await chosen(process, client, opts, opts.args):
        now = obj.get("spec", {}).get("replicas")
        if "current-replicas" in opts and opts.get("current-replicas") not in ("-1", str(now)):
            raise KubectlError(f"error: Expected replicas to be {opts.get('current-replicas')}, was {now}")
        body = {"spec": {"replicas": int(opts.get("replicas"))}}
        await change(process, client, kind, obj, body, "scaled", dry=dry(opts))
    return 0


async def label(process: Process, client: Client, opts: Flags) -> int:
    """Set labels; annotate sets annotations."""
    field, done = ("labels", "labeled") if opts.command == "label" else ("annotations", "annotated")
    changes: dict[str, str | None] = {}
    words: list[str] = []
    for word in opts.args:
        if re.fullmatch(r"[^=]+=.*", word, re.DOTALL):
            changes[word.partition("=")[0]] = word.partition("=")[2]
        elif word.endswith("-") and words:
            changes[word[:-1]] = None
        else:
            words.append(word)
    if not words and not opts.all("filename"):
        raise KubectlError("error: one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if not changes:
        raise KubectlError(f"error: at least one {field[:-1]} update is required")
    status = 0
    for kind, obj in await chosen(process, client, opts, words):
        status = await _label(process, client, opts, kind, obj, field, done, changes) or status
    return status


async def _label(
    process: Process,
    client: Client,
    opts: Flags,
    kind: Resource,
    obj: Obj,
    field: str,
    done: str,
    changes: dict[str, str | None],
) -> int:
    before = obj["metadata"].get(field) or {}
    clash = [key for key, value in changes.items() if value is not None and before.get(key, value) != value]
    if clash and not opts.on("overwrite"):
        key = clash[0]
        if field == "labels":
            text = f"'{key}' already has a value ({before[key]}), and --overwrite is false"
        else:
            found = f"'{key}' already has a value ({before[key]})"
            text = f"--overwrite is false but found the following declared annotation(s): {found}"
        await process.error(f"error: {text}\n")
        return 1
    missing = [key for key, value in changes.items() if value is None and key not in before]
    for key in missing:
        await process.write(f'{field[:-1]} "{key}" not found.\n')
    real = {key: value for key, value in changes.items() if before.get(key) != value}
    if not real and field == "labels":
        done = "not labeled"
    elif field == "labels" and all(value is None for value in changes.values()):
        done = "unlabeled"
    if done == "not labeled":
        await process.write(f"{kind.qualified}/{obj['metadata']['name']} {done}\n")
    else:
        await change(process, client, kind, obj, {"metadata": {field: real}}, done, dry=dry(opts))
    return 0


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
    if not text:
        raise KubectlError("error: must specify --patch or --patch-file containing the contents of the patch")
    sorts = {"merge": MERGE, "json": JSON, "strategic": STRATEGIC, "": STRATEGIC}
    if opts.get("type") not in sorts:
        raise KubectlError(
            f"error: --type must be one of [json merge strategic], not {opts.get('type')!r}".replace("'", '"')
        )
    try:
        body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KubectlError(f'error: unable to parse "{text}": yaml: {str(error).splitlines()[0]}') from error
    for kind, obj in await chosen(process, client, opts, opts.args):
        path, how = place(client, kind, obj), dry(opts)
        pairs = {"fieldManager": "kubectl-patch", **({"dryRun": "All"} if how == "server" else {})}
        after = obj
        if how != "client":
            sort = sorts[opts.get("type")]
            after = await client.request("PATCH", f"{path}?{urlencode(pairs)}", body=body, sort=sort)
        same = obj["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
        await report(process, opts, kind, after, "patched (no change)" if same and how != "client" else "patched")
    return 0
