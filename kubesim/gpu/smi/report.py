"""``nvidia-smi -q``: everything about each device, whole or by section (``report.yaml``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from kubesim import data
from kubesim.gpu.devices import Task
from kubesim.gpu.products import driver
from kubesim.gpu.readings import Reading, find, read
from kubesim.gpu.smi.query import clocks, properties
from kubesim.gpu.smi.values import GETTERS, remaps
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View, chosen

_sections: data.Reader[dict[str, dict[str, Any]]] = data.beside(__file__, "report.yaml")
Tree = list[tuple[str, "str | Tree"]]
COLUMN, PROCESS_COLUMN = 55, 42
INDENT = 4
SAMPLES, SPAN_S = 60, 118.0
ALONE = "SUPPORTED_CLOCKS", "SUPPORTED_GPU_TARGET_TEMP", "ACCOUNTING", "VOLTAGE", "GSP_FIRMWARE_VERSION"
"""Sections that are told only when ``-d`` asks for them."""
_PLACE = re.compile(r"\{([^}|]+)\|?([^}]*)\}")


class UnknownSection(Exception):
    """``-d`` names something that nvidia-smi does not have; the message is its own."""


def page(view: View, sections: Iterable[str] = (), only: Iterable[str] = ()) -> str:
    """Return the report. Raises UnknownSection, query.NoDevices."""
    wanted = [name.strip().upper() for name in sections]
    if unknown := [name for name in wanted if name not in _sections()]:
        raise UnknownSection(f"Display type is not recognized: {unknown[0]}\n")
    lines = ["", "==============NVSMI LOG==============", "", *_lines(head(view)[:3]), "", *_lines(head(view)[3:])]
    for seen in chosen(view, only):
        tree = report(view, seen) if not wanted else [row for name in wanted for row in _sampled(view, seen, name)]
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
    names = [name for name in _sections() if " " not in name and name not in ALONE]
    return [row for name in names for row in section(view, seen, name)]


def section(view: View, seen: Seen, name: str) -> Tree:
    """Return one section."""
    if name == "ROW_REMAPPER" and not remaps(seen):
        return [("Remapped Rows", NOT_AVAILABLE)]
    own = f"{name} {seen.device.product.family}"
    return _tree(view, seen, _sections().get(own) or _sections()[name])


def _tree(view: View, seen: Seen, entries: dict[str, Any]) -> Tree:
    found: Tree = []
    for label, value in entries.items():
        if label.startswith("*"):
            found += _PARTS[label[1:]](view, seen)
        elif isinstance(value, dict):
            found.append((label, _tree(view, seen, value)))
        else:
            found.append((label, NOT_AVAILABLE if value is None else _filled(view, seen, value)))
    return found


def _filled(view: View, seen: Seen, text: str) -> str:
    """Return a text with the values that it has places for."""
    known = properties()

    def value(match: re.Match[str]) -> str:
        name, unit = match.groups()
        if name in known:
            found, unit = known[name].get(seen, view), unit or known[name].unit
        else:
            found = GETTERS[name](seen, view) if name in GETTERS else find(seen, name)
        if str(found).startswith("["):
            return NOT_AVAILABLE
        return f"{found} {unit}" if unit and found != NOT_AVAILABLE else str(found)

    return _PLACE.sub(value, text)


def _sampled(view: View, seen: Seen, name: str) -> Tree:
    """Return a section with what it tells of the last two minutes where it stands alone."""
    return [*section(view, seen, name), *(_samples(view, seen, *each) for each in _SAMPLED.get(name, ()))]


def _samples(
    view: View, seen: Seen, label: str, unit: str, get: Callable[[Reading], float] | None
) -> tuple[str, Tree]:
    """Return the statistics of the last two minutes; a driver of today keeps none of clocks."""
    if get is None:
        return label, [(name, "Not Found") for name in ("Duration", "Number of Samples", "Max", "Min", "Avg")]
    steps = (view.at - timedelta(seconds=SPAN_S * step / (SAMPLES - 1)) for step in range(SAMPLES))
    found = [get(read(seen.device, at)) for at in steps]
    statistics = (("Max", max(found)), ("Min", min(found)), ("Avg", sum(found) / len(found)))
    form = "{:.2f} {}" if unit == "W" else "{:.0f} {}"
    rows: Tree = [(name, form.format(value, unit)) for name, value in statistics]
    return label, [("Duration", f"{SPAN_S:.2f} sec"), ("Number of Samples", str(SAMPLES)), *rows]


def _lines(tree: Tree, indent: int = 0, column: int = COLUMN) -> list[str]:
    lines: list[str] = []
    for label, value in tree:
        text = " " * indent + label
        if isinstance(value, str):
            lines.append(f"{text:<{column}}: {value}")
        else:
            narrow = PROCESS_COLUMN if label == "Processes" else column
            lines += [text, *_lines(value, indent + INDENT, narrow)]
    return lines


def _clocks(view: View, seen: Seen) -> Tree:
    """Every clock that the memory can have, each with those that the multiprocessors can have then."""
    found: Tree = []
    for memory, graphics in clocks(seen.device.product):
        each = [f"{clock} MHz" for clock in graphics]
        found += [("Memory", f"{memory} MHz"), *(("    Graphics", clock) for clock in each)]
    return [("Supported Clocks", found)]


def _processes(view: View, seen: Seen) -> Tree:
    """The processes stand one below the other."""
    rows: Tree = [row for task in view.tasks(seen) for row in _process(view, seen, task)]
    return [("Processes", rows or "None")]


def _process(view: View, seen: Seen, task: Task) -> Tree:
    return [
        ("GPU instance ID", NOT_AVAILABLE),
        ("Compute instance ID", NOT_AVAILABLE),
        ("Process ID", str(task.pid)),
        ("    Type", "C"),
        ("    Name", task.name),
        ("    Used GPU Memory", f"{seen.device.held(task, view.at)} MiB"),
    ]


_PARTS = {"clocks": _clocks, "processes": _processes}
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
"""Samples of the last two minutes, which a section tells beside its own rows."""
