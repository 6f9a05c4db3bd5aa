"""The pages of plain ``nvidia-smi``, and of ``dmon`` and ``pmon``: a line for each device or process."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim import data
from kubesim.gpu.devices import Task
from kubesim.gpu.products import driver
from kubesim.gpu.readings import find
from kubesim.gpu.smi.values import GETTERS
from kubesim.gpu.smi.view import Seen, View, chosen, texts

columns: data.Reader[dict[str, dict[str, list[str]]]] = data.beside(__file__, "dmon.yaml")
"""Return the letters of ``dmon -s`` with their columns."""
WIDTH = 89
_RULE = "+-----------------------------------------+------------------------+----------------------+"
_END = "+-----------------------------------------------------------------------------------------+"


def page(view: View, only: Iterable[str] = ()) -> str:
    """Return the whole page. Raises query.NoDevices."""
    seen = chosen(view, only)
    title = f"NVIDIA-SMI {driver().version}"
    title = f"{title:<34}Driver Version: {driver().version}"
    title = f"{title:<65}CUDA Version: {driver().cuda}"
    lines = [view.at.strftime("%a %b %e %H:%M:%S %Y").ljust(31), texts()["table"].format(title=f"{title:<87}")]
    for each in seen:
        lines += [*_device(each), _RULE]
    lines += ["", *_processes(view, seen)]
    return "\n".join(lines) + "\n"


def _device(seen: Seen) -> list[str]:
    device, reading = seen.device, seen.reading
    memory = f"{reading.used}MiB / {device.product.memory:>6}MiB"
    power = f"{reading.power:.0f}W / {device.power_limit:>4.0f}W"
    settings = device.settings
    return [
        f"| {seen.number:>3}  {device.product.name:<31}{'On' if settings.persistence else 'Off':<3} |"
        f" {device.pci_address:>18} Off | {device.state.ecc.uncorrected[0]:>20} |",
        f"| N/A  {reading.temperature:>3}C    {reading.performance:<3} {power:>22} |"
        f" {memory:>22} | {reading.util:>6}% {'Default':>12} |",
        f"|{'':41}|{'':24}| {seen.mig:>20} |",
    ]


def _processes(view: View, seen: list[Seen]) -> list[str]:
    rows = [_process(view, each, task) for each in seen for task in view.tasks(each)]
    return [texts()["processes"], *(rows or [f"|{'  No running processes found':<{WIDTH}}|"]), _END]


def _process(view: View, seen: Seen, task: Task) -> str:
    name = task.name if len(task.name) <= 36 else "..." + task.name[-33:]
    memory = f"{seen.device.held(task, view.at)}MiB"
    return f"|{seen.number:>5}   N/A  N/A {task.pid:>15}{'C':>7}   {name:<36}{memory:>10} |"


NONE = "-"


def _cell(view: View, seen: Seen, at: str = "") -> str:
    """Return what a device says in a column."""
    value = GETTERS[at](seen, view) if at in GETTERS else find(seen, at) if at else 0
    return value if isinstance(value, str) else str(round(value))


def devices(view: View, letters: str, only: Iterable[str] = ()) -> str:
    """Return the heading and one line for each device. Raises query.NoDevices."""
    found = [(name, *row) for letter in columns() if letter in letters for name, row in columns()[letter].items()]
    lines = [_heading(row, [column[row] for column in found]) for row in (0, 1)]
    for seen in chosen(view, only):
        cells = "".join(f"{_cell(view, seen, *each[2:]):>7}" for each in found)
        lines.append(f"{seen.number:>5}{cells} ")
    return "\n".join(lines) + "\n"


def processes(view: View, letters: str, only: Iterable[str] = ()) -> str:
    """Return the heading and one line for each process, a line of dashes for a device without any."""
    use = ("sm", "mem", "enc", "dec", "jpg", "ofa") if "u" in letters else ()
    memory = ("fb", "ccpm") if "m" in letters else ()
    heads = "".join(f"{name:>7}" for name in (*use, *memory))
    units = "".join(f"{unit:>7}" for unit in ("%",) * len(use) + ("MB",) * len(memory))
    lines = [
        f"# gpu         pid   type{heads}    command ",
        f"# Idx           #    C/G{units}    name ",
    ]
    for seen in chosen(view, only):
        tasks: list[Task | None] = [*view.tasks(seen)]
        for task in tasks or [None]:
            cells = "".join(f"{value!s:>7}" for value in _cells(view, seen, task, bool(use), bool(memory)))
            who = (task.pid, "C", task.name.rpartition("/")[2]) if task else (NONE,) * 3
            lines.append(f"{seen.number:>5} {who[0]:>11} {who[1]:>6}{cells}    {who[2]:<15}")
    return "\n".join(lines) + "\n"


def _cells(view: View, seen: Seen, task: Task | None, use: bool, memory: bool) -> list[object]:
    busy = task is not None and seen.reading.util > 0
    share: list[object] = [seen.reading.util, seen.reading.memory_util] if busy else [NONE, NONE]
    held: list[object] = [seen.device.held(task, view.at), 0] if task is not None else [NONE, NONE]
    return [*(share + [NONE] * 4 if use else ()), *(held if memory else ())]


def _heading(row: int, names: list[object]) -> str:
    return f"# {('gpu', 'Idx')[row]}" + "".join(f"{name!s:>7}" for name in names) + " "
