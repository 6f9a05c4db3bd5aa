"""kubectl apply --prune: what was applied before and is in no manifest any more goes."""

from __future__ import annotations

from urllib.parse import urlencode

from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.results import dry, report
from kubesim.shell.machine import Process

LAST = "kubectl.kubernetes.io/last-applied-configuration"
NAMESPACED = (
    *("/v1/ConfigMap", "/v1/Endpoints", "/v1/PersistentVolumeClaim", "/v1/Pod", "/v1/ReplicationController"),
    *("/v1/Secret", "/v1/Service", "batch/v1/Job", "batch/v1/CronJob", "networking.k8s.io/v1/Ingress"),
    *("apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1/ReplicaSet", "apps/v1/StatefulSet"),
)
CLUSTERED = ("/v1/Namespace", "/v1/PersistentVolume")
DEPRECATED = (
    "Deprecated: kubectl apply will no longer prune non-namespaced resources by default when used with the "
    "--namespace flag in a future release. To preserve the current behaviour, list the resources you want to target "
    "explicitly in the --prune-allowlist flag."
)


async def kinds(client: Client, opts: Flags) -> list[Resource]:
    """Return the kinds of which objects may go, those of namespaces first. Raises KubectlError."""
    found = [await _kind(client, word) for word in opts.words("prune-allowlist") or [*NAMESPACED, *CLUSTERED]]
    return sorted(found, key=lambda kind: not kind.namespaced)


async def _kind(client: Client, word: str) -> Resource:
    parts = word.split("/")
    if len(parts) != 3:
        raise KubectlError(f"error: invalid GroupVersionKind format: {word}, please follow <group/version/kind>")
    group, version, name = "" if parts[0] == "core" else parts[0], parts[1], parts[2]
    for each in await client.resources():
        if (each.group, each.version, each.kind) == (group, version, name):
            return each
    shown = f"{group}/{version}".lstrip("/")
    raise KubectlError(f'error: no matches for kind "{name}" in version "{shown}"')


async def prune(process: Process, client: Client, opts: Flags, allowed: list[Resource], applied: list[Obj]) -> None:
    """Delete what was applied once and is not among what was applied now."""
    if not opts.get("prune-allowlist"):
        stamp = process.machine.clock.now().strftime("W%m%d %H:%M:%S.%f")
        await process.error(f"{stamp} {process.pid:7d} prune.go:71] {DEPRECATED}\n")
    kept = {each["metadata"].get("uid") for each in applied}
    spaces = {each["metadata"].get("namespace", "") for each in applied} - {""}
    query = f"?{urlencode({'labelSelector': opts.get('selector')})}" if opts.get("selector") else ""
    for space in [*sorted(spaces), ""]:
        for kind in allowed:
            if kind.namespaced == bool(space):
                await _of_kind(process, client, opts, kind, kind.path(space) + query, kept)


async def _of_kind(
    process: Process, client: Client, opts: Flags, kind: Resource, path: str, kept: set[str | None]
) -> None:
    for each in (await client.request("GET", path)).get("items") or []:
        meta = each["metadata"]
        if LAST not in (meta.get("annotations") or {}) or meta["uid"] in kept:
            continue
        if dry(opts) != "client":
            body: Obj = {"apiVersion": "v1", "kind": "DeleteOptions"}
            body |= {"propagationPolicy": opts.get("cascade", "background").capitalize()}
            body |= {"dryRun": ["All"]} if dry(opts) else {}
            await client.request("DELETE", kind.path(meta.get("namespace", ""), meta["name"]), body=body)
        await report(process, opts, kind, each, "pruned")
