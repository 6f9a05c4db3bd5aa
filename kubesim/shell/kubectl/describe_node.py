"""What describe says of a node."""

from __future__ import annotations

from fractions import Fraction

from kubesim.api import quantity
from kubesim.api.durations import since
from kubesim.shell.kubectl import describe_parts as parts
from kubesim.shell.kubectl.client import Client, KubectlError, Obj

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


async def beside(client: Client, obj: Obj) -> Obj:
    """Return what is asked of a node beside its object: its lease and its pods, or why they are not known."""
    name, found = obj["metadata"]["name"], Obj()
    ended = "%2Cstatus.phase%21%3DFailed%2Cstatus.phase%21%3DSucceeded"
    for key, path in (
        ("lease", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"),
        ("pods", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{name}{ended}"),
    ):
        try:
            found[key] = await client.request("GET", path)
        except KubectlError as error:
            found[key] = error
    return found


def _lease(title: str, found: Obj | KubectlError, obj: Obj) -> str:
    if isinstance(found, KubectlError):
        return f"{title}:\tFailed to get lease: {found.text.partition(': ')[2]}\n"
    return f"{title}:\n" + parts.page(title, found.get("spec") or {}, "  ")


def _taints(title: str, found: list[Obj] | None, obj: Obj) -> str:
    listed = sorted(found or [], key=lambda each: f"{each['effect']},{each['key']}")
    lines = [f"{each['key']}{'=' + each['value'] if each.get('value') else ''}:{each['effect']}" for each in listed]
    return f"{title}:\t" + "\n\t".join(lines or ["<none>"]) + "\n"


def _amounts(title: str, found: Obj | None, obj: Obj) -> str:
    lines = "".join(f"  {name}:\t{size}\n" for name, size in sorted((found or {}).items()))
    return f"{title}:\n{lines}" if found else ""


def _node_pods(title: str, found: Obj | KubectlError, obj: Obj) -> str:
    if isinstance(found, KubectlError):
        return "Pods:\tnot authorized\n"
    pods, state = found.get("items") or [], obj.get("status") or {}
    whole: Obj = state.get("allocatable") or state.get("capacity") or {}
    out = f"{title}:\t({len(pods)} in total)\n"
    out += "  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge\n"
    out += "  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---\n"
    for pod in pods:
        metadata = pod["metadata"]
        cells = []
        for name in ("cpu", "memory"):
            for kind in ("requests", "limits"):
                value, like = _wanted(pod, kind, name)
                cells.append(f"{_shown(value, like)} ({_part(value, whole.get(name, '0'))}%)")
        age = since(metadata.get("creationTimestamp"), obj["now"])
        out += f"  {metadata['namespace']}\t{metadata['name']}\t\t{chr(9).join(cells)}\t{age}\n"
    return out + _allocated(pods, whole)


def _allocated(pods: list[Obj], whole: Obj) -> str:
    out = "Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)\n"
    out += "  Resource\tRequests\tLimits\n  --------\t--------\t------\n"
    huge = sorted(name for name in whole if name.startswith("hugepages-"))
    more = sorted(name for name in whole if name not in (*STANDARD, *huge, "pods"))
    for name in (*STANDARD, *huge, *more):
        cells = []
        for kind in ("requests", "limits"):
            asked = [_wanted(pod, kind, name) for pod in pods]
            total = sum((value for value, _ in asked), Fraction(0))
            share = "" if name in more else f" ({_part(total, whole.get(name, '0'))}%)"
            cells.append(_shown(total, [text for _, texts in asked for text in texts]) + share)
        out += f"  {name}\t{cells[0]}\t{cells[1]}\n"
    return out


BLOCKS: dict[str, parts.Block] = {"lease": _lease, "taints": _taints, "amounts": _amounts, "node_pods": _node_pods}
