"""kubectl describe: objects as ``describe.yaml`` lays them out, others field by field, each with its events."""

from __future__ import annotations

import base64
from datetime import datetime
from itertools import compress
from typing import Any
from urllib.parse import urlencode

from kubesim.api.durations import since
from kubesim.shell.kubectl import describe_node
from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.tabs import aligned
from kubesim.shell.kubectl.targets import chosen
from kubesim.shell.machine import Process

TOKEN = "kubernetes.io/service-account-token"  # noqa: S105
KNOWN = frozenset(
    (("", "Pod"), ("", "Node"), ("", "Service"), ("apps", "Deployment"), ("batch", "Job"), ("", "Secret"),
     ("", "ConfigMap"))
)  # fmt: skip
"""The kinds, with their groups, that have a layout."""


async def _extra(client: Client, kind: Resource, obj: Obj) -> Obj:
    """Return what is said of an object and does not stand in it."""
    if kind.kind == "Node":
        return await describe_node.beside(client, obj)
    if kind.kind == "Deployment":
        return {"replicasets": await _owned(client, obj, "replicasets")}
    if kind.kind != "Service":
        return {}
    path = (await client.resource("endpointslices")).path(obj["metadata"]["namespace"])
    text = urlencode({"labelSelector": f"kubernetes.io/service-name={obj['metadata']['name']}"})
    return {"endpointslices": (await client.request("GET", f"{path}?{text}")).get("items", [])}


async def _owned(client: Client, obj: Obj, plural: str) -> list[Obj]:
    """Return the objects of a kind that an object controls."""
    labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    text = urlencode({"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())})
    path = (await client.resource(plural)).path(obj["metadata"]["namespace"])
    found = (await client.request("GET", f"{path}?{text}")).get("items", [])
    uid = obj["metadata"]["uid"]
    owners = [item["metadata"].get("ownerReferences") or [] for item in found]
    mine = [any(each["uid"] == uid and each.get("controller") for each in some) for some in owners]
    return [*compress(found, mine)]


def _pod_node(title: str, found: Obj, obj: Obj) -> str:
    name = parts.at(obj, "spec.nodeName")
    return f"{title}:\t{name}/{parts.at(obj, 'status.hostIP') or ''}\n" if name else f"{title}:\t<none>\n"


def _pod_status(title: str, found: Obj, obj: Obj) -> str:
    metadata, phase = obj["metadata"], parts.at(obj, "status.phase") or ""
    if not metadata.get("deletionTimestamp") or phase in ("Failed", "Succeeded"):
        return f"{title}:\t{phase}\n"
    text = f"{title}:\tTerminating (lasts {since(metadata['deletionTimestamp'], obj['now'])})\n"
    return text + f"Termination Grace Period:\t{metadata.get('deletionGracePeriodSeconds', 0)}s\n"


def _gates(title: str, found: list[Obj] | None, obj: Obj) -> str:
    known = {each["type"]: each["status"] for each in parts.at(obj, "status.conditions") or []}
    names = [gate["conditionType"] for gate in found or []]
    lines = "".join(f"  {name} \t{known.get(name, '<none>')} \n" for name in names)
    return f"{title}:\n  Type\tStatus\n{lines}" if names else ""


def _replicas(title: str, found: Obj, obj: Obj) -> str:
    names = ("updatedReplicas", "replicas", "availableReplicas", "unavailableReplicas")
    updated, total, available, missing = (parts.at(obj, f"status.{name}") or 0 for name in names)
    text = f"{obj['spec'].get('replicas', 1)} desired | {updated} updated | {total} total | {available} available"
    return f"{title}:\t{text} | {missing} unavailable\n"


def _sets(title: str, found: list[Obj] | None, obj: Obj) -> str:
    wanted = _plain(obj["spec"]["template"])
    new = [each for each in found or [] if _plain(each["spec"]["template"]) == wanted][:1]
    old = [each for each in found or [] if each not in new]
    return f"OldReplicaSets:\t{_counts(old)}\nNewReplicaSet:\t{_counts(new)}\n" if found else ""


def _plain(template: Obj) -> tuple[Any, Any]:
    labels = dict((template["metadata"].get("labels") or {}).items())
    labels.pop("pod-template-hash", None)
    return labels, (template["metadata"].get("annotations") or {}, template["spec"])


def _counts(found: list[Obj]) -> str:
    texts = [
        f"{each['metadata']['name']} ({each.get('status', {}).get('replicas', 0)}/{each['spec'].get('replicas', 0)} "
        "replicas created)"
        for each in found
    ]
    return ", ".join(texts) or "<none>"


def _rolling(found: Obj) -> str:
    return f"{found.get('maxUnavailable')} max unavailable, {found.get('maxSurge')} max surge"


def _duration(title: str, found: Obj, obj: Obj) -> str:
    begun, ended = parts.at(obj, "status.startTime"), parts.at(obj, "status.completionTime")
    return f"{title}:\t{since(begun, datetime.fromisoformat(ended))}\n" if begun and ended else ""


def _pod_counts(title: str, found: Obj, obj: Obj) -> str:
    state = obj.get("status") or {}
    ready = f" ({state['ready']} Ready)" if "ready" in state else ""
    active, good, bad = (state.get(key, 0) for key in ("active", "succeeded", "failed"))
    return f"{title}:\t{active} Active{ready} / {good} Succeeded / {bad} Failed\n"


def _indexes(title: str, found: Obj, obj: Obj) -> str:
    text = parts.at(obj, "status.completedIndexes") or "<none>"
    return f"{title}:\t{text}\n" if parts.at(obj, "spec.completionMode") == "Indexed" else ""


def _ingress(found: list[Obj]) -> str:
    modes = [f" ({each['ipMode']})" if each.get("ipMode") else "" for each in found]
    return ", ".join(
        f"{each.get('ip') or each.get('hostname')}{mode}" for each, mode in zip(found, modes, strict=True)
    )


def _ports(title: str, found: list[Obj] | None, obj: Obj) -> str:
    out = ""
    for port in found or []:
        name, kind = port.get("name") or "<unset>", port.get("protocol", "TCP")
        out += f"Port:\t{name}\t{port['port']}/{kind}\nTargetPort:\t{port.get('targetPort')}/{kind}\n"
        out += f"NodePort:\t{name}\t{port['nodePort']}/{kind}\n" if port.get("nodePort") else ""
        out += f"Endpoints:\t{_endpoints(obj['endpointslices'], port.get('name', ''))}\n"
    return out


def _sizes(title: str, found: Obj | None, obj: Obj) -> str:
    out = f"\n{title}\n====\n"
    for key, text in sorted((found or {}).items()):
        raw = base64.b64decode(text)
        told = obj.get("type") == TOKEN and key == "token"
        out += f"{key}:\t{raw.decode('utf-8', 'replace') if told else f'{len(raw)} bytes'}\n"
    return out


def _texts(title: str, found: Obj | None, obj: Obj) -> str:
    lines = "".join(f"{key}:\n----\n{text}\n\n" for key, text in sorted((found or {}).items()))
    return f"\n{title}\n====\n{lines}"


def _binaries(title: str, found: Obj | None, obj: Obj) -> str:
    lines = "".join(f"{key}: {len(base64.b64decode(text))} bytes\n" for key, text in sorted((found or {}).items()))
    return f"\n{title}\n====\n{lines}\n"


def _endpoints(slices: list[Obj], port: str) -> str:
    if not slices:
        return "<none>"
    found = [
        f"{endpoint['addresses'][0]}:{each['port']}"
        for piece in slices
        for each in piece.get("ports") or []
        if each.get("name", "") == port
        for endpoint in piece.get("endpoints") or []
        if (endpoint.get("conditions") or {}).get("ready", True)
    ]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")


parts.FORMS.update(rolling=_rolling, ingress=_ingress)
_BLOCKS = (
    *(_pod_node, _pod_status, _gates, _replicas, _sets, _duration, _pod_counts, _indexes),
    *(_ports, _sizes, _texts, _binaries),
)
parts.BLOCKS.update(describe_node.BLOCKS, **{block.__name__.removeprefix("_"): block for block in _BLOCKS})


def generic(obj: Obj) -> str:
    """Describe what has no description of its own, field by field."""
    metadata = obj["metadata"]
    hidden = {"managedFields", "name", "namespace", "labels", "annotations"}
    kept = {key: value for key, value in metadata.items() if key not in hidden}
    whole = {**{key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}, "metadata": kept}
    return parts.page("other", obj) + parts.content(whole, 0)


async def describe(process: Process, client: Client, opts: Flags) -> int:
    """Tell everything about objects."""
    found, near = await _chosen(process, client, opts)
    texts = [await _one(process, client, opts, kind, obj) for kind, obj in found]
    if near:
        await process.write("".join(text + "\n" for text in texts))
        return 0
    if not texts:
        place = "" if opts.on("all-namespaces") else f" in {client.namespace} namespace."
        await process.error(f"No resources found{place}\n")
    await process.write("\n\n".join(texts))
    return 0


async def _chosen(process: Process, client: Client, opts: Flags) -> tuple[list[tuple[Resource, Obj]], bool]:
    """Return what is to be described; where there is no such name, what begins with it, and true."""
    words = opts.args
    if opts.on("all-namespaces") and any("/" in word for word in words):
        raise KubectlError("error: a resource cannot be retrieved by name across all namespaces")
    try:
        return await chosen(process, client, opts, words), False
    except KubectlError as error:
        if error.reason != "NotFound" or len(words) != 2:
            raise
        listed = await chosen(process, client, opts, words[:1])
        near = [pair for pair in listed if pair[1]["metadata"]["name"].startswith(words[1])]
        if not near:
            raise
        return near, True


async def _one(process: Process, client: Client, opts: Flags, kind: Resource, obj: Obj) -> str:
    now = process.machine.clock.now()
    if (kind.group, kind.kind) in KNOWN:
        text = parts.page(kind.kind, {**obj, **await _extra(client, kind, obj), "now": now})
    else:
        text = generic(obj)
    if not opts.on("show-events", True) or kind.kind == "Secret" and not kind.group:
        return aligned(text)
    events = await _events(client, kind, obj)
    # A table of events is aligned for itself; the line that there are none belongs to the rest.
    shown = parts.events(events, now)
    return aligned(text) + aligned(shown) if events else aligned(text + shown)


async def _events(client: Client, kind: Resource, obj: Obj) -> list[Obj]:
    metadata = obj["metadata"]
    wanted = {"involvedObject.name": metadata["name"], "involvedObject.kind": kind.kind}
    if kind.namespaced:
        wanted["involvedObject.namespace"] = metadata["namespace"]
    if kind.kind != "Node":
        wanted["involvedObject.uid"] = metadata.get("uid", "")
    text = urlencode({"fieldSelector": ",".join(f"{key}={value}" for key, value in wanted.items())})
    where = f"/namespaces/{metadata['namespace']}" if kind.namespaced else ""
    try:
        found: list[Obj] = (await client.request("GET", f"/api/v1{where}/events?{text}")).get("items", [])
    except KubectlError:
        return []
    return found
