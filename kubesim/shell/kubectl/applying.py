"""kubectl apply and replace: objects brought to what manifests say."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.deleting import remove
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.patches import shape_of, three_way
from kubesim.shell.kubectl.results import complain, dry, report, validation
from kubesim.shell.kubectl.targets import MERGE, STRATEGIC, located, place, sources
from kubesim.shell.kubectl.texts import compact
from kubesim.shell.machine import Process

MANAGER = "kubectl-client-side-apply"
LAST = "kubectl.kubernetes.io/last-applied-configuration"
MISSING = (
    "Warning: resource {} is missing the {} annotation which is required by kubectl apply. kubectl apply should "
    "only be "
    "used on resources created declaratively by either kubectl create --save-config or kubectl apply. The missing "
    "annotation will be patched automatically.\n"
)


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
    _check_apply(opts)
    status = 0
    for obj, source in await sources(process, opts):
        try:
            kind = await client.of_object(obj, source)
            wanted = located(client, kind, obj)
            await _apply(process, client, opts, kind, wanted, source)
        except KubectlError as error:
            status = await complain(process, error)
    return status


def _check_apply(opts: Flags) -> None:
    if opts.args:
        raise KubectlError(
            f"error: Unexpected args: [{' '.join(opts.args)}]\nSee 'kubectl apply -h' for help and examples"
        )
    if opts.on("force") and dry(opts) == "server":
        raise KubectlError("error: --dry-run=server cannot be used with --force")
    if opts.on("all") and opts.get("selector"):
        raise KubectlError("error: cannot set --all and --selector at the same time")


def without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null, which for ``apply`` are absent."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


async def _apply(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, source: str) -> Obj:
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
        return await _create(process, client, opts, kind, without_nulls(wanted), source)
    if LAST not in (before["metadata"].get("annotations") or {}):
        await process.error(MISSING.format(f"{kind.plural}/{before['metadata']['name']}", LAST))
    patch, sort = patch_to(kind, before, wanted)
    if how == "client" or not patch:
        await report(
            process,
            opts,
            kind,
            before,
            "configured" if how == "client" and patch else "unchanged" if not patch else "configured",
        )
        return before
    pairs = {"fieldManager": opts.get("field-manager") or MANAGER, "fieldValidation": validation(opts)}
    try:
        after = await client.request(
            "PATCH", f"{path}?{urlencode(pairs | ({'dryRun': 'All'} if how else {}))}", body=patch, sort=sort
        )
    except KubectlError as error:
        if opts.on("force") and error.reason in ("Invalid", "Conflict"):
            await remove(process, client, opts, kind, path)
            after = await client.request("POST", path.rpartition("/")[0], body=wanted)
        else:
            raise error.during("applying", source) from error
    await report(process, opts, kind, after, "configured")
    return after


async def _create(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, source: str) -> Obj:
    after = obj
    if dry(opts) != "client":
        pairs = {"fieldManager": opts.get("field-manager") or MANAGER, "fieldValidation": validation(opts)}
        pairs |= {"dryRun": "All"} if dry(opts) else {}
        path = kind.path(obj["metadata"].get("namespace", ""))
        try:
            after = await client.request("POST", f"{path}?{urlencode(pairs)}", body=obj)
        except KubectlError as error:
            raise error.during("creating", source) from error
    await report(process, opts, kind, after, "created")
    return after


async def replace(process: Process, client: Client, opts: Flags) -> int:
    """Put manifests in the place of objects."""
    found = [(await client.of_object(obj, source), obj, source) for obj, source in await sources(process, opts)]
    wanted = [(kind, located(client, kind, obj), source) for kind, obj, source in found]
    if opts.on("force"):
        for kind, obj, _ in wanted:
            await remove(process, client, opts, kind, place(client, kind, obj), missing_ok=True)
    status = 0
    for kind, obj, source in wanted:
        try:
            await _replace(process, client, opts, kind, obj, source)
        except KubectlError as error:
            status = await complain(process, error)
    return status


async def _replace(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj, source: str) -> None:
    path, after = place(client, kind, obj), obj
    pairs = {"fieldManager": opts.get("field-manager") or "kubectl-replace", "fieldValidation": validation(opts)}
    pairs |= {"dryRun": "All"} if dry(opts) else {}
    if LAST in (obj["metadata"].get("annotations") or {}):
        obj = configured(obj)
    if dry(opts) != "client":
        try:
            if opts.on("force"):
                obj = {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}
                after = await client.request("POST", f"{path.rpartition('/')[0]}?{urlencode(pairs)}", body=obj)
            else:
                after = await client.request("PUT", f"{path}?{urlencode(pairs)}", body=obj)
        except KubectlError as error:
            raise error if opts.on("force") else error.during("replacing", source) from error
    await report(process, opts, kind, after, "replaced")
