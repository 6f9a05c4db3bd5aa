"""``nvidia-smi topo -m`` and ``nvidia-smi nvlink -s``: how the devices of a node are connected."""

from __future__ import annotations

from kubesim.gpu.devices import NVLINK_GBPS, Device
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

_UNDERLINED, _PLAIN = "\x1b[4m", "\x1b[0m"
_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def matrix(view: View) -> str:
    """Return the matrix with the CPU and NUMA affinity of each device."""
    seen = view.present()
    heads = [f"{_UNDERLINED}GPU{item.number}" for item in seen]
    lines = ["\t" + "\t".join([*heads, "CPU Affinity", "NUMA Affinity", f"GPU NUMA ID{_PLAIN}"])]
    lines += [_row(item, seen) for item in seen]
    return "\n".join(lines) + "\n" + _LEGEND


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


def links(view: View) -> str:
    """Return the state of every NVLink of every device."""
    lines: list[str] = []
    for seen in view.present():
        lines.append(f"GPU {seen.number}: {seen.device.product.name} (UUID: {seen.device.uuid})")
        lines += [_link(seen.device, number) for number in range(seen.device.product.nvlinks)]
    return "\n".join(lines) + "\n"


def _row(item: Seen, seen: list[Seen]) -> str:
    product = item.device.product
    words = [connection(item.device, other.device) for other in seen]
    return "\t".join(
        [f"GPU{item.number}", *words, product.numa[item.device.numa], str(item.device.numa), f"\t{NOT_AVAILABLE}"]
    )


def _link(device: Device, number: int) -> str:
    if number in device.trouble.links_down:
        return f"\t Link {number}: <inactive>"
    return f"\t Link {number}: {NVLINK_GBPS[device.product.family]:g} GB/s"
