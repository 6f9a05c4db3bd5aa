"""Preview of an Xid: its effect in each layer, from the one table of Xids, before anything is injected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faults.xids import Xid, cuda_errors, recovery_action, xids

COMBINED, LOG, CUDA, HANG = "combined", "log", "cuda", "hang"
OF_DEVICE = (COMBINED, HANG)
"""The layers in which a fault damages the GPU itself."""
GPU = "nvidia.com/gpu"
NVML_ERRORS = {10: "NVML_ERROR_TIMEOUT", 15: "NVML_ERROR_GPU_IS_LOST", 16: "NVML_ERROR_RESET_REQUIRED"}
VICTIMS = {
    "all": "Every process on the GPU dies with it.",
    "one": "The process that caused it dies; others go on.",
    "none": "No running process dies of it.",
}
REPAIRS = {
    "reset": "resets the GPU",
    "reboot": "reboots the node",
    "people": "asks people for help, since it has no repair for this",
}
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""Those that NVIDIA's device plugin ignores."""
GUIDE_ERRORS = {
    43: "The guide names 702 (launch timed out), which CUDA's headers keep for GPUs with a display's time limit.",
    74: "The guide names 217 (no peer access), which by CUDA's headers is of devices that cannot reach each other.",
}
"""The Xids for which we follow CUDA's headers and not the user guide of GPU fault injection."""
NOT_SHOWN = "Nothing: this layer is not chosen."
NO_SERIAL = "<serial number>"


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """A GPU as the driver names it. ``bus`` without the function: ``0000:04:00``."""

    index: int
    bus: str = ""
    uuid: str = ""
    serial: str = ""

    @property
    def bus_or_words(self) -> str:
        """Return its PCI address, or a placeholder where that is not known."""
        return self.bus or f"<address of GPU {self.index}>"


@dataclass(frozen=True, slots=True)
class Effect:
    """A layer's share: a sentence, and the exact words that can be read there."""

    layer: str
    text: str
    lines: tuple[str, ...] = ()


def preview(code: int, layers: str, gpu: GpuFacts, allocatable: int) -> list[Effect]:
    """Return what an Xid will do, layer by layer; ``allocatable`` is how many GPUs the node offers now."""
    xid = xids()[code]
    in_log, in_cuda, in_device = layers != CUDA, layers != LOG, layers == COMBINED
    return [
        Effect("Kernel log", *(_log(xid, gpu, in_device) if in_log else (NOT_SHOWN,))),
        Effect("CUDA", *(_cuda(xid) if in_cuda else (NOT_SHOWN,))),
        Effect("nvidia-smi", _nvml(xid) if in_device else NOT_SHOWN),
        Effect("DCGM", *(_dcgm(xid, gpu) if in_device else (NOT_SHOWN,))),
        Effect("Node", _node(xid, allocatable) if in_device else f"Goes on to offer {allocatable} GPUs."),
        Effect("NVSentinel", _sentinel(xid) if in_log else "Sees nothing: it reads the kernel log."),
    ]


TROUBLES = {
    "throttle": "The hardware halves its clocks, as for a power brake.",
    "overheat": "It is as hot as where it slows itself down.",
    "memory_pressure": "A process of the node holds nearly all memory that was free.",
    "compute_overload": "A process of the node keeps it busy.",
}


def trouble_in_short(effect: str) -> str:
    """Return what a trouble without an Xid does; empty for an unknown one."""
    return TROUBLES.get(effect, "")


def in_short(xid: Xid, layers: str) -> str:
    """Return an Xid's effect in these layers in one or two sentences."""
    if layers == LOG:
        return "Pods keep running."
    victims = VICTIMS[xid.victims] if layers != HANG else "Processes on the GPU wait for it and never return."
    if layers == CUDA or not takes_gpu_away(xid):
        return victims
    return f"{victims} The node offers one GPU less."


def kernel_lines(xid: Xid, gpu: GpuFacts) -> Iterator[str]:
    """Yield the driver's lines in order: those of the Xid, of what follows from it, and Xid 154 at the end."""
    for one in (xid, *(xids()[code] for code in xid.follow)):
        yield from (_line(one, text, gpu) for _, text in one.lines)
    if xid.recovery:
        new = f"0x{xid.recovery:x} ({recovery_action(xid.recovery)})"
        yield f"NVRM: Xid (PCI:{gpu.bus_or_words}): 154, GPU recovery action changed from 0x0 (None) to {new}"


def _line(xid: Xid, text: str, gpu: GpuFacts) -> str:
    bus, serial = gpu.bus_or_words, gpu.serial or NO_SERIAL
    said = text.format(function=f"{bus}.0", gpu=gpu.index, serial=serial, row="0x…")
    if said.startswith("NVRM:"):
        return said
    process = "pid=…, name=…, " if xid.process else ""
    return f"NVRM: Xid (PCI:{bus}): {xid.code}, {process}{said}"


def _log(xid: Xid, gpu: GpuFacts, in_device: bool) -> tuple[str, tuple[str, ...]]:
    named = " pid and name are those of a process on the GPU; without one the driver leaves them out." * xid.process
    victims = " A line of Xid 45 follows for each process that dies." * (xid.victims == "all" and in_device)
    return f"In dmesg and journalctl -k, in this order.{named}{victims}", tuple(kernel_lines(xid, gpu))


def _cuda(xid: Xid) -> tuple[str, tuple[str, ...]]:
    text = " ".join(filter(None, (VICTIMS[xid.victims], GUIDE_ERRORS.get(xid.code))))
    return text, (_error("running process", xid.running), _error("new process", xid.new))


def _error(who: str, code: int) -> str:
    if not code:
        return f"{who}: no error"
    known = cuda_errors()[code]
    return f"{who}: {code} {known['runtime']} / {known['driver'] or '–'}: {known['text']}"


def _nvml(xid: Xid) -> str:
    if not xid.nvml:
        return "Goes on to show the GPU as usable."
    return f"NVML answers {xid.nvml} ({NVML_ERRORS.get(xid.nvml, 'an error')}) for this GPU."


def _dcgm(xid: Xid, gpu: GpuFacts) -> tuple[str, tuple[str, ...]]:
    labels = f'gpu="{gpu.index}",err_code="{xid.err_code}",err_msg="{xid.err_msg}"'
    health = {"none": "does not count it", "warning": "warns", "failure": "fails"}[xid.health]
    text = "At its next poll. The gauge keeps the first Xid until the GPU is reset or the node boots."
    return f"{text} DCGM's health watch {health}.", (f"DCGM_FI_DEV_XID_ERRORS{{{labels},…}} {xid.code}",)


def _node(xid: Xid, allocatable: int) -> str:
    if not takes_gpu_away(xid):
        return f"Goes on to offer {allocatable} GPUs: the device plugin passes over Xids of applications."
    return f"{GPU} goes from {allocatable} to {max(allocatable - 1, 0)}: the device plugin marks the GPU unhealthy."


def takes_gpu_away(xid: Xid) -> bool:
    """Return whether the device plugin marks the GPU unhealthy: all Xids but those that applications cause."""
    return xid.code not in APPLICATION_XIDS


def _sentinel(xid: Xid) -> str:
    path = xid.sentinel
    if not path.cordons:
        return f"Where it is installed: writes an event with the action {path.action}, and does not cordon the node."
    repair = f"with the action {path.action}, {REPAIRS[path.repair]}"
    return f"Where it is installed: cordons the node, drains it and, {repair}."
