"""``nvidia-smi topo -m`` and ``nvidia-smi nvlink -s``: how the devices of a node are connected."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.gpu.devices import NVLINK_GBPS, Device
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View, chosen, texts

_UNDERLINED, _PLAIN = "\x1b[4m", "\x1b[0m"


def matrix(view: View) -> str:
    """Return the matrix with the CPU and NUMA affinity of each device."""
    seen = view.present()
    heads = [*(f"GPU{item.number}" for item in seen), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    lines = [f"\t{_UNDERLINED}" + "\t".join(heads) + _PLAIN]
    lines += [_row(item, seen) for item in seen]
    return "\n".join(lines) + "\n" + "\n" + texts()["paths"]


def connection(one: Device, other: Device) -> str:
    """Return the word for the best path between two devices of a node."""
    if one is other:
        return " X "
    links = one.product.nvlinks - len(one.trouble.links_down | other.trouble.links_down)
    if links > 0:
        return f"NV{links}"
    if one.numa != other.numa:
        return "SYS"
    return "PHB" if one.bus.split(":")[1] == other.bus.split(":")[1] else "NODE"


def links(view: View, only: Iterable[str] = (), ask: str = "-s") -> str:
    """Return what is asked of every NVLink: its state (-s) or errors (-e)."""
    lines: list[str] = []
    for seen in chosen(view, only):
        lines.append(f"GPU {seen.number}: {seen.device.product.name} (UUID: {seen.device.uuid})")
        for number in range(seen.device.product.nvlinks):
            lines += _ASKED[ask](seen.device, number)
    return "\n".join(lines) + "\n"


def _row(item: Seen, seen: list[Seen]) -> str:
    product = item.device.product
    words = [connection(item.device, other.device) for other in seen]
    return "\t".join(
        [f"GPU{item.number}", *words, product.numa[item.device.numa], str(item.device.numa), f"\t{NOT_AVAILABLE}"]
    )


def _state(device: Device, number: int) -> list[str]:
    if number in device.trouble.links_down:
        return [f"\t Link {number}: <inactive>"]
    return [f"\t Link {number}: {NVLINK_GBPS[device.product.family]:g} GB/s"]


def _errors(device: Device, number: int) -> list[str]:
    if number in device.trouble.links_down:
        return [f"\t Link {number}: <inactive>"]
    return [f"\t Link {number}: {kind} Errors: 0" for kind in ("Replay", "Recovery", "CRC")] + [""]


_ASKED = {"-s": _state, "-e": _errors}
