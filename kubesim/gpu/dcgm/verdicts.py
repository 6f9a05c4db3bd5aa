"""Verdicts of DCGM's health watches on a device, system by system, and of the checks of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.gpu.smi.view import Seen

SYSTEMS = {
    "p": "PCIe",
    "n": "NVLINK",
    "m": "Memory",
    "s": "SM",
    "i": "InfoROM",
    "t": "Thermal",
    "c": "Power",
    "d": "Driver",
}
"""The letters of ``health -s`` with the names of systems (``a``: all)."""
DRAIN = "Drain the GPU and reset it or reboot the node."
WARNING, FAILURE = "Warning", "Failure"
DEVASTATING = {
    46: "Driver", 48: "", 62: "Driver", 74: "", 79: "", 95: "Memory", 119: "", 120: "", 140: "Memory",
}  # fmt: skip
"""Xids that are an incident by themselves; empty where another verdict tells of them."""
WARNED = frozenset({31, 32, 43, 63, 94})
"""Xids of which the memory's watch only warns."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One incident: of which system, how bad, and in what words."""

    system: str
    verdict: str
    text: str


def troubles(item: Seen) -> list[Trouble]:
    """Return what is wrong with a device."""
    state, number, found = item.reading.state, item.number, list[Trouble]()
    if state.trouble.lost:
        found.append(Trouble("Driver", FAILURE, f"GPU {number} has fallen off the bus. Reboot the node."))
    if state.trouble.stalled:
        text = f"GPU {number} fault may have left the OS in an inconsistent state. Recovery action: 2 (NODE_REBOOT)."
        found.append(Trouble("Driver", FAILURE, text))
    if state.ecc.uncorrected[0]:
        text = f"Detected {state.ecc.uncorrected[0]} volatile double-bit ECC error(s) in GPU {number}. {DRAIN}"
        found.append(Trouble("Memory", FAILURE, text))
    if state.remap.pending:
        text = f"GPU {number} had memory errors and row remappings are pending. Reset the GPU or reboot the node."
        found.append(Trouble("Memory", WARNING, text))
    if state.remap.failed:
        text = f"GPU {number} had uncorrectable memory errors and row remapping failed. Contact the vendor."
        found.append(Trouble("Memory", FAILURE, text))
    for link in sorted(state.trouble.links_down):
        text = f"GPU {number}'s NvLink link {link} is currently down. Check DCGM and system logs for errors."
        found.append(Trouble("NVLINK", FAILURE, text))
    if state.trouble.hot:
        found.append(Trouble("Thermal", WARNING, f"Detected clocks event due to thermal violation in GPU {number}."))
    if system := DEVASTATING.get(state.xid, ""):
        found.append(Trouble(system, FAILURE, f"Detected XID {state.xid} for GPU {number}. {DRAIN}"))
    if state.xid in WARNED:
        found.append(Trouble("Memory", WARNING, f"Detected XID {state.xid} for GPU {number}."))
    return found


def worst(found: list[Trouble]) -> str:
    """Return the verdict of several incidents together."""
    verdicts = {trouble.verdict for trouble in found}
    return FAILURE if FAILURE in verdicts else WARNING if verdicts else "Healthy"
