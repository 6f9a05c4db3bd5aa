"""What describe says of a node."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction

from kubesim.api import quantity
from kubesim.api.durations import since
from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, KubectlError, Obj

ROLE = "node-role.kubernetes.io/"
INFO = (
    ("Machine ID", "machineID"),
    ("System UUID", "systemUUID"),
    ("Boot ID", "bootID"),
    ("Kernel Version", "kernelVersion"),
    ("OS Image", "osImage"),
    ("Operating System", "operatingSystem"),
    ("Architecture", "architecture"),
    ("Container Runtime Version", "containerRuntimeVersion"),
    ("Kubelet Version", "kubeletVersion"),
    ("Kube-Proxy Version", "kubeProxyVersion"),
)
STANDARD = ("cpu", "memory", "ephemeral-storage")


def _shown(value: Fraction, like: list[str]) -> str:
    """Return a sum in the form of its parts: thousandths, or the largest power of two that divides it."""
    return quantity.write(value, "binary" if any(text.endswith("i") for text in like) else "decimal")


def _wanted(pod: Obj, kind: str, name: str) -> tuple[Fraction, list[str]]:
    """Return what a pod asks for: its containers together, or one that starts before them and needs more."""
    spec = pod["spec"]

    def of(container: Obj) -> str:
        return str(((container.get("resources") or {}).get(kind) or {}).get(name, "0"))

    begun = spec.get("initContainers") or []
    lasting = [of(each) for each in begun if each.get("restartPolicy") == "Always"]
    texts = [of(each) for each in spec.get("containers") or []] + lasting
    total = sum((quantity.parse(text) for text in texts), Fraction(0))
    first = [of(each) for each in begun if each.get("restartPolicy") != "Always"]
    most = max([quantity.parse(text) for text in first], default=Fraction(0))
    total = max(total, most)
    extra = str((spec.get("overhead") or {}).get(name, "0"))
    if kind == "requests" or total:
        total += quantity.parse(extra)
    return total, [*texts, *first, extra]


def _part(value: Fraction, whole: str) -> int:
    size = quantity.parse(whole)
    return int(value / size * 100) if size else 0


async def node(client: Client, obj: Obj, now: datetime) -> str:
    """Describe a node."""
    metadata, spec, state = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = metadata.get("labels") or {}
    roles = sorted({key.removeprefix(ROLE) for key in labels if key.startswith(ROLE)})
    out = f"Name:\t{metadata['name']}\nRoles:\t{','.join(roles) or '<none>'}\n"
    out += parts.labels("Labels", labels) + parts.notes("Annotations", metadata.get("annotations"))
    out += f"CreationTimestamp:\t{parts.moment(metadata['creationTimestamp'])}\n"
    taints = sorted(spec.get("taints") or [], key=lambda each: f"{each['effect']},{each['key']}")
    lines = [f"{each['key']}{'=' + each['value'] if each.get('value') else ''}:{each['effect']}" for each in taints]
    out += "Taints:\t" + "\n\t".join(lines or ["<none>"]) + "\n"
    out += f"Unschedulable:\t{parts.flat(bool(spec.get('unschedulable')))}\n"
    out += await _lease(client, metadata["name"])
    out += _state(state)
    out += f"PodCIDR:\t{spec['podCIDR']}\n" if spec.get("podCIDR") else ""
    out += f"PodCIDRs:\t{','.join(spec['podCIDRs'])}\n" if spec.get("podCIDRs") else ""
    out += f"ProviderID:\t{spec['providerID']}\n" if spec.get("providerID") else ""
    try:
        ended = "%2Cstatus.phase%21%3DFailed%2Cstatus.phase%21%3DSucceeded"
        query = f"fieldSelector=spec.nodeName%3D{metadata['name']}{ended}"
        pods = (await client.request("GET", f"/api/v1/pods?{query}")).get("items", [])
    except KubectlError:
        return out + "Pods:\tnot authorized\n"
    return out + _pods(pods, state.get("allocatable") or state.get("capacity") or {}, now)


async def _lease(client: Client, name: str) -> str:
    try:
        found = await client.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}")
    except KubectlError as error:
        return f"Lease:\tFailed to get lease: {error.text.partition(': ')[2]}\n"
    spec = found.get("spec") or {}
    out = f"Lease:\n  HolderIdentity:\t{spec.get('holderIdentity', '<unset>')}\n"
    for title, key in (("AcquireTime", "acquireTime"), ("RenewTime", "renewTime")):
        out += f"  {title}:\t{parts.moment(spec[key]) if spec.get(key) else '<unset>'}\n"
    return out


def _state(state: Obj) -> str:
    out = ""
    if state.get("conditions"):
        out += "Conditions:\n  Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage\n"
        out += "  ----\t------\t-----------------\t------------------\t------\t-------\n"
        for each in state["conditions"]:
            beat, changed = (parts.moment(each.get(key)) for key in ("lastHeartbeatTime", "lastTransitionTime"))
            words = f"{each.get('reason', '')} \t{each.get('message', '')}"
            out += f"  {each['type']} \t{each['status']} \t{beat} \t{changed} \t{words}\n"
    out += "Addresses:\n" + "".join(
        f"  {each['type']}:\t{each['address']}\n" for each in state.get("addresses") or []
    )
    for key in ("capacity", "allocatable"):
        if state.get(key):
            out += f"{key.title()}:\n" + "".join(f"  {name}:\t{size}\n" for name, size in sorted(state[key].items()))
    info = state.get("nodeInfo") or {}
    return out + "System Info:\n" + "".join(f"  {title}:\t{info.get(key, '')}\n" for title, key in INFO)


def _pods(pods: list[Obj], whole: Obj, now: datetime) -> str:
    out = f"Non-terminated Pods:\t({len(pods)} in total)\n"
    out += "  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge\n"
    out += "  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---\n"
    for pod in pods:
        metadata = pod["metadata"]
        cells = []
        for name in ("cpu", "memory"):
            for kind in ("requests", "limits"):
                value, like = _wanted(pod, kind, name)
                cells.append(f"{_shown(value, like)} ({_part(value, whole.get(name, '0'))}%)")
        age = since(metadata.get("creationTimestamp"), now)
        out += f"  {metadata['namespace']}\t{metadata['name']}\t\t{chr(9).join(cells)}\t{age}\n"
    out += "Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)\n"
    out += "  Resource\tRequests\tLimits\n  --------\t--------\t------\n"
    huge = sorted(name for name in whole if name.startswith("hugepages-"))
    more = sorted(name for name in whole if name not in (*STANDARD, *huge, "pods"))
    for name in (*STANDARD, *huge, *more):
        cells = []
        for kind in ("requests", "limits"):
            found = [_wanted(pod, kind, name) for pod in pods]
            total = sum((value for value, _ in found), Fraction(0))
            share = "" if name in more else f" ({_part(total, whole.get(name, '0'))}%)"
            cells.append(_shown(total, [text for _, texts in found for text in texts]) + share)
        out += f"  {name}\t{cells[0]}\t{cells[1]}\n"
    return out
