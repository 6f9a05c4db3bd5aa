"""kubectl apply and replace: objects brought to what manifests say."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from kubesim.goyaml import compact, to_json, to_yaml
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.deleting import remove
from kubesim.shell.kubectl.flags import TEXTS, Flags
from kubesim.shell.kubectl.patches import shape_of, three_way
from kubesim.shell.kubectl.results import dry, for_each, report, send, validation
from kubesim.shell.kubectl.targets import MERGE, STRATEGIC, chosen, located, place, sources
from kubesim.shell.machine import Process

MANAGER = "kubectl-client-side-apply"
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def configured(obj: Obj) -> Obj:
    """Return an object that says of itself what was applied."""
    metadata = dict(obj.get("metadata") or {})
    notes = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST}
    plain = {**obj, "metadata": {**metadata, "annotations": notes}}
    return {**obj, "metadata": {**metadata, "annotations": {**notes, LAST: compact(plain) + "\n"}}}


async def current(client: Client, path: str) -> Obj | None:
    """Return an object as it is; None where there is none."""
    try:
        return await client.request("GET", path)
    except KubectlError as error:
        if error.reason != "NotFound":
            raise
        return None


def patch_to(kind: Resource, before: Obj, wanted: Obj) -> tuple[Obj, str]:
    """Return the patch that applies ``wanted``, and its media type."""
    shape = shape_of(kind)
    text = (before["metadata"].get("annotations") or {}).get(LAST) or "{}"
    try:
        original = json.loads(text)
    except ValueError as error:
        raise KubectlError(f"error: invalid character in {LAST}") from error
    return three_way(original if isinstance(original, dict) else {}, wanted, before, shape), (
        STRATEGIC if shape is not None else MERGE
    )


async def apply(process: Process, client: Client, opts: Flags) -> int:
    """Bring objects to what manifests say."""

    async def act(obj: Obj, source: str) -> None:
        kind = await client.of_object(obj, source)
        await _apply(process, client, opts, kind, located(client, kind, obj), source)

    return await for_each(process, await sources(process, opts), act)


def without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null, which for ``apply`` are absent."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


async def _apply(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, source: str) -> None:
    path, how, wanted = place(client, kind, obj), dry(opts), configured(obj)
    if not (obj.get("metadata") or {}).get("name"):
        if (obj.get("metadata") or {}).get("generateName"):
            prefix = obj["metadata"]["generateName"]
            raise KubectlError(f"error: from {prefix}: cannot use generate name with apply")
        raise KubectlError("error: resource name may not be empty")
    try:
        before = await current(client, path)
    except KubectlError as error:
        raise error.during("retrieving current configuration of", source) from error
    if before is None:
        await _create(process, client, opts, kind, without_nulls(wanted), source)
        return
    if LAST not in (before["metadata"].get("annotations") or {}):
        await process.error(TEXTS["not applied"].format(f"{kind.plural}/{before['metadata']['name']}", LAST))
    patch, sort = patch_to(kind, before, wanted)
    if how == "client" or not patch:
        await report(process, opts, kind, before, "configured" if patch else "unchanged")
        return
    try:
        after = await send(client, opts, "PATCH", path, patch, sort, **_manner(opts))
    except KubectlError as error:
        if opts.on("force") and error.reason in ("Invalid", "Conflict"):
            await remove(process, client, opts, kind, path)
            after = await client.request("POST", path.rpartition("/")[0], body=wanted)
        else:
            raise error.during("applying", source) from error
    await report(process, opts, kind, after, "configured")


def _manner(opts: Flags) -> dict[str, str]:
    """Return by whom something is applied, and how strictly its fields are looked at."""
    return {"fieldManager": opts.get("field-manager") or MANAGER, "fieldValidation": validation(opts)}


async def _create(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, source: str) -> None:
    after = obj
    if dry(opts) != "client":
        try:
            path = kind.path(obj["metadata"].get("namespace", ""))
            after = await send(client, opts, "POST", path, obj, **_manner(opts))
        except KubectlError as error:
            raise error.during("creating", source) from error
    await report(process, opts, kind, after, "created")


async def view_last_applied(process: Process, client: Client, opts: Flags) -> int:
    """Show the manifests as they were applied last."""
    for _, obj in await chosen(process, client, opts, opts.args):
        if text := (obj["metadata"].get("annotations") or {}).get(LAST):
            applied = json.loads(text)
            await process.write(to_json(applied, 2) if opts.get("output") == "json" else to_yaml(applied))
    return 0


async def replace(process: Process, client: Client, opts: Flags) -> int:
    """Put manifests in the place of objects."""
    found = [(await client.of_object(obj, source), obj, source) for obj, source in await sources(process, opts)]
    wanted = [(kind, located(client, kind, obj), source) for kind, obj, source in found]
    if opts.on("force"):
        for kind, obj, _ in wanted:
            await remove(process, client, opts, kind, place(client, kind, obj), missing_ok=True)
    return await for_each(process, wanted, partial(_replace, process, client, opts))


async def _replace(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, source: str) -> None:
    path, after = place(client, kind, obj), obj
    strictly = {"fieldValidation": validation(opts)}
    if LAST in (obj["metadata"].get("annotations") or {}):
        obj = configured(obj)
    if dry(opts) != "client":
        try:
            if opts.on("force"):
                obj = {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}
                after = await send(client, opts, "POST", path.rpartition("/")[0], obj, **strictly)
            else:
                after = await send(client, opts, "PUT", path, obj, **strictly)
        except KubectlError as error:
            raise error if opts.on("force") else error.during("replacing", source) from error
    await report(process, opts, kind, after, "replaced")
