"""``nvidia-smi dmon`` and ``pmon``: a line for each device or process, every second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from kubesim.gpu.devices import Task
from kubesim.gpu.mig import bar1_mib
from kubesim.gpu.smi.view import Seen, View, chosen

Cell = Callable[[Seen], object]
NONE = "-"


def _whole(get: Cell) -> Cell:
    """Let a column speak only for devices that are not cut."""
    return lambda seen: NONE if seen.device.mig_mode else get(seen)


def _megabytes(value: float) -> int:
    return round(value / 1e6)


GROUPS: dict[str, tuple[tuple[str, str, Cell], ...]] = {
    "p": (
        ("pwr", "W", lambda s: round(s.reading.power)),
        ("gtemp", "C", lambda s: s.reading.temperature),
        ("mtemp", "C", lambda s: s.reading.memory_temperature or NONE),
    ),
    "u": (
        ("sm", "%", _whole(lambda s: s.reading.util)),
        ("mem", "%", _whole(lambda s: s.reading.memory_util)),
        *((name, "%", _whole(lambda s: 0)) for name in ("enc", "dec", "jpg", "ofa")),
    ),
    "c": (("mclk", "MHz", lambda s: s.reading.mem_clock), ("pclk", "MHz", lambda s: s.reading.sm_clock)),
    "v": (
        ("pviol", "%", lambda s: 100 * ("sw_power_cap" in s.reading.throttle)),
        ("tviol", "bool", lambda s: int("hw_thermal_slowdown" in s.reading.throttle)),
    ),
    "m": (
        ("fb", "MB", lambda s: s.reading.used),
        ("bar1", "MB", lambda s: min(1, bar1_mib(s.device.product))),
        ("ccpm", "MB", lambda s: 0),
    ),
    "e": (
        ("sbecc", "errs", lambda s: s.device.state.ecc.corrected[1]),
        ("dbecc", "errs", lambda s: s.device.state.ecc.uncorrected[1]),
        ("pci", "errs", lambda s: s.device.state.replays),
    ),
    "t": (
        ("rxpci", "MB/s", lambda s: _megabytes(s.reading.pcie_rx)),
        ("txpci", "MB/s", lambda s: _megabytes(s.reading.pcie_tx)),
    ),
}
"""The letters of ``dmon -s`` with their columns: name, unit, what a device says."""


def devices(view: View, letters: str, stamp: str = "", only: Iterable[str] = ()) -> str:
    """Return the heading and one line for each device. Raises query.NoDevices."""
    columns = [column for letter in GROUPS if letter in letters for column in GROUPS[letter]]
    lines = [_heading(stamp, row, [column[row] for column in columns]) for row in (0, 1)]
    for seen in chosen(view, only):
        cells = "".join(f"{get(seen)!s:>7}" for _, _, get in columns)
        lines.append(f"{_moment(stamp, view.at)}{seen.number:>5}{cells} ")
    return "\n".join(lines) + "\n"


def processes(view: View, letters: str, stamp: str = "", only: Iterable[str] = ()) -> str:
    """Return the heading and one line for each process, a line of dashes for a device without any."""
    use = ("sm", "mem", "enc", "dec", "jpg", "ofa") if "u" in letters else ()
    memory = ("fb", "ccpm") if "m" in letters else ()
    heads = "".join(f"{name:>7}" for name in (*use, *memory))
    units = "".join(f"{unit:>7}" for unit in ("%",) * len(use) + ("MB",) * len(memory))
    lines = [
        f"#{_names(stamp, 0)} gpu         pid   type{heads}    command ",
        f"#{_names(stamp, 1)} Idx           #    C/G{units}    name ",
    ]
    for seen in chosen(view, only):
        tasks: list[Task | None] = [*view.tasks(seen)]
        for task in tasks or [None]:
            cells = "".join(f"{value!s:>7}" for value in _cells(view, seen, task, bool(use), bool(memory)))
            who = (task.pid, "C", task.name.rpartition("/")[2]) if task else (NONE,) * 3
            lines.append(f"{_moment(stamp, view.at)}{seen.number:>5} {who[0]:>11} {who[1]:>6}{cells}    {who[2]:<15}")
    return "\n".join(lines) + "\n"


def _cells(view: View, seen: Seen, task: Task | None, use: bool, memory: bool) -> list[object]:
    busy = task is not None and not seen.device.mig_mode and seen.reading.util > 0
    share: list[object] = [seen.reading.util, seen.reading.memory_util] if busy else [NONE, NONE]
    held: list[object] = [seen.device.held(task, view.at), 0] if task is not None else [NONE, NONE]
    return [*(share + [NONE] * 4 if use else ()), *(held if memory else ())]


def _heading(stamp: str, row: int, names: list[object]) -> str:
    return f"#{_names(stamp, row)} {('gpu', 'Idx')[row]}" + "".join(f"{name!s:>7}" for name in names) + " "


def _names(stamp: str, row: int) -> str:
    """Return the heading of the date and the time that ``-o DT`` asks for."""
    words = {"D": ("Date", "YYYYMMDD"), "T": ("Time", "HH:MM:SS")}
    return "".join(f"{words[letter][row]:<9}" for letter in "DT" if letter in stamp)


def _moment(stamp: str, at: datetime) -> str:
    forms = {"D": "%Y%m%d", "T": "%H:%M:%S"}
    return "".join(f" {at.strftime(forms[letter])}" for letter in "DT" if letter in stamp)
