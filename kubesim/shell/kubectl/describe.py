"""kubectl describe."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from kubesim.api.durations import since
from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, Resource
from kubesim.shell.kubectl.describe_node import node
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.tabs import aligned
from kubesim.shell.kubectl.targets import chosen
from kubesim.shell.machine import Process

Describer = Callable[[Client, Obj, datetime], Awaitable[str]]
CONDITIONS = "Conditions:\n  Type\tStatus\tReason\n  ----\t------\t------\n"
TOKEN = "kubernetes.io/service-account-token"  # noqa: S105


def _head(obj: Obj) -> str:
    return f"Name:\t{obj['metadata']['name']}\nNamespace:\t{obj['metadata'].get('namespace', '')}\n"


def _conditions(obj: Obj) -> str:
    found = obj.get("status", {}).get("conditions") or []
    lines = "".join(f"  {each['type']} \t{each['status']}\t{each.get('reason', '')}\n" for each in found)
    return CONDITIONS + lines if found else ""


async def pod(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a pod."""
    spec, state, metadata = obj["spec"], obj.get("status") or {}, obj["metadata"]
    out = _head(obj)
    out += f"Priority:\t{spec['priority']}\n" if "priority" in spec else ""
    for title, key in (
        ("Priority Class Name", "priorityClassName"),
        ("Runtime Class Name", "runtimeClassName"),
        ("Service Account", "serviceAccountName"),
    ):
        out += f"{title}:\t{spec[key]}\n" if spec.get(key) else ""
    out += f"Node:\t{spec['nodeName']}/{state.get('hostIP', '')}\n" if spec.get("nodeName") else "Node:\t<none>\n"
    out += f"Start Time:\t{parts.moment(state['startTime'])}\n" if state.get("startTime") else ""
    out += parts.marks(obj["metadata"])
    if metadata.get("deletionTimestamp") and state.get("phase") not in ("Failed", "Succeeded"):
        out += f"Status:\tTerminating (lasts {since(metadata['deletionTimestamp'], now)})\n"
        out += f"Termination Grace Period:\t{metadata.get('deletionGracePeriodSeconds', 0)}s\n"
    else:
        out += f"Status:\t{state.get('phase', '')}\n"
    out += "".join(f"{key.title()}:\t{state[key]}\n" for key in ("reason", "message") if state.get(key))
    profile = (spec.get("securityContext") or {}).get("seccompProfile")
    out += f"SeccompProfile:\t{profile['type']}\n" if profile else ""
    out += f"IP:\t{state.get('podIP', '')}\nIPs:{'' if state.get('podIPs') else chr(9) + '<none>'}\n"
    out += "".join(f"  IP:\t{each['ip']}\n" for each in state.get("podIPs") or [])
    out += parts.controller(metadata)
    out += f"NominatedNodeName:\t{state['nominatedNodeName']}\n" if state.get("nominatedNodeName") else ""
    return out + _pod_rest(obj, spec, state)


def _pod_rest(obj: Obj, spec: Obj, state: Obj) -> str:
    out = "Resources:\n" + parts.resources(spec["resources"], 1) if spec.get("resources") else ""
    for title, key, states in (
        ("Init Containers", "initContainers", "initContainerStatuses"),
        ("Containers", "containers", "containerStatuses"),
        ("Ephemeral Containers", "ephemeralContainers", "ephemeralContainerStatuses"),
    ):
        if spec.get(key) or key == "containers":
            out += parts.containers(title, spec.get(key) or [], state.get(states), "", obj)
    known = {each["type"]: each["status"] for each in state.get("conditions") or []}
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or []]
    if gates:
        out += "Readiness Gates:\n  Type\tStatus\n"
        out += "".join(f"  {name} \t{known.get(name, '<none>')} \n" for name in gates)
    if known:
        out += "Conditions:\n  Type\tStatus\n" + "".join(f"  {key} \t{value} \n" for key, value in known.items())
    out += parts.volumes(spec.get("volumes"), "") + f"QoS Class:\t{state.get('qosClass', '')}\n"
    return (
        out
        + parts.labels("Node-Selectors", spec.get("nodeSelector"))
        + parts.tolerations("Tolerations", spec.get("tolerations"))
    )


async def _owned(client: Client, obj: Obj, plural: str) -> list[Obj]:
    """Return the objects of a kind that an object controls."""
    labels = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    text = urlencode({"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())})
    path = (await client.resource(plural)).path(obj["metadata"]["namespace"])
    found = (await client.request("GET", f"{path}?{text}")).get("items", [])
    uid = obj["metadata"]["uid"]
    return [
        item
        for item in found
        if any(
            each["uid"] == uid and each.get("controller") for each in item["metadata"].get("ownerReferences") or []
        )
    ]


async def deployment(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a deployment."""
    spec, state = obj["spec"], obj.get("status") or {}
    updated, total, available, missing = (
        state.get(key, 0) for key in ("updatedReplicas", "replicas", "availableReplicas", "unavailableReplicas")
    )
    out = (
        _head(obj)
        + f"CreationTimestamp:\t{parts.moment(obj['metadata']['creationTimestamp'])}\n"
        + parts.marks(obj["metadata"])
    )
    out += f"Selector:\t{parts.selector(spec.get('selector'))}\n"
    out += (
        f"Replicas:\t{spec.get('replicas', 1)} desired | {updated} updated | {total} total | {available} available | "
        f"{missing} unavailable\n"
    )
    strategy = spec.get("strategy") or {}
    out += f"StrategyType:\t{strategy.get('type', '')}\nMinReadySeconds:\t{spec.get('minReadySeconds', 0)}\n"
    rolling = strategy.get("rollingUpdate")
    if rolling:
        out += (
            f"RollingUpdateStrategy:\t{rolling.get('maxUnavailable')} max unavailable, {rolling.get('maxSurge')} "
            "max surge\n"
        )
    out += parts.template(spec["template"]) + _conditions(obj)
    return out + _sets(await _owned(client, obj, "replicasets"), spec["template"])


def _sets(found: list[Obj], wanted: Obj) -> str:
    new = [each for each in found if _plain(each["spec"]["template"]) == _plain(wanted)][:1]
    old = [each for each in found if each not in new]
    if not found:
        return ""
    return f"OldReplicaSets:\t{_counts(old)}\nNewReplicaSet:\t{_counts(new)}\n"


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


async def job(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a job."""
    spec, state = obj["spec"], obj.get("status") or {}
    out = _head(obj) + f"Selector:\t{parts.selector(spec.get('selector'))}\n" + parts.marks(obj["metadata"])
    out += parts.controller(obj["metadata"])
    lines: list[tuple[str, Any]] = [
        ("Parallelism", spec.get("parallelism")),
        ("Completions", spec.get("completions", "<unset>")),
        ("Completion Mode", spec.get("completionMode")),
        ("Suspend", spec.get("suspend")),
        ("Backoff Limit", spec.get("backoffLimit")),
        ("TTL Seconds After Finished", spec.get("ttlSecondsAfterFinished")),
    ]
    begun, ended = state.get("startTime"), state.get("completionTime")
    lines += [(name, parts.moment(at)) for name, at in (("Start Time", begun), ("Completed At", ended)) if at]
    if begun and ended:
        lines.append(("Duration", since(begun, datetime.fromisoformat(ended))))
    if "activeDeadlineSeconds" in spec:
        lines.append(("Active Deadline Seconds", f"{spec['activeDeadlineSeconds']}s"))
    ready = f" ({state['ready']} Ready)" if "ready" in state else ""
    active, good, bad = (state.get(key, 0) for key in ("active", "succeeded", "failed"))
    lines.append(("Pods Statuses", f"{active} Active{ready} / {good} Succeeded / {bad} Failed"))
    if spec.get("completionMode") == "Indexed":
        lines.append(("Completed Indexes", state.get("completedIndexes") or "<none>"))
    out += "".join(f"{name}:\t{parts.flat(value)}\n" for name, value in lines if value is not None)
    return out + parts.template(spec["template"])


async def service(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a service."""
    spec, ports = obj["spec"], obj["spec"].get("ports") or []
    path = (await client.resource("endpointslices")).path(obj["metadata"]["namespace"])
    text = urlencode({"labelSelector": f"kubernetes.io/service-name={obj['metadata']['name']}"})
    slices = (await client.request("GET", f"{path}?{text}")).get("items", [])
    chosen_by = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    out = (
        _head(obj)
        + parts.marks(obj["metadata"])
        + f"Selector:\t{chosen_by or '<none>'}\nType:\t{spec.get('type', '')}\n"
    )
    out += f"IP Family Policy:\t{spec['ipFamilyPolicy']}\n" if spec.get("ipFamilyPolicy") else ""
    out += f"IP Families:\t{','.join(spec.get('ipFamilies') or []) or '<none>'}\nIP:\t{spec.get('clusterIP', '')}\n"
    out += f"IPs:\t{','.join(spec.get('clusterIPs') or []) or '<none>'}\n"
    for title, key in (("External IPs", "externalIPs"), ("Desired LoadBalancer IP", "loadBalancerIP")):
        value = spec.get(key)
        out += f"{title}:\t{','.join(value) if isinstance(value, list) else value}\n" if value else ""
    out += f"External Name:\t{spec['externalName']}\n" if spec.get("externalName") else ""
    ingress = (obj.get("status", {}).get("loadBalancer") or {}).get("ingress") or []
    shown = [
        f"{each.get('ip') or each.get('hostname')}" + (f" ({each['ipMode']})" if each.get("ipMode") else "")
        for each in ingress
    ]
    out += f"LoadBalancer Ingress:\t{', '.join(shown)}\n" if ingress else ""
    for port in ports:
        out += _port(port, slices)
    out += f"Session Affinity:\t{spec.get('sessionAffinity', '')}\n"
    for title, key in (
        ("External Traffic Policy", "externalTrafficPolicy"),
        ("Internal Traffic Policy", "internalTrafficPolicy"),
        ("HealthCheck NodePort", "healthCheckNodePort"),
        ("Traffic Distribution", "trafficDistribution"),
    ):
        out += f"{title}:\t{spec[key]}\n" if spec.get(key) else ""
    return out


def _port(port: Obj, slices: list[Obj]) -> str:
    name, kind = port.get("name") or "<unset>", port.get("protocol", "TCP")
    out = f"Port:\t{name}\t{port['port']}/{kind}\nTargetPort:\t{port.get('targetPort')}/{kind}\n"
    out += f"NodePort:\t{name}\t{port['nodePort']}/{kind}\n" if port.get("nodePort") else ""
    return out + f"Endpoints:\t{parts.endpoints(slices, port.get('name', ''))}\n"


async def secret(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a secret: what it has, not what that is."""
    out = _head(obj) + parts.marks(obj["metadata"]) + f"\nType:\t{obj.get('type', '')}\n\nData\n====\n"
    for key, text in sorted((obj.get("data") or {}).items()):
        data = base64.b64decode(text)
        told = obj.get("type") == TOKEN and key == "token"
        out += f"{key}:\t{data.decode('utf-8', 'replace') if told else f'{len(data)} bytes'}\n"
    return out


async def config_map(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a config map."""
    out = _head(obj) + parts.marks(obj["metadata"]) + "\nData\n====\n"
    for key, text in sorted((obj.get("data") or {}).items()):
        out += f"{key}:\n----\n{text}\n\n"
    out += "\nBinaryData\n====\n"
    for key, text in sorted((obj.get("binaryData") or {}).items()):
        out += f"{key}: {len(base64.b64decode(text))} bytes\n"
    return out + "\n"


def generic(obj: Obj) -> str:
    """Describe what has no description of its own, field by field."""
    metadata = obj["metadata"]
    hidden = {"managedFields", "name", "namespace", "labels", "annotations"}
    kept = {key: value for key, value in metadata.items() if key not in hidden}
    whole = {**{key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}, "metadata": kept}
    out = _head(obj) + parts.marks(obj["metadata"]) + f"API Version:\t{obj['apiVersion']}\nKind:\t{obj['kind']}\n"
    return out + parts.content(whole, 0)


DESCRIBERS: dict[tuple[str, str], Describer] = {
    ("", "Pod"): pod,
    ("", "Node"): node,
    ("", "Service"): service,
    ("apps", "Deployment"): deployment,
    ("batch", "Job"): job,
    ("", "Secret"): secret,
    ("", "ConfigMap"): config_map,
}


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
    describer = DESCRIBERS.get((kind.group, kind.kind))
    text = await describer(client, obj, now) if describer else generic(obj)
    if not opts.on("show-events", True) or describer is secret:
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
