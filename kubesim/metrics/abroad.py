"""What the kubelets of other processes tell of their nodes: /stats/summary, as a metrics-server of old read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import orjson
from aiohttp import ClientError

from kubesim.errors import ApiError, Obj
from kubesim.outside import Call, DialError, Outside, kubelet_of, whole

KUBELET_SECONDS = 10.0
LONGEST_SUMMARY = 16 * 1024 * 1024
Usage = tuple[float, float]
"""Cores and bytes."""


async def summaries(outside: Outside, nodes: Sequence[Obj]) -> dict[str, Obj]:
    """Return the summaries of those nodes whose kubelets answer, by name."""
    if not outside.there:
        return {}
    told = await asyncio.gather(*(_summary(outside, node) for node in nodes))
    return {node["metadata"]["name"]: found for node, found in zip(nodes, told, strict=True) if found}


async def _summary(outside: Outside, node: Obj) -> Obj:
    """Return what a kubelet tells; nothing where there is none."""
    try:
        async with (
            asyncio.timeout(KUBELET_SECONDS),
            outside.asked(kubelet_of(node), Call("GET", "/stats/summary")) as answer,
        ):
            body = await whole(answer, LONGEST_SUMMARY) if answer.status == 200 else b""
        found = orjson.loads(body)
    except (ApiError, ClientError, DialError, TimeoutError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def used(stats: object) -> Usage | None:
    """Return what a part of a summary says of use; None where it says nothing."""
    cpu, memory = _figure(stats, "cpu", "usageNanoCores"), _figure(stats, "memory", "workingSetBytes")
    return (cpu / 1e9, memory) if cpu is not None and memory is not None else None


def pods(summary: Obj) -> Iterator[tuple[str, str, list[tuple[str, Usage]]]]:
    """Yield namespace and name of every pod of a summary, with what its containers use."""
    for found in _entries(summary, "pods"):
        told = [(str(entry.get("name")), used(entry)) for entry in _entries(found, "containers")]
        reference = found.get("podRef")
        if isinstance(reference, dict):
            known = [(name, usage) for name, usage in told if usage is not None]
            yield str(reference.get("namespace")), str(reference.get("name")), known


def _entries(found: Obj, name: str) -> list[Obj]:
    listed = found.get(name)
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _figure(stats: object, part: str, name: str) -> float | None:
    found = stats.get(part) if isinstance(stats, dict) else None
    value = found.get(name) if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) else None
