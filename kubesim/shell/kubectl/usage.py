"""kubectl top: what nodes and pods use."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from kubesim.api.quantity import parse
from kubesim.shell.kubectl.client import Client, KubectlError, Obj
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.tabs import table
from kubesim.shell.kubectl.targets import query
from kubesim.shell.machine import Process


async def top(process: Process, client: Client, opts: Flags) -> int:
    """Show what nodes or pods use."""
    served = {kind.plural for kind in await client.resources() if kind.group == "metrics.k8s.io"}
    plural = "nodes" if opts.command == "top node" else "pods"
    if plural not in served:
        raise KubectlError("error: Metrics API not available")
    space = "" if opts.on("all-namespaces") or plural == "nodes" else f"/namespaces/{client.namespace}"
    name = f"/{opts.args[0]}" if opts.args else ""
    found = await client.request("GET", f"/apis/metrics.k8s.io/v1beta1{space}/{plural}{name}{query(opts)}")
    items = found.get("items", [found])
    if not items:
        await process.error(f"No resources found{' in ' + client.namespace + ' namespace.' if space else ''}\n")
        return 0
    if plural == "nodes":
        return await _top_nodes(process, client, opts, items)
    head = ["NAMESPACE"] * (not space) + ["POD"] * opts.on("containers") + ["NAME", "CPU(cores)", "MEMORY(bytes)"]
    lines = [] if opts.on("no-headers") else [head]
    items.sort(key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"]))
    for item in _by_use(items, opts):
        where = [item["metadata"]["namespace"]] * (not space)
        rows = [[each] for each in item["containers"]] if opts.on("containers") else [item["containers"]]
        for row in rows:
            names = [item["metadata"]["name"], *([row[0]["name"]] if opts.on("containers") else [])]
            lines.append([*where, *names, *_used([each["usage"] for each in row])])
    if opts.on("sum"):
        cells = _used([each["usage"] for item in items for each in item["containers"]])
        blank = [""] * (len(head) - 3)
        lines += [[*blank, "", "________", "________"], [*blank, "", *cells]]
    await process.write(table([[*line, ""] for line in lines]))
    return 0


def _by_use(items: list[Obj], opts: Flags) -> list[Obj]:
    """Return pods or nodes in the order asked for: those that use most first."""
    by = opts.get("sort-by")

    def use(item: Obj) -> Fraction:
        usages = [each["usage"] for each in item.get("containers") or [item]]
        return sum((parse(usage.get(by, "0")) for usage in usages), Fraction(0))

    return sorted(items, key=use, reverse=True) if by else items


def _used(usages: list[Obj]) -> list[str]:
    cpu = sum(parse(each.get("cpu", "0")) for each in usages)
    memory = sum(parse(each.get("memory", "0")) for each in usages)
    return [f"{ceil(cpu * 1000)}m", f"{int(memory / (1 << 20))}Mi"]


async def _top_nodes(process: Process, client: Client, opts: Flags, items: list[Obj]) -> int:
    known = (await client.request("GET", "/api/v1/nodes")).get("items", [])
    nodes = {each["metadata"]["name"]: each for each in known}
    lines = [] if opts.on("no-headers") else [["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]]
    items.sort(key=lambda each: str(each["metadata"]["name"]))
    of = "capacity" if opts.on("show-capacity") else "allocatable"
    for item in _by_use(items, opts):
        name = item["metadata"]["name"]
        whole = nodes.get(name, {}).get("status", {}).get(of, {})
        cpu, memory = _used([item["usage"]])
        parts = [int(parse(item["usage"][key]) * 100 / parse(whole.get(key, "1"))) for key in ("cpu", "memory")]
        lines.append([name, cpu, f"{parts[0]}%", memory, f"{parts[1]}%"])
    await process.write(table([[*line, ""] for line in lines]))
    return 0
