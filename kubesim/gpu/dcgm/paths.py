"""``dcgmi topo`` and ``dcgmi nvlink``: how devices are connected."""

from __future__ import annotations

from kubesim.gpu.dcgm.boxes import Node, wrapped
from kubesim.gpu.dcgm.call import HINT, Call, Refused, devices, group_of, shown
from kubesim.gpu.dcgm.engine import Engine
from kubesim.gpu.smi import topology
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View


def topo(call: Call, view: View, engine: Engine) -> str:
    """Tell how a device, or the devices of a group, are connected."""
    one = call.value("-i", "--gpuid")
    seen = view.present()
    if one:
        item = devices(view, one)[0]
        rest = [other for other in seen if other.number != item.number]
        nodes = [Node("CPU Core Affinity", _cores(item))]
        nodes += [_path(item, other) for other in rest]
        return shown(call, ["Topology Information", f"GPU ID: {item.number}"], nodes, 20, 80)
    known = group_of(call, engine)[1]
    mine = [item for item in seen if known.gpus is None or item.number in known.gpus]
    same = len({item.device.numa for item in mine}) < 2
    pairs = [(a, b) for a in mine for b in mine if a.number < b.number]
    ranked = sorted((_RANK.get(topology.connection(a.device, b.device), 0), a.number, b.number) for a, b in pairs)
    worst_path = (
        _bus(*next((a, b) for a, b in pairs if (a.number, b.number) == ranked[-1][1:])) if pairs else "Unknown"
    )
    cores = _cores(mine[0]) if mine and same else NOT_AVAILABLE
    nodes = [Node("CPU Core Affinity", cores), Node("NUMA Optimal", str(same)), Node("Worst Path", worst_path)]
    return shown(call, ["Topology Information", known.name], nodes, 20, 80)


_RANK = {"PHB": 1, "NODE": 2, "SYS": 3}
_COUNTS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
           "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen")  # fmt: skip


def _cores(item: Seen) -> str:
    return ", ".join(span.replace("-", " - ") for span in item.device.product.numa[item.device.numa].split(","))


def _path(item: Seen, other: Seen) -> Node:
    node = Node(f"To GPU {other.number}", _bus(item, other))
    down = item.device.trouble.links_down | other.device.trouble.links_down
    up = [number for number in range(item.device.product.nvlinks) if number not in down]
    if up:
        links = ", ".join(map(str, up))
        plural = "s" * (len(up) > 1)
        text = f"Connected via {_COUNTS[len(up)]} NVLINK{plural} (Link{plural}: {links})"
        node.more = wrapped(text, 76)
    return node


def _bus(item: Seen, other: Seen) -> str:
    """Return how two devices are connected over PCIe."""
    if item.device.numa != other.device.numa:
        return "Connected via a CPU-level link"
    same = item.device.bus.split(":")[1] == other.device.bus.split(":")[1]
    return "Connected via a PCIe host bridge" if same else "Connected via a CPU-level link"


def nvlink(call: Call, view: View, engine: Engine) -> str:
    """Show which links are up, or with ``-e`` the errors of one device's."""
    if call.given("-e", "--errors"):
        item = devices(view, call.value("-g", "--gpuid", "-i", default="0"))[0]
        kinds = ("CRC FLIT Error", "CRC Data Error", "Replay Error", "Recovery Error")
        links = [
            Node(f"Link {number}", below=[Node(kind, "0") for kind in kinds])
            for number in range(item.device.product.nvlinks)
        ]
        return shown(call, ["NVLINK Error Counts", f"GPU {item.number}"], links, 30, 50)
    if not call.given("-s", "--link-status"):
        raise Refused(HINT, 1)
    lines = ["+----------------------+", "|  NvLink Link Status  |", "+----------------------+", "GPUs:"]
    for item in view.present():
        down, count = item.device.trouble.links_down, item.device.product.nvlinks
        states = ["X" if item.device.mig_mode else "D" if number in down else "U" for number in range(count)]
        lines += [f"    gpuId {item.number}:", f"        {' '.join(states or ['_'])}"]
    lines += ["NvSwitches:", "    No NvSwitches found.", "", "Key: Up=U, Down=D, Disabled=X, Not Supported=_"]
    return "\n".join(lines) + "\n"
