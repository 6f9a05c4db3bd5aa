"""The sections of ``nvidia-smi -q``: labels with their values, as the driver's branch 580 has them.

A label ``<like this>`` is an element of the XML report that the text lacks, one that ends in ``>`` the text's alone.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesim.gpu.devices import Task
from kubesim.gpu.mig import Instance
from kubesim.gpu.products import driver
from kubesim.gpu.smi import query
from kubesim.gpu.smi.table import apertures, bar1_mib, jpegs, multiprocessors
from kubesim.gpu.smi.values import banks, held, remaps, yes
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

Tree = list[tuple[str, "str | Tree"]]
Section = Callable[[View, Seen], Tree]
SRAM_SOURCES = ("L2", "SM", "Microcontroller", "PCIE", "Other")
ROUTES = (
    "Bandwidth", "Route Recovery in progress", "Route Unhealthy", "Access Timeout Recovery",
    "Incorrect Configuration",
)  # fmt: skip
_TIERS = (
    "SRAM Correctable",
    "SRAM Uncorrectable Parity",
    "SRAM Uncorrectable SEC-DED",
    "DRAM Correctable",
    "DRAM Uncorrectable",
)


def _field(seen: Seen, view: View, name: str) -> str:
    known = query.field(name)
    text = str(known.get(seen, view))
    if text.startswith("["):
        return NOT_AVAILABLE
    return f"{text} {known.unit}" if known.unit and text != NOT_AVAILABLE else text


def instances(view: View, seen: Seen) -> Tree:
    """Return what is told of each MIG instance that the caller has."""
    found: Tree = [("MIG Device", _instance(view, seen, *each)) for each in enumerate(seen.cut)]
    return [("<mig_devices>", found or "\nNone"), *((f"{label}>", tree) for label, tree in found)]


def _instance(view: View, seen: Seen, number: int, item: Instance) -> Tree:
    product, total, bar1 = seen.device.product, item.profile.memory_mib, apertures(seen.device.product, item)
    used = seen.device.used(view.at, item.id) + item.own_mib
    engines = (
        ("Multiprocessor count", multiprocessors(product, item.profile.slices)),
        ("Copy Engine count", item.profile.copy_engines),
        ("Encoder count", 0),
        ("Decoder count", item.profile.decoders),
        ("OFA count", item.profile.ofas),
        ("JPG count", jpegs(product, item.profile)),
    )
    memory = (("Total", total), ("Reserved", 0), ("Used", used), ("Free", total - used))
    aperture = (("Total", bar1), ("Used", 0), ("Free", bar1))
    return [
        ("Index", str(number)),
        ("GPU Instance ID", str(item.id)),
        ("Compute Instance ID", "0"),
        ("Device Attributes", [("Shared", [(label, str(count)) for label, count in engines])]),
        ("ECC Errors>", [("Volatile", [("SRAM Uncorrectable", "0")])]),
        ("<ecc_error_count>", [("<volatile_count>", [("SRAM Uncorrectable", "0")])]),
        ("Shared FB Memory Usage", [(label, f"{mib} MiB") for label, mib in memory]),
        ("Shared BAR1 Memory", [(label, f"{mib} MiB") for label, mib in aperture]),
    ]


def _performance(view: View, seen: Seen) -> Tree:
    labels = [
        ("Idle", "gpu_idle"),
        ("Applications Clocks Setting", "applications_clocks_setting"),
        ("SW Power Cap", "sw_power_cap"),
        ("HW Slowdown", "hw_slowdown"),
        ("    HW Thermal Slowdown", "hw_thermal_slowdown"),
        ("    HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ("Sync Boost", "sync_boost"),
        ("SW Thermal Slowdown", "sw_thermal_slowdown"),
    ]
    found: Tree = [(label, _field(seen, view, f"clocks_event_reasons.{name}")) for label, name in labels]
    counters: Tree = [
        ("SW Power Capping", "0 us"),
        ("Sync Boost", "0 us"),
        ("SW Thermal Slowdown", "0 us"),
        ("HW Thermal Slowdown", f"{held(seen, view, 'hot')} us"),
        ("HW Power Braking", f"{held(seen, view, 'power_brake')} us"),
    ]
    return [
        ("Performance State", seen.reading.performance),
        ("Clocks Event Reasons", [*found, ("Display Clock Setting", "Not Active")]),
        ("Clocks Event Reasons Counters", counters),
        ("Sparse Operation Mode", "Disabled" if seen.device.product.family == "hopper" else NOT_AVAILABLE),
    ]


def _memory(view: View, seen: Seen) -> Tree:
    reading, bar1 = seen.reading, bar1_mib(seen.device.product)
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
    return [("Compute Mode", _field(seen, view, "compute_mode"))]


def _utilization(view: View, seen: Seen) -> Tree:
    names = [
        ("GPU", "gpu"),
        ("Memory", "memory"),
        ("Encoder", "encoder"),
        ("Decoder", "decoder"),
        ("JPEG", "jpeg"),
        ("OFA", "ofa"),
    ]
    return [("Utilization", [(label, _field(seen, view, f"utilization.{name}")) for label, name in names])]


def _sessions(name: str) -> Section:
    idle: Tree = [("Active Sessions", "0"), ("Average FPS", "0"), ("Average Latency", "0")]
    return lambda view, seen: [(name, idle)]


def _ecc(view: View, seen: Seen) -> Tree:
    """A Turing tells less of its SRAM than those after it."""
    less = seen.device.product.family == "turing"
    tiers = ("SRAM Correctable", "SRAM Uncorrectable", "DRAM Correctable", "DRAM Uncorrectable") if less else _TIERS

    def counts(age: int) -> Tree:
        ecc = seen.device.state.ecc
        known = {"DRAM Correctable": ecc.corrected[age], "DRAM Uncorrectable": ecc.uncorrected[age]}
        return [(name, str(known.get(name, 0))) for name in tiers]

    further: Tree = [
        ("Aggregate Uncorrectable SRAM Sources", [(f"SRAM {name}", "0") for name in SRAM_SOURCES]),
        ("Channel Repair Pending", "No"),
        ("TPC Repair Pending", "No"),
    ]
    ever: Tree = [*counts(1), *(() if less else (("SRAM Threshold Exceeded", "No"),))]
    return [
        ("ECC Mode", [("Current", "Enabled"), ("Pending", "Enabled")]),
        ("ECC Errors", [("Volatile", counts(0)), ("Aggregate", ever), *(() if less else further)]),
    ]


def _retirement(view: View, seen: Seen) -> Tree:
    """Pages are retired by products that remap no rows."""
    remap, retires = seen.device.state.remap, seen.device.product.family == "turing"
    values = (str(remap.corrected), str(remap.uncorrected), yes(remap.pending)) if retires else (NOT_AVAILABLE,) * 3
    pages: list[Tree] = [
        [("<retired_count>", value), ("<retired_pagelist>", [] if retires else value)] for value in values
    ]
    return [
        ("Retired Pages", [
            ("Single Bit ECC>", values[0]), ("<multiple_single_bit_retirement>", pages[0]),
            ("Double Bit ECC>", values[1]), ("<double_bit_retirement>", pages[1]),
            ("Pending Page Blacklist", values[2]), ("<pending_retirement>", values[2]),
        ]),
    ]  # fmt: skip


def _remapper(view: View, seen: Seen) -> Tree:
    if not remaps(seen):
        return [("Remapped Rows", NOT_AVAILABLE)]
    names = [
        ("Correctable Error", "correctable"),
        ("Uncorrectable Error", "uncorrectable"),
        ("Pending", "pending"),
        ("Remapping Failure Occurred", "failure"),
    ]
    rows: Tree = [(label, _field(seen, view, f"remapped_rows.{name}")) for label, name in names]
    left: Tree = [(name.title(), f"{count} bank(s)") for name, count in banks(seen).items()]
    return [("Remapped Rows", [*rows, ("Bank Remap Availability Histogram", left)])]


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
    state: Tree = [("<power_state>", seen.reading.performance)]
    unknown: Tree = [("Average Power Draw", NOT_AVAILABLE), ("Instantaneous Power Draw", NOT_AVAILABLE)]
    readings: Tree = [(label, _field(seen, view, name)) for label, name in _POWER]
    return [
        ("GPU Power Readings", [*state, *readings]),
        ("GPU Memory Power Readings ", unknown),
        ("Module Power Readings", [*state, *((label, NOT_AVAILABLE) for label, _ in _POWER)]),
    ]


def _profiles(view: View, seen: Seen) -> Tree:
    nothing: Tree = [("Requested Profiles", NOT_AVAILABLE), ("Enforced Profiles", NOT_AVAILABLE)]
    return [("Workload Power Profiles", nothing)]


def _clock(view: View, seen: Seen) -> Tree:
    product, reading = seen.device.product, seen.reading
    most, video = product.clocks["most"], product.clocks["video"]
    names = [("Graphics", "graphics"), ("Memory", "memory")]
    applications = [
        [(label, _field(seen, view, f"clocks.{kind}.{name}")) for label, name in names]
        for kind in ("applications", "default_applications")
    ]

    def clocks(sm: int, memory: int, engines: int) -> Tree:
        values = (("Graphics", sm), ("SM", sm), ("Memory", memory), ("Video", engines))
        return [(label, f"{value} MHz") for label, value in values]

    return [
        ("Clocks", clocks(reading.sm_clock, reading.mem_clock, reading.video_clock)),
        ("Applications Clocks", [*applications[0]]),
        ("Default Applications Clocks", [*applications[1]]),
        ("Deferred Clocks", [("Memory", NOT_AVAILABLE)]),
        ("Max Clocks", clocks(most[0], most[1], video[1])),
        ("Max Customer Boost Clocks", [("Graphics", f"{most[0]} MHz")]),
        ("Clock Policy", [("Auto Boost", NOT_AVAILABLE), ("Auto Boost Default", NOT_AVAILABLE)]),
    ]


def _supported(view: View, seen: Seen) -> Tree:
    """Every clock that the memory can have, each with those that the multiprocessors can have then."""
    found: Tree = []
    for memory, graphics in query.clocks(seen.device.product):
        clocks = [f"{clock} MHz" for clock in graphics]
        found += [("Memory>", f"{memory} MHz"), *(("    Graphics>", clock) for clock in clocks)]
        inner: Tree = [("<value>", f"{memory} MHz"), *(("<supported_graphics_clock>", clock) for clock in clocks)]
        found.append(("<supported_mem_clock>", inner))
    return [("Supported Clocks", found)]


def _fabric(view: View, seen: Seen) -> Tree:
    """A Blackwell tells of its fabric's health in one word, too."""
    summary = NOT_AVAILABLE
    if seen.device.product.family == "blackwell":
        summary = "Unhealthy" if seen.device.trouble.links_down else "Healthy"
    names = [("State", "state"), ("Status", "status"), ("CliqueId", "cliqueId"), ("ClusterUUID", "clusterUuid")]
    known: Tree = [(label, _field(seen, view, f"fabric.{name}")) for label, name in names]
    health: Tree = [("Summary", summary), *((name, NOT_AVAILABLE) for name in ROUTES)]
    return [("Fabric", [*known, ("Health", health)])]


def _accounting(view: View, seen: Seen) -> Tree:
    return [
        ("Accounting Mode", _field(seen, view, "accounting.mode")),
        ("Accounting Mode Buffer Size", "4000"),
        ("Accounted Processes", "None"),
    ]


def _pids(view: View, seen: Seen) -> Tree:
    """In the text the processes stand one below the other, each is an element in XML."""
    tasks = [_process(view, seen, task) for task in view.tasks(seen)]
    text: Tree = [row for rows in tasks for row in rows]
    return [("Processes>", text or "None"), ("<processes>", [("<process_info>", rows) for rows in tasks])]


def _process(view: View, seen: Seen, task: Task) -> Tree:
    cut = task.instance is not None
    return [
        ("GPU instance ID", str(task.instance) if cut else NOT_AVAILABLE),
        ("Compute instance ID", "0" if cut else NOT_AVAILABLE),
        ("Process ID", str(task.pid)),
        ("    Type", "C"),
        ("    Name", task.name),
        ("    Used GPU Memory", f"{seen.device.held(task, view.at)} MiB"),
    ]


def _constant(label: str, value: str | Tree = NOT_AVAILABLE) -> Section:
    return lambda view, seen: [(label, value)]


_POWER = (
    ("Average Power Draw", "power.draw.average"), ("Instantaneous Power Draw", "power.draw.instant"),
    ("Current Power Limit", "enforced.power.limit"), ("Requested Power Limit", "power.limit"),
    ("Default Power Limit", "power.default_limit"), ("Min Power Limit", "power.min_limit"),
    ("Max Power Limit", "power.max_limit"),
)  # fmt: skip
SECTIONS: dict[str, Section] = {
    "PERFORMANCE": _performance,
    "MEMORY": _memory,
    "COMPUTE": _compute,
    "UTILIZATION": _utilization,
    "ENCODER_STATS": _sessions("Encoder Stats"),
    "FBC_STATS": _sessions("FBC Stats"),
    "ECC": _ecc,
    "PAGE_RETIREMENT": _retirement,
    "ROW_REMAPPER": _remapper,
    "TEMPERATURE": _temperature,
    "POWER": _power,
    "POWER_SMOOTHING": _constant("Power Smoothing"),
    "POWER_PROFILES": _profiles,
    "CLOCK": _clock,
    "FABRIC": _fabric,
    "PIDS": _pids,
}
"""What the whole report has, in its order."""
ALONE: dict[str, Section] = {
    "SUPPORTED_CLOCKS": _supported,
    "SUPPORTED_GPU_TARGET_TEMP": _constant(
        "Supported GPU Target Temp", [("GPU Target Temp Min", NOT_AVAILABLE), ("GPU Target Temp Max", NOT_AVAILABLE)]
    ),
    "ACCOUNTING": _accounting,
    "VOLTAGE": _constant("Voltage", [("Graphics", NOT_AVAILABLE)]),
    "GSP_FIRMWARE_VERSION": lambda view, seen: [("GSP Firmware Version", driver().version)],
}
"""What is told only when ``-d`` asks for it."""
