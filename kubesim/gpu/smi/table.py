"""The page that plain ``nvidia-smi`` prints (driver branches 550 to 580)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.gpu.devices import Task
from kubesim.gpu.mig import MEMORY_SLICES, Instance
from kubesim.gpu.products import MigProfile, Product, driver
from kubesim.gpu.smi.query import chosen
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

WIDTH = 89
_RULE = "+-----------------------------------------+------------------------+----------------------+"
_HEAD = """\
+-----------------------------------------------------------------------------------------+
| {title} |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|"""
_MIG_HEAD = """\
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|"""
_MIG_RULE = "+------------------+----------------------------------+-----------+-----------------------+"
_PROCESS_HEAD = """\
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|"""
_MULTIPROCESSORS = {
    "ampere": {1: 14, 2: 28, 3: 42, 4: 56, 7: 98},
    "hopper": {1: 16, 2: 32, 3: 60, 4: 64, 7: 132},
    "blackwell": {1: 18, 2: 36, 3: 70, 4: 74, 7: 148},
}
BAR1_MIB = {"turing": 256, "ada-lovelace": 32768, "blackwell": 262144}
"""MiB of the aperture through which the CPU sees a device's memory, 128 GiB where it is not named."""
CUT_BAR1 = 0.37749
"""The share of it that instances get, all eight memory slices together."""
_END = "+-----------------------------------------------------------------------------------------+"


def page(view: View, only: Iterable[str] = ()) -> str:
    """Return the whole page. Raises query.NoDevices."""
    seen = chosen(view, only)
    title = f"NVIDIA-SMI {driver().version}"
    title = f"{title:<34}Driver Version: {driver().version}"
    title = f"{title:<65}CUDA Version: {driver().cuda}"
    lines = [view.at.strftime("%a %b %e %H:%M:%S %Y").ljust(31), _HEAD.format(title=f"{title:<87}")]
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
    return [_MIG_HEAD, *(rows or [empty, _END]), ""]


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


def multiprocessors(product: Product, slices: int) -> int:
    """Return how many streaming multiprocessors an instance of so many compute slices has."""
    return _MULTIPROCESSORS[product.family][slices]


def bar1_mib(product: Product) -> int:
    """Return the size of the aperture through which the CPU sees a device's memory."""
    return 65536 if product.key == "A100-40GB" else BAR1_MIB.get(product.family, 131072)


def apertures(product: Product, item: Instance) -> int:
    """Return what an instance has of it, in MiB."""
    return int(bar1_mib(product) * CUT_BAR1 / MEMORY_SLICES * item.size)


def jpegs(product: Product, profile: MigProfile) -> int:
    """Return how many JPEG engines an instance has; an Ampere has but one in all."""
    return profile.ofas if product.family == "ampere" else profile.decoders


def _processes(view: View, seen: list[Seen]) -> list[str]:
    rows = [_process(view, each, task) for each in seen for task in view.tasks(each)]
    return [_PROCESS_HEAD, *(rows or [f"|{'  No running processes found':<{WIDTH}}|"]), _END]


def _process(view: View, seen: Seen, task: Task) -> str:
    instance = NOT_AVAILABLE if task.instance is None else str(task.instance)
    compute = NOT_AVAILABLE if task.instance is None else "0"
    name = task.name if len(task.name) <= 36 else "..." + task.name[-33:]
    memory = f"{seen.device.held(task, view.at)}MiB"
    return f"|{seen.number:>5} {instance:>5} {compute:>4} {task.pid:>15}{'C':>7}   {name:<36}{memory:>10} |"
