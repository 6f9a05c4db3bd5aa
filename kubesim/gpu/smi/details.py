"""``nvidia-smi -q``: everything about each device, whole or by section (``-d MEMORY,ECC``).

Labels, their order and their column are those of the driver's branch 580.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from datetime import timedelta

from kubesim.gpu.products import Product, driver
from kubesim.gpu.readings import Reading, read
from kubesim.gpu.smi.query import chosen
from kubesim.gpu.smi.sections import ALONE, SECTIONS, Tree, instances
from kubesim.gpu.smi.values import ECC_OBJECTS, MODULES, enabled, image, link, pending, recovery
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

COLUMN, PROCESS_COLUMN = 55, 42
INDENT = 4
STEPPINGS = {"hopper": "885", "blackwell": "886"}
DEPRECATED = "Requested functionality has been deprecated"
SAMPLES, SPAN_S = 60, 118.0


class UnknownSection(Exception):
    """``-d`` names something that nvidia-smi does not have; the message is its own."""


def page(view: View, sections: Iterable[str] = (), only: Iterable[str] = ()) -> str:
    """Return the report. Raises UnknownSection, query.NoDevices."""
    wanted = [name.strip().upper() for name in sections]
    if unknown := [name for name in wanted if name not in SECTIONS | ALONE]:
        raise UnknownSection(f"Display type is not recognized: {unknown[0]}\n")
    lines = ["", "==============NVSMI LOG==============", "", *_lines(head(view)[:3]), "", *_lines(head(view)[3:])]
    for seen in chosen(view, only):
        tree = report(view, seen) if not wanted else [row for name in wanted for row in _section(view, seen, name)]
        lines += [f"GPU {seen.device.pci_address}", *_lines(tree, INDENT), ""]
    return "\n".join(lines) + "\n"


def head(view: View) -> Tree:
    """Return what is said before the devices."""
    return [
        ("Timestamp", view.at.strftime("%a %b %e %H:%M:%S %Y")),
        ("Driver Version", driver().version),
        ("CUDA Version", driver().cuda),
        ("Attached GPUs", str(len(view.present()))),
    ]


def report(view: View, seen: Seen) -> Tree:
    """Return everything about a device."""
    tree = _identity(view, seen)
    for name, section in SECTIONS.items():
        if name == "ECC":
            tree.append(("DRAM Encryption Mode", [("Current", NOT_AVAILABLE), ("Pending", NOT_AVAILABLE)]))
        tree += section(view, seen)
    return [*tree, ("<accounted_processes>", []), ("Capabilities", [("EGM", "disabled")])]


def _section(view: View, seen: Seen, name: str) -> Tree:
    tree = (SECTIONS | ALONE)[name](view, seen)
    return [*tree, *(_samples(view, seen, *each) for each in _SAMPLED.get(name, ()))]


def _samples(
    view: View, seen: Seen, label: str, unit: str, get: Callable[[Reading], float] | None
) -> tuple[str, Tree]:
    """Return the statistics of the last two minutes; a driver of today keeps none of clocks."""
    if get is None or seen.device.mig_mode:
        nothing = "Not Found" if get is None else NOT_AVAILABLE
        return label, [(name, nothing) for name in ("Duration", "Number of Samples", "Max", "Min", "Avg")]
    steps = (view.at - timedelta(seconds=SPAN_S * step / (SAMPLES - 1)) for step in range(SAMPLES))
    found = [get(read(seen.device, at)) for at in steps]
    statistics = (("Max", max(found)), ("Min", min(found)), ("Avg", sum(found) / len(found)))
    form = "{:.2f} {}" if unit == "W" else "{:.0f} {}"
    rows: Tree = [(name, form.format(value, unit)) for name, value in statistics]
    return label, [("Duration", f"{SPAN_S:.2f} sec"), ("Number of Samples", str(SAMPLES)), *rows]


def _lines(tree: Tree, indent: int = 0, column: int = COLUMN) -> list[str]:
    lines: list[str] = []
    for label, value in tree:
        if label.startswith("<"):
            continue
        text = " " * indent + label.removesuffix(">")
        if isinstance(value, str):
            lines.append(f"{text:<{column}}: {value}")
        else:
            narrow = PROCESS_COLUMN if label == "Processes>" else column
            lines += [text, *_lines(value, indent + INDENT, narrow)]
    return lines


def _identity(view: View, seen: Seen) -> Tree:
    device, product = seen.device, seen.device.product
    domain, bus, number = device.bus.upper().split(":")
    stepping = STEPPINGS.get(product.family, "895")
    return [
        ("Product Name", product.name),
        ("Product Brand", "NVIDIA"),
        ("Product Architecture", product.architecture),
        ("Display Mode", DEPRECATED),
        ("Display Attached", "No"),
        ("Display Active", "Disabled"),
        ("Persistence Mode", enabled(device.settings.persistence)),
        ("Addressing Mode", "HMM"),
        ("MIG Mode", [("Current", seen.mig), ("Pending", pending(seen))]),
        *instances(view, seen),
        ("Accounting Mode", enabled(device.settings.accounting)),
        ("Accounting Mode Buffer Size", "4000"),
        ("Driver Model", [("Current", NOT_AVAILABLE), ("Pending", NOT_AVAILABLE)]),
        ("Serial Number", device.serial),
        ("GPU UUID", device.uuid),
        ("GPU PDI", f"0x{zlib.crc32(device.uuid.encode()):08x}{zlib.crc32(device.serial.encode()):08x}"),
        ("Minor Number", str(device.minor)),
        ("VBIOS Version", product.vbios),
        ("MultiGPU Board", "No"),
        ("Board ID", f"0x{int(bus, 16) << 8 | int(number, 16):x}"),
        ("Board Part Number", product.part),
        ("GPU Part Number", f"{product.pci['device'][:4]}-{stepping}-A1"),
        ("FRU Part Number", NOT_AVAILABLE),
        ("Platform Info", _platform(seen)),
        ("Inforom Version", _inforom(product)),
        ("Inforom BBX Object Flush", [("Latest Timestamp", NOT_AVAILABLE), ("Latest Duration", NOT_AVAILABLE)]),
        ("GPU Operation Mode", [("Current", NOT_AVAILABLE), ("Pending", NOT_AVAILABLE)]),
        ("GPU C2C Mode", "Disabled"),
        ("GPU Virtualization Mode", [
            ("Virtualization Mode", "Pass-Through"), ("Host VGPU Mode", NOT_AVAILABLE),
            ("vGPU Heterogeneous Mode", NOT_AVAILABLE),
        ]),
        ("GPU Recovery Action", recovery(seen)),
        ("GSP Firmware Version", driver().version),
        ("IBMNPU", [("Relaxed Ordering Mode", NOT_AVAILABLE)]),
        ("PCI", _pci(seen)),
        ("Fan Speed", NOT_AVAILABLE),
    ]  # fmt: skip


def _platform(seen: Seen) -> Tree:
    """A virtual machine knows the socket of a device and no more."""
    unknown = ("Chassis Serial Number", "Slot Number", "Tray Index", "Host ID", "Peer Type")
    module = MODULES[seen.device.index % len(MODULES)] if seen.device.product.nvlinks else 1
    return [
        *((label, NOT_AVAILABLE) for label in unknown), ("Module Id", str(module)), ("GPU Fabric GUID", NOT_AVAILABLE)
    ]  # fmt: skip


def _inforom(product: Product) -> Tree:
    return [
        ("Image Version", image(product)),
        ("OEM Object", "2.1"),
        ("ECC Object", ECC_OBJECTS.get(product.family, "6.16")),
        ("Power Management Object", NOT_AVAILABLE),
    ]


def _pci(seen: Seen) -> Tree:
    device, pci = seen.device, seen.device.product.pci
    domain, bus, number = device.bus.upper().split(":")
    generation, width = link(seen)
    best = str(pci["generation"])
    return [
        ("Bus", f"0x{bus}"),
        ("Device", f"0x{number}"),
        ("Domain", f"0x{domain}"),
        ("Base Classcode", "0x3"),
        ("Sub Classcode", "0x2"),
        ("Device Id", "0x" + pci["device"]),
        ("Bus Id", device.pci_address),
        ("Sub System Id", "0x" + pci["subsystem"]),
        ("GPU Link Info", [
            ("PCIe Generation", [
                ("Max", best), ("Current", str(generation)), ("Device Current", str(generation)),
                ("Device Max", best), ("Host Max", NOT_AVAILABLE),
            ]),
            ("Link Width", [("Max", f"{pci['width']}x"), ("Current", f"{width}x")]),
        ]),
        ("Bridge Chip", [("Type", NOT_AVAILABLE), ("Firmware", NOT_AVAILABLE)]),
        ("Replays Since Reset", str(device.state.replays)),
        ("Replay Number Rollovers", "0"),
        ("Tx Throughput", f"{seen.reading.pcie_tx / 1000:.0f} KB/s"),
        ("Rx Throughput", f"{seen.reading.pcie_rx / 1000:.0f} KB/s"),
        ("Atomic Caps Outbound", NOT_AVAILABLE),
        ("Atomic Caps Inbound", NOT_AVAILABLE),
    ]  # fmt: skip


_SAMPLED: dict[str, list[tuple[str, str, Callable[[Reading], float] | None]]] = {
    "POWER": [("Power Samples", "W", lambda reading: reading.power)],
    "UTILIZATION": [
        ("GPU Utilization Samples", "%", lambda reading: reading.util),
        ("Memory Utilization Samples", "%", lambda reading: reading.memory_util),
        ("ENC Utilization Samples", "%", lambda reading: 0),
        ("DEC Utilization Samples", "%", lambda reading: 0),
    ],
    "CLOCK": [("SM Clock Samples", "MHz", None), ("Memory Clock Samples", "MHz", None)],
}
"""What a section of its own tells of the last two minutes, too."""
