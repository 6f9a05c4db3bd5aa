"""The page that plain ``nvidia-smi`` prints (driver branches 550 to 580)."""

from __future__ import annotations

from kubesim.gpu.devices import Task
from kubesim.gpu.mig import Instance
from kubesim.gpu.products import Product, driver
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
BAR1_MIB = 65535
_END = "+-----------------------------------------------------------------------------------------+"


def page(view: View) -> str:
    """Return the whole page."""
    title = f"NVIDIA-SMI {driver().version}"
    title = f"{title:<34}Driver Version: {driver().version}"
    title = f"{title:<65}CUDA Version: {driver().cuda}"
    lines = [view.at.strftime("%a %b %e %H:%M:%S %Y").ljust(31), _HEAD.format(title=f"{title:<87}")]
    for seen in view.present():
        lines += [*_device(seen), _RULE]
    lines += ["", *_mig(view), *_processes(view)]
    return "\n".join(lines) + "\n"


def _device(seen: Seen) -> list[str]:
    device, reading = seen.device, seen.reading
    memory = f"{reading.used + _driver_share(seen)}MiB / {device.product.memory:>6}MiB"
    power = f"{reading.power:.0f}W / {device.product.power['limit']:>4}W"
    util = NOT_AVAILABLE if device.mig_mode else f"{reading.util}%"
    ecc = "On" if device.mig_mode else str(device.state.ecc.uncorrected[0])
    return [
        f"| {seen.number:>3}  {device.product.name:<31}{_on(device.persistence):<3} |"
        f" {device.pci_address:>18} Off | {ecc:>20} |",
        f"| N/A  {reading.temperature:>3}C    {reading.performance:<3} {power:>22} |"
        f" {memory:>22} | {util:>7} {device.compute_mode:>12} |",
        f"|{'':41}|{'':24}| {seen.mig:>20} |",
    ]


def _driver_share(seen: Seen) -> int:
    """Return the MiB that the driver itself keeps where MIG has cut the device: its instances' own."""
    return sum(12 + 4 * item.profile.slices for item in seen.device.instances)


def _on(value: bool) -> str:
    return "On" if value else "Off"


def _mig(view: View) -> list[str]:
    rows = [row for seen in view.present() for row in _instances(view, seen)]
    if not any(seen.device.mig_mode for seen in view.present()):
        return []
    empty = f"|{'  No MIG devices found':<{WIDTH}}|"
    return [_MIG_HEAD, *(rows or [empty, _END]), ""]


def _instances(view: View, seen: Seen) -> list[str]:
    lines: list[str] = []
    for number, item in enumerate(sorted(seen.instances, key=lambda item: item.id)):
        lines += [*_instance(view, seen, number, item), _MIG_RULE]
    return lines


def _instance(view: View, seen: Seen, number: int, item: Instance) -> list[str]:
    used = seen.device.used(view.at, item.id) + 12 + 4 * item.profile.slices
    sms = multiprocessors(seen.device.product, item.profile.slices)
    copy, decoders = item.profile.copy_engines, item.profile.decoders
    return [
        f"|{seen.number:>3}{item.id:>5}{0:>4}{number:>4}  |{used:>16}MiB / {item.profile.memory_mib:>5}MiB    "
        f"|{sms:>3}{seen.device.state.ecc.uncorrected[0]:>7} |{copy:>3}{0:>4}{decoders:>5}{0:>5}{decoders:>5} |",
        f"|{'':18}|{0:>16}MiB / {BAR1_MIB:>5}MiB    |{'':11}|{'':23}|",
    ]


def multiprocessors(product: Product, slices: int) -> int:
    """Return how many streaming multiprocessors an instance of so many compute slices has."""
    return _MULTIPROCESSORS[product.family][slices]


def _processes(view: View) -> list[str]:
    rows = [_process(view, seen, task) for seen in view.present() for task in view.tasks(seen)]
    return [_PROCESS_HEAD, *(rows or [f"|{'  No running processes found':<{WIDTH}}|"]), _END]


def _process(view: View, seen: Seen, task: Task) -> str:
    instance = NOT_AVAILABLE if task.instance is None else str(task.instance)
    compute = NOT_AVAILABLE if task.instance is None else "0"
    name = task.name if len(task.name) <= 36 else "..." + task.name[-33:]
    memory = f"{seen.device.held(task, view.at)}MiB"
    return f"|{seen.number:>5} {instance:>5} {compute:>4} {task.pid:>15}{'C':>7}   {name:<36}{memory:>10} |"
