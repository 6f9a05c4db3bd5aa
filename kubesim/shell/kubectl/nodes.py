"""kubectl cordon, uncordon, drain and taint."""

from __future__ import annotations

from urllib.parse import urlencode

from kubesim.api.selectors import parse_labels
from kubesim.errors import ApiError
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.deleting import end_of, until_gone
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.results import DRY, change, dry
from kubesim.shell.kubectl.targets import needs, query
from kubesim.shell.machine import Process

TAINT = "See 'kubectl taint -h' for help and examples"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MIRROR = "kubernetes.io/config.mirror"


async def _nodes(client: Client, opts: Flags) -> tuple[Resource, list[Obj]]:
    kind = await client.resource("nodes")
    if opts.get("selector"):
        return kind, (await client.request("GET", kind.path("") + query(opts))).get("items", [])
    if not opts.args:
        usage = f"{opts.command} NODE [flags]\nSee 'kubectl {opts.command} -h' for help and examples"
        raise KubectlError(f"error: USAGE: {usage}")
    return kind, [await client.request("GET", kind.path("", name.removeprefix("node/"))) for name in opts.args]


async def cordon(process: Process, client: Client, opts: Flags) -> int:
    """Mark nodes unschedulable, or with uncordon schedulable."""
    kind, nodes = await _nodes(client, opts)
    for node in nodes:
        await _mark(process, client, opts, kind, node, opts.command != "uncordon")
    return 0


async def _mark(process: Process, client: Client, opts: Flags, kind: Resource, node: Obj, wanted: bool) -> None:
    done = "cordoned" if wanted else "uncordoned"
    if bool(node.get("spec", {}).get("unschedulable")) == wanted:
        await process.write(f"node/{node['metadata']['name']} already {done}{DRY[dry(opts)]}\n")
        return
    await change(process, client, opts, kind, node, {"spec": {"unschedulable": wanted or None}}, done)


async def drain(process: Process, client: Client, opts: Flags) -> int:
    """Cordon nodes and evict their pods."""
    try:
        parse_labels(opts.get("pod-selector"))
    except ApiError as error:
        raise KubectlError("error: --pod-selector=<pod_selector> must be a valid label selector") from error
    kind, nodes = await _nodes(client, opts)
    for node in nodes:
        await _mark(process, client, opts, kind, node, True)
    status = 0
    for node in nodes:
        status = await _drain(process, client, opts, node["metadata"]["name"]) or status
    return status


async def _drain(process: Process, client: Client, opts: Flags, name: str) -> int:
    asked = urlencode({"fieldSelector": f"spec.nodeName={name}", "labelSelector": opts.get("pod-selector")})
    found = await client.request("GET", f"/api/v1/pods?{asked}")
    leaving, reasons, warnings = _sorted(found.get("items", []), opts)
    if reasons:
        listed = "; ".join(f"cannot delete {text}: {', '.join(pods)}" for text, pods in reasons.items())
        await process.error(
            f'error: unable to drain node "{name}" due to error: {_plural(reasons, listed)}, continuing command...\n'
        )
        await process.error(f"There are pending nodes to be drained:\n {name}\n{listed}\n")
        return 1
    if warnings:
        shown = "; ".join(f"{text}: {', '.join(pods)}" for text, pods in warnings.items())
        await process.error(f"Warning: {shown}\n")
    for pod in leaving:
        await process.write(f"evicting pod {_place(pod)}{DRY[dry(opts)]}\n")
    if not dry(opts):
        await _evict(process, client, opts, leaving)
    await process.write(f"node/{name} drained{DRY[dry(opts)]}\n")
    return 0


def _plural(reasons: dict[str, list[str]], listed: str) -> str:
    return f"[{listed.replace('; ', ', ')}]" if len(reasons) > 1 else listed


def _place(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _sorted(pods: list[Obj], opts: Flags) -> tuple[list[Obj], dict[str, list[str]], dict[str, list[str]]]:
    """Return the pods to evict, and with their reasons those that forbid it and those to warn of."""
    leaving: list[Obj] = []
    fatal: dict[str, list[str]] = {}
    warned: dict[str, list[str]] = {}
    for pod in pods:
        meta = pod["metadata"]
        if MIRROR in (meta.get("annotations") or {}):
            continue
        done = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        owner = next((each["kind"] for each in meta.get("ownerReferences", []) if each.get("controller")), "")
        local = any("emptyDir" in volume for volume in pod["spec"].get("volumes") or [])
        if owner == "DaemonSet" and not done:
            if opts.on("ignore-daemonsets"):
                warned.setdefault("ignoring DaemonSet-managed Pods", []).append(_place(pod))
            else:
                text = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
                fatal.setdefault(text, []).append(_place(pod))
            continue
        if local and not done and not opts.on("delete-emptydir-data"):
            text = "Pods with local storage (use --delete-emptydir-data to override)"
            fatal.setdefault(text, []).append(_place(pod))
        elif not owner and not done and not opts.on("force"):
            fatal.setdefault("Pods that declare no controller (use --force to override)", []).append(_place(pod))
        else:
            if not owner and not done:
                warned.setdefault("deleting Pods that declare no controller", []).append(_place(pod))
            leaving.append(pod)
    return leaving, fatal, warned


async def _evict(process: Process, client: Client, opts: Flags, pods: list[Obj]) -> None:
    end, late = end_of(process, opts), "drain did not complete within the timeout"
    grace = opts.get("grace-period")
    options = {"deleteOptions": {"gracePeriodSeconds": int(grace)}} if grace.isdecimal() else {}
    kind = await client.resource("pods")
    for pod in pods:
        path = kind.path(pod["metadata"]["namespace"], pod["metadata"]["name"])
        names = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names, **options}
        while True:
            try:
                await client.request("POST", f"{path}/eviction", body=body)
                break
            except KubectlError as error:
                if error.reason == "NotFound":
                    break
                if error.reason != "TooManyRequests" or process.machine.now() >= end:
                    raise
                await process.error(
                    f'error when evicting pods/"{names["name"]}" -n "{names["namespace"]}" (will retry after 5s): '
                    f"{error.text.partition(': ')[2]}\n"
                )
                await process.sleep(5)
    for pod in pods:
        path = kind.path(pod["metadata"]["namespace"], pod["metadata"]["name"])
        await until_gone(process, client, path, end, late)
        await process.write(f"pod/{pod['metadata']['name']} evicted\n")


async def taint(process: Process, client: Client, opts: Flags) -> int:
    """Add taints to nodes, or with a minus at their end take them away."""
    needs(opts, 1, "one or more resources must be specified as <resource> <name> or <resource>/<name>")
    words = opts.args[1:] if opts.args[0] in ("node", "nodes", "no") else opts.args
    specs = [word for word in words if "=" in word or ":" in word or word.endswith("-")]
    names = [word for word in words if word not in specs]
    if not specs:
        raise KubectlError("error: at least one taint update is required")
    kind, nodes = await _nodes(client, Flags("taint", opts.given, names))
    for node in nodes:
        await _taint(process, client, opts, kind, node, [_spec(text) for text in specs])
    return 0


def _spec(text: str) -> tuple[str, str, str, bool]:
    """Return a taint's key, value and effect, and whether it goes."""
    removed = text.endswith("-")
    head, _, effect = text.removesuffix("-").partition(":")
    key, _, value = head.partition("=")
    if effect and effect not in EFFECTS:
        raise KubectlError(f"error: invalid taint effect: {effect}, unsupported taint effect\n{TAINT}")
    if not key or (not effect and not removed):
        raise KubectlError(f"error: invalid taint spec: {text}")
    return key, value, effect, removed


async def _taint(
    process: Process, client: Client, opts: Flags, kind: Resource, node: Obj, specs: list[tuple[str, str, str, bool]]
) -> None:
    taints: list[Obj] = list(node.get("spec", {}).get("taints") or [])
    added = replaced = False
    for key, value, effect, removed in specs:
        same = [each for each in taints if each["key"] == key and effect in ("", each["effect"])]
        replaced = replaced or bool(same and not removed)
        if removed and not same:
            raise KubectlError(f'error: taint "{key}{":" + effect if effect else ""}" not found')
        if not removed and same and not opts.on("overwrite"):
            raise KubectlError(
                f"error: node {node['metadata']['name']} already has {key} taint(s) with same effect(s) and "
                "--overwrite is false"
            )
        taints = [each for each in taints if each not in same]
        if not removed:
            added = True
            taints.append({"key": key, **({"value": value} if value else {}), "effect": effect})
    done = "tainted" if added else "untainted"
    done = "modified" if added and (replaced or any(removed for *_, removed in specs)) else done
    await change(process, client, opts, kind, node, {"spec": {"taints": taints or None}}, done)
