"""``nvidia-smi -q``: everything about each device, whole or by section (``-d MEMORY,ECC``).

Labels, their order and their column are those of the driver's branch 580.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from kubesim.gpu.products import Product, driver
from kubesim.gpu.smi.query import FIELDS, chosen, recovery
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

Tree = list[tuple[str, "str | Tree"]]
COLUMN, PROCESS_COLUMN = 55, 42
INDENT = 4
BAR1_MIB = {"turing": 256, "ada-lovelace": 32768, "blackwell": 262144}
"""MiB of the aperture, 128 GiB where it is not named."""
STEPPINGS = {"hopper": "885", "blackwell": "886"}
ECC_OBJECTS = {"turing": "5.0", "hopper": "7.16", "blackwell": "7.16"}
SRAM_SOURCES = ("L2", "SM", "Microcontroller", "PCIE", "Other")
LIMITS = ("Current Power Limit", "Requested Power Limit", "Default Power Limit", "Min Power Limit", "Max Power Limit")
ROUTES = (
    "Bandwidth", "Route Recovery in progress", "Route Unhealthy", "Access Timeout Recovery",
    "Incorrect Configuration", "Partition Assigned",
)  # fmt: skip
_MEMORY_TIERS = (
    "SRAM Correctable",
    "SRAM Uncorrectable Parity",
    "SRAM Uncorrectable SEC-DED",
    "DRAM Correctable",
    "DRAM Uncorrectable",
)


class UnknownSection(Exception):
    """``-d`` names something that nvidia-smi does not have; the message is its own."""


def page(view: View, sections: Iterable[str] = (), only: Iterable[str] = ()) -> str:
    """Return the report. Raises UnknownSection."""
    wanted = [name.strip().upper() for name in sections]
    if unknown := [name for name in wanted if name not in SECTIONS]:
        raise UnknownSection(f"Display type is not recognized: {unknown[0]}\n")
    seen = chosen(view, only)
    head: Tree = [
        ("Timestamp", view.at.strftime("%a %b %e %H:%M:%S %Y")),
        ("Driver Version", driver().version),
        ("CUDA Version", driver().cuda),
    ]
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        *_lines(head),
        "",
        *_lines([("Attached GPUs", str(len(view.present())))]),
    ]
    for item in seen:
        lines += [f"GPU {item.device.pci_address}", *_lines(_tree(view, item, wanted), INDENT), ""]
    return "\n".join(lines) + ("" if seen else "\n")


def _tree(view: View, seen: Seen, wanted: list[str]) -> Tree:
    names = wanted or list(SECTIONS)
    tree: Tree = _identity(seen) if not wanted else []
    for name in names:
        if name == "ECC" and not wanted:
            tree.append(("DRAM Encryption Mode", [("Current", NOT_AVAILABLE), ("Pending", NOT_AVAILABLE)]))
        tree += SECTIONS[name](view, seen)
    return tree if wanted else [*tree, ("Capabilities", [("EGM", "disabled")])]


def _lines(tree: Tree, indent: int = 0, column: int = COLUMN) -> list[str]:
    lines: list[str] = []
    for label, value in tree:
        head = " " * indent + label
        if isinstance(value, str):
            lines.append(f"{head:<{column}}: {value}")
        else:
            narrow = PROCESS_COLUMN if label == "Processes" else column
            lines += [head, *_lines(value, indent + INDENT, narrow)]
    return lines


def _field(seen: Seen, view: View, name: str) -> str:
    field = FIELDS[name]
    text = str(field.get(seen, view))
    if text.startswith("["):
        return NOT_AVAILABLE
    return f"{text} {field.unit}" if field.unit else text


def _identity(seen: Seen) -> Tree:
    device, product = seen.device, seen.device.product
    current = seen.mig
    generation, width = device.trouble.narrow or (product.pci["generation"], product.pci["width"])
    best = str(product.pci["generation"])
    domain, bus, number = device.bus.upper().split(":")
    return [
        ("Product Name", product.name),
        ("Product Brand", "NVIDIA"),
        ("Product Architecture", product.architecture),
        ("Display Mode", "Requested functionality has been deprecated"),
        ("Display Attached", "No"),
        ("Display Active", "Disabled"),
        ("Persistence Mode", "Enabled" if device.persistence else "Disabled"),
        ("Addressing Mode", "HMM"),
        ("MIG Mode", [("Current", current), ("Pending", current)]),
        ("Accounting Mode", "Disabled"),
        ("Accounting Mode Buffer Size", "4000"),
        ("Driver Model", [("Current", NOT_AVAILABLE), ("Pending", NOT_AVAILABLE)]),
        ("Serial Number", device.serial),
        ("GPU UUID", device.uuid),
        ("GPU PDI", f"0x{zlib.crc32(device.uuid.encode()):08x}{zlib.crc32(device.serial.encode()):08x}"),
        ("Minor Number", str(device.minor)),
        ("VBIOS Version", product.vbios),
        ("MultiGPU Board", "No"),
        ("Board ID", f"0x{int(bus, 16) << 8 | int(number, 16) << 3:x}"),
        ("Board Part Number", product.part),
        ("GPU Part Number", f"{product.pci['device'][:4]}-{STEPPINGS.get(product.family, '895')}-A1"),
        ("FRU Part Number", NOT_AVAILABLE),
        ("Platform Info", [
            ("Chassis Serial Number", ""), ("Slot Number", "0"), ("Tray Index", "0"), ("Host ID", "1"),
            ("Peer Type", "Switch Connected" if _is_fabric(product) else "Direct Connected"),
            ("Module Id", str(device.index + 1)), ("GPU Fabric GUID", "0x0000000000000000"),
        ]),
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
        ("PCI", [
            ("Bus", f"0x{bus}"),
            ("Device", f"0x{number}"),
            ("Domain", f"0x{domain}"),
            ("Base Classcode", "0x3"),
            ("Sub Classcode", "0x2"),
            ("Device Id", "0x" + product.pci["device"]),
            ("Bus Id", device.pci_address),
            ("Sub System Id", "0x" + product.pci["subsystem"]),
            ("GPU Link Info", [
                ("PCIe Generation", [
                    ("Max", best), ("Current", str(generation)), ("Device Current", str(generation)),
                    ("Device Max", best), ("Host Max", best),
                ]),
                ("Link Width", [("Max", f"{product.pci['width']}x"), ("Current", f"{width}x")]),
            ]),
            ("Bridge Chip", [("Type", NOT_AVAILABLE), ("Firmware", NOT_AVAILABLE)]),
            ("Replays Since Reset", str(device.state.replays)),
            ("Replay Number Rollovers", "0"),
            ("Tx Throughput", f"{seen.reading.pcie_tx / 1000:.0f} KB/s"),
            ("Rx Throughput", f"{seen.reading.pcie_rx / 1000:.0f} KB/s"),
            ("Atomic Caps Outbound", NOT_AVAILABLE),
            ("Atomic Caps Inbound", NOT_AVAILABLE),
        ]),
        ("Fan Speed", NOT_AVAILABLE),
    ]  # fmt: skip


def _is_fabric(product: Product) -> bool:
    """Whether switches join the NVLinks of a machine's devices, and a fabric manager looks after them."""
    return bool(product.nvlinks) and product.family != "ampere"


def _inforom(product: Product) -> Tree:
    board, variant = product.part.split("-")[1:3]
    return [
        ("Image Version", f"{board[1:]}.{variant}.00.05"),
        ("OEM Object", "2.1"),
        ("ECC Object", ECC_OBJECTS.get(product.family, "6.16")),
        ("Power Management Object", NOT_AVAILABLE),
    ]


def _performance(view: View, seen: Seen) -> Tree:
    reasons = [
        ("Idle", "gpu_idle"),
        ("Applications Clocks Setting", "applications_clocks_setting"),
        ("SW Power Cap", "sw_power_cap"),
        ("HW Slowdown", "hw_slowdown"),
        ("    HW Thermal Slowdown", "hw_thermal_slowdown"),
        ("    HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ("Sync Boost", "sync_boost"),
        ("SW Thermal Slowdown", "sw_thermal_slowdown"),
    ]
    found: Tree = [(label, _field(seen, view, f"clocks_event_reasons.{name}")) for label, name in reasons]
    state = seen.reading.state
    since = round((view.at - state.since).total_seconds() * 1e6)
    counters: Tree = [
        ("SW Power Capping", "0 us"),
        ("Sync Boost", "0 us"),
        ("SW Thermal Slowdown", "0 us"),
        ("HW Thermal Slowdown", f"{since if state.trouble.hot else 0} us"),
        ("HW Power Braking", f"{since if state.trouble.power_brake else 0} us"),
    ]
    return [
        ("Performance State", seen.reading.performance),
        ("Clocks Event Reasons", [*found, ("Display Clock Setting", "Not Active")]),
        ("Clocks Event Reasons Counters", counters),
        ("Sparse Operation Mode", NOT_AVAILABLE),
    ]


def _memory(view: View, seen: Seen) -> Tree:
    reading, bar1 = seen.reading, BAR1_MIB.get(seen.device.product.family, 131072)
    return [
        ("FB Memory Usage", [
            ("Total", f"{seen.device.product.memory} MiB"),
            ("Reserved", f"{reading.reserved} MiB"),
            ("Used", f"{reading.used} MiB"),
            ("Free", f"{reading.free} MiB"),
        ]),
        ("BAR1 Memory Usage", [("Total", f"{bar1} MiB"), ("Used", "1 MiB"), ("Free", f"{bar1 - 1} MiB")]),
        ("Conf Compute Protected Memory Usage", [("Total", "0 MiB"), ("Used", "0 MiB"), ("Free", "0 MiB")]),
    ]  # fmt: skip


def _compute(view: View, seen: Seen) -> Tree:
    return [("Compute Mode", seen.device.compute_mode)]


def _utilization(view: View, seen: Seen) -> Tree:
    names = [("GPU", "gpu"), ("Memory", "memory"), ("Encoder", "encoder"), ("Decoder", "decoder")]
    found: Tree = [(label, _field(seen, view, f"utilization.{name}")) for label, name in names]
    return [("Utilization", [*found, ("JPEG", "0 %"), ("OFA", "0 %")])]


def _encoder(view: View, seen: Seen) -> Tree:
    idle: Tree = [("Active Sessions", "0"), ("Average FPS", "0"), ("Average Latency", "0")]
    return [("Encoder Stats", idle), ("FBC Stats", idle)]


def _ecc(view: View, seen: Seen) -> Tree:
    def counts(age: int) -> Tree:
        ecc = seen.device.state.ecc
        values = dict.fromkeys(_MEMORY_TIERS, 0)
        values["DRAM Correctable"], values["DRAM Uncorrectable"] = ecc.corrected[age], ecc.uncorrected[age]
        return [(name, str(value)) for name, value in values.items()]

    return [
        ("ECC Mode", [("Current", "Enabled"), ("Pending", "Enabled")]),
        (
            "ECC Errors",
            [
                ("Volatile", counts(0)),
                ("Aggregate", [*counts(1), ("SRAM Threshold Exceeded", "No")]),
                ("Aggregate Uncorrectable SRAM Sources", [(f"SRAM {name}", "0") for name in SRAM_SOURCES]),
                ("Channel Repair Pending", "No"),
                ("TPC Repair Pending", "No"),
                ("Unrepairable Memory", "Yes" if seen.device.state.remap.failed else "No"),
            ],
        ),
    ]


def _retirement(view: View, seen: Seen) -> Tree:
    """Pages are retired by products that remap no rows."""
    remap, retires = seen.device.state.remap, seen.device.product.family == "turing"
    values = (str(remap.corrected), str(remap.uncorrected), "Yes" if remap.pending else "No")
    names = ("Single Bit ECC", "Double Bit ECC", "Pending Page Blacklist")
    return [("Retired Pages", [*zip(names, values if retires else (NOT_AVAILABLE,) * 3, strict=True)])]


def _remapper(view: View, seen: Seen) -> Tree:
    if seen.device.product.family == "turing":
        return [("Remapped Rows", NOT_AVAILABLE)]
    remap = seen.device.state.remap
    used = min(remap.corrected + remap.uncorrected, 8)
    histogram: Tree = [
        ("Max", f"{seen.device.product.banks - used} bank(s)"), ("High", f"{used} bank(s)"), ("Partial", "0 bank(s)"),
        ("Low", "0 bank(s)"), ("None", f"{int(remap.failed)} bank(s)"),
    ]  # fmt: skip
    return [
        ("Remapped Rows", [
            ("Correctable Error", str(remap.corrected)),
            ("Uncorrectable Error", str(remap.uncorrected)),
            ("Pending", "Yes" if remap.pending else "No"),
            ("Remapping Failure Occurred", "Yes" if remap.failed else "No"),
            ("Bank Remap Availability Histogram", histogram),
        ]),
    ]  # fmt: skip


def _temperature(view: View, seen: Seen) -> Tree:
    limits, reading = seen.device.product.temperature, seen.reading
    memory = f"{reading.memory_temperature} C" if limits["memory"] else NOT_AVAILABLE
    if seen.device.product.family in ("turing", "ampere"):
        return [
            ("Temperature", [
                ("GPU Current Temp", f"{reading.temperature} C"),
                ("GPU T.Limit Temp", NOT_AVAILABLE),
                ("GPU Shutdown Temp", f"{limits['shutdown']} C"),
                ("GPU Slowdown Temp", f"{limits['slowdown']} C"),
                ("GPU Max Operating Temp", f"{limits['hottest']} C"),
                ("GPU Target Temperature", NOT_AVAILABLE),
                ("Memory Current Temp", memory),
                ("Memory Max Operating Temp", "95 C" if limits["memory"] else NOT_AVAILABLE),
            ]),
        ]  # fmt: skip
    return [
        ("Temperature", [
            ("GPU Current Temp", f"{reading.temperature} C"),
            ("GPU T.Limit Temp", f"{limits['slowdown'] - reading.temperature} C"),
            ("GPU Shutdown T.Limit Temp", f"{limits['slowdown'] - limits['shutdown'] - 5} C"),
            ("GPU Slowdown T.Limit Temp", "-2 C"),
            ("GPU Max Operating T.Limit Temp", "0 C"),
            ("GPU Target Temperature", NOT_AVAILABLE),
            ("Memory Current Temp", memory),
            ("Memory Max Operating T.Limit Temp", "0 C" if limits["memory"] else NOT_AVAILABLE),
        ]),
    ]  # fmt: skip


def _power(view: View, seen: Seen) -> Tree:
    limit, least = seen.device.product.power["limit"], seen.device.product.power["least"]
    unknown: Tree = [("Average Power Draw", NOT_AVAILABLE), ("Instantaneous Power Draw", NOT_AVAILABLE)]
    return [
        ("GPU Power Readings", [
            ("Average Power Draw", f"{seen.reading.power:.2f} W"),
            ("Instantaneous Power Draw", f"{seen.reading.power:.2f} W"),
            ("Current Power Limit", f"{limit:.2f} W"),
            ("Requested Power Limit", f"{limit:.2f} W"),
            ("Default Power Limit", f"{limit:.2f} W"),
            ("Min Power Limit", f"{least:.2f} W"),
            ("Max Power Limit", f"{limit:.2f} W"),
        ]),
        ("GPU Memory Power Readings ", unknown),
        ("Module Power Readings", [*unknown, *((name, NOT_AVAILABLE) for name in LIMITS)]),
        ("Power Smoothing", NOT_AVAILABLE),
        ("Workload Power Profiles", [("Requested Profiles", NOT_AVAILABLE), ("Enforced Profiles", NOT_AVAILABLE)]),
    ]  # fmt: skip


def _clock(view: View, seen: Seen) -> Tree:
    reading, most = seen.reading, seen.device.product.clocks["most"]

    def clocks(sm: int, memory: int) -> Tree:
        return [
            ("Graphics", f"{sm} MHz"),
            ("SM", f"{sm} MHz"),
            ("Memory", f"{memory} MHz"),
            ("Video", f"{round(sm * 0.81)} MHz"),
        ]

    return [
        ("Clocks", clocks(reading.sm_clock, reading.mem_clock)),
        ("Applications Clocks", [("Graphics", f"{most[0]} MHz"), ("Memory", f"{most[1]} MHz")]),
        ("Default Applications Clocks", [("Graphics", f"{most[0]} MHz"), ("Memory", f"{most[1]} MHz")]),
        ("Deferred Clocks", [("Memory", NOT_AVAILABLE)]),
        ("Max Clocks", clocks(*most)),
        ("Max Customer Boost Clocks", [("Graphics", f"{most[0]} MHz")]),
        ("Clock Policy", [("Auto Boost", NOT_AVAILABLE), ("Auto Boost Default", NOT_AVAILABLE)]),
    ]


def _fabric(view: View, seen: Seen) -> Tree:
    health = "Healthy" if not seen.device.trouble.links_down else "Unhealthy"
    values = ("Completed", "Success", "0", "00000000-0000-0000-0000-000000000000", health)
    state, status, clique, cluster, summary = values if _is_fabric(seen.device.product) else (NOT_AVAILABLE,) * 5
    return [
        ("Fabric", [
            ("State", state), ("Status", status), ("CliqueId", clique), ("ClusterUUID", cluster),
            ("Health", [("Summary", summary), *((name, NOT_AVAILABLE) for name in ROUTES)]),
        ]),
    ]  # fmt: skip


def _pids(view: View, seen: Seen) -> Tree:
    tasks = view.tasks(seen)
    if not tasks:
        return [("Processes", "None")]
    found: Tree = []
    for task in tasks:
        instance = NOT_AVAILABLE if task.instance is None else str(task.instance)
        found += [
            ("GPU instance ID", instance),
            ("Compute instance ID", NOT_AVAILABLE if task.instance is None else "0"),
            ("Process ID", str(task.pid)),
            ("    Type", "C"),
            ("    Name", task.name),
            ("    Used GPU Memory", f"{seen.device.held(task, view.at)} MiB"),
        ]
    return [("Processes", found)]


SECTIONS: dict[str, Callable[[View, Seen], Tree]] = {
    "PERFORMANCE": _performance,
    "MEMORY": _memory,
    "COMPUTE": _compute,
    "UTILIZATION": _utilization,
    "ENCODER_STATS": _encoder,
    "ECC": _ecc,
    "PAGE_RETIREMENT": _retirement,
    "ROW_REMAPPER": _remapper,
    "TEMPERATURE": _temperature,
    "POWER": _power,
    "CLOCK": _clock,
    "FABRIC": _fabric,
    "PIDS": _pids,
}
