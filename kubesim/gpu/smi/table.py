"""The page that plain ``nvidia-smi`` prints (driver branches 550 to 580)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.gpu.devices import Task
from kubesim.gpu.mig import Instance, apertures, jpegs, multiprocessors
from kubesim.gpu.products import driver
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View, chosen, texts

WIDTH = 89
_RULE = "+-----------------------------------------+------------------------+----------------------+"
_MIG_RULE = "+------------------+----------------------------------+-----------+-----------------------+"
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
    lines += ["", *_mig(view, seen), *_processes(view, seen)]
    return "\n".join(lines) + "\n"


def _device(seen: Seen) -> list[str]:
    device, reading = seen.device, seen.reading
    memory = f"{reading.used}MiB / {device.product.memory:>6}MiB"
    power = f"{reading.power:.0f}W / {device.power_limit:>4.0f}W"
    util = NOT_AVAILABLE if device.mig_mode else f"{reading.util}%"
    settings = device.settings
    ecc = "On" if device.mig_mode else str(device.state.ecc.uncorrected[0])
    return [
        f"| {seen.number:>3}  {device.product.name:<31}{_on(settings.persistence):<3} |"
        f" {device.pci_address:>18} Off | {ecc:>20} |",
        f"| N/A  {reading.temperature:>3}C    {reading.performance:<3} {power:>22} |"
        f" {memory:>22} | {util:>7} {settings.compute_mode:>12} |",
        f"|{'':41}|{'':24}| {seen.mig:>20} |",
    ]


def _on(value: bool) -> str:
    return "On" if value else "Off"


def _mig(view: View, seen: list[Seen]) -> list[str]:
    rows = [row for each in seen for row in _instances(view, each)]
    if not any(each.device.mig_mode for each in seen):
        return []
    empty = f"|{'  No MIG devices found':<{WIDTH}}|"
    return [texts()["devices"], *(rows or [empty, _END]), ""]


def _instances(view: View, seen: Seen) -> list[str]:
    lines: list[str] = []
    for number, item in enumerate(seen.cut):
        lines += [*_instance(view, seen, number, item), _MIG_RULE]
    return lines


def _instance(view: View, seen: Seen, number: int, item: Instance) -> list[str]:
    product = seen.device.product
    used = seen.device.used(view.at, item.id) + item.own_mib
    sms = multiprocessors(product, item.profile.slices)
    copy, decoders, ofas = item.profile.copy_engines, item.profile.decoders, item.profile.ofas
    engines = f"{copy:>3}{0:>4}{decoders:>5}{ofas:>5}{jpegs(product, item.profile):>5}"
    return [
        f"|{seen.number:>3}{item.id:>5}{0:>4}{number:>4}  |{used:>16}MiB / {item.profile.memory_mib:>5}MiB    "
        f"|{sms:>3}{seen.device.state.ecc.uncorrected[0]:>7} |{engines} |",
        f"|{'':18}|{0:>16}MiB / {apertures(product, item):>5}MiB    |{'':11}|{'':23}|",
    ]


def _processes(view: View, seen: list[Seen]) -> list[str]:
    rows = [_process(view, each, task) for each in seen for task in view.tasks(each)]
    return [texts()["processes"], *(rows or [f"|{'  No running processes found':<{WIDTH}}|"]), _END]


def _process(view: View, seen: Seen, task: Task) -> str:
    instance = NOT_AVAILABLE if task.instance is None else str(task.instance)
    compute = NOT_AVAILABLE if task.instance is None else "0"
    name = task.name if len(task.name) <= 36 else "..." + task.name[-33:]
    memory = f"{seen.device.held(task, view.at)}MiB"
    return f"|{seen.number:>5} {instance:>5} {compute:>4} {task.pid:>15}{'C':>7}   {name:<36}{memory:>10} |"
