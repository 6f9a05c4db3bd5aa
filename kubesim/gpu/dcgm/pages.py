"""The pages of dcgmi: discovery, groups, health, links, fields, diag."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kubesim import data
from kubesim.gpu.dcgm import diagnose
from kubesim.gpu.dcgm.call import (
    BAD_PARAMETER,
    BAD_PARAMETER_TEXT,
    GENERIC,
    HINT,
    Call,
    Node,
    Refused,
    columns,
    members,
    tree,
    wrapped,
)
from kubesim.gpu.dcgm.diagnose import Trouble, systems, troubles, worst
from kubesim.gpu.dcgm.engine import HEALTH_SYSTEMS
from kubesim.gpu.readings import Reading, find
from kubesim.gpu.smi.view import NOT_AVAILABLE, View


@dataclass(frozen=True, slots=True)
class Field:
    """One field; ``times``: what a share or an amount is multiplied by, None for a count."""

    name: str
    short: str
    at: str
    times: float | None = None
    unit: str = ""

    def get(self, reading: Reading) -> str:
        """Return what a device says."""
        value = find(reading, self.at)
        if self.times is not None:
            return f"{value * self.times:.3f}"
        return value.removeprefix("P") if isinstance(value, str) else str(round(value))


@cache
def fields() -> dict[int, Field]:
    """Return every field by its number."""
    return {number: Field(*row) for number, row in data.table(__file__, "fields.yaml").items()}


def discovery(call: Call, view: View) -> str:
    """List the devices."""
    rows = [
        ([str(item.number)], [
            f"Name: {item.device.product.name}", f"PCI Bus ID: {item.device.pci_address}",
            f"Device UUID: {item.device.uuid}",
        ])
        for item in view.present()
    ]  # fmt: skip
    out = f"{len(rows)} GPU{'s' * (len(rows) != 1)} found.\n"
    out += columns((8, 70), ("GPU ID", "Device Information"), rows, apart=True)
    out += "0 NvSwitches found.\n" + columns((11,), ("Switch ID",), ())
    out += "0 ConnectX found.\n" + columns((10,), ("ConnectX",), ())
    return out + "0 CPUs found.\n" + columns((8, 70), ("CPU ID", "Device Information"), ())


def health(call: Call, view: View) -> str:
    """Set the watches, tell which are set, or tell what they say."""
    known, asked = view.board.engine, members(call, view)
    if call.given("-s", "--set"):
        letters = call.value("-s", "--set")
        if not letters or not set(letters) <= set(HEALTH_SYSTEMS):
            raise Refused(f"Error: Unable to set health watches. Return: {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
        known.health = "".join(systems()) if "a" in letters else letters
        return "Health monitor systems set successfully.\n"
    if call.given("-f", "--fetch"):
        nodes = [Node(name, "On" if letter in known.health else "Off") for letter, name in systems().items()]
        return "Health monitor systems report\n" + tree([], nodes, 18, 70)
    if not call.given("-c", "--check"):
        raise Refused(HINT, 1)
    if not known.health:
        raise Refused("Error: Health watches not enabled. Please enable watches. ", GENERIC)
    watched = {systems()[letter] for letter in known.health if letter in systems()}
    found = {item.number: [trouble for trouble in troubles(item) if trouble.system in watched] for item in asked}
    nodes = [Node("Overall Health", worst([trouble for each in found.values() for trouble in each]))]
    bad = []
    for number, each in found.items():
        if each:
            errors = [_errors(system, each) for system in dict.fromkeys(trouble.system for trouble in each)]
            bad.append(Node(str(number), worst(each), below=[Node("Errors", below=errors)]))
    return tree(["Health Monitor Report"], [*nodes, *([Node("GPU", below=bad)] if bad else [])], 28, 60)


def _errors(system: str, found: list[Trouble]) -> Node:
    """Return what is wrong with one system: its incidents together have the worst of their verdicts."""
    mine = [trouble for trouble in found if trouble.system == system]
    name = system if system == "Driver" else f"{system} system"
    return Node(name, worst(mine), wrapped(", ".join(trouble.text for trouble in mine), 52))


def nvlink(call: Call, view: View) -> str:
    """Show which links are up."""
    if not call.given("-s", "--link-status"):
        raise Refused(HINT, 1)
    lines = ["+----------------------+", "|  NvLink Link Status  |", "+----------------------+", "GPUs:"]
    for item in view.present():
        down, count = item.device.trouble.links_down, item.device.product.nvlinks
        states = ["D" if number in down else "U" for number in range(count)]
        lines += [f"    gpuId {item.number}:", f"        {' '.join(states or ['_'])}"]
    lines += ["NvSwitches:", "    No NvSwitches found.", "", "Key: Up=U, Down=D, Disabled=X, Not Supported=_"]
    return "\n".join(lines) + "\n"


def dmon(call: Call, view: View) -> str:
    """Show fields by number, a line for each device; with ``-l`` which there are."""
    known = fields()
    if call.given("-l", "--list"):
        rows = "".join(f"{each.name:<52} {each.short:<14}{number}\n" for number, each in known.items())
        return f"{'_' * 75}\n{'Long Name':<53}{'Short Name':<14}Field ID\n{'_' * 75}\n{rows}"
    words = call.value("-e", "--field-id").split(",")
    if unknown := [word for word in words if not word.strip().isdecimal() or int(word) not in known]:
        text = f"Got invalid field ID. '{unknown[0]}'. See dcgm_fields.h for a list of valid field IDs."
        if not unknown[0].strip().isdecimal():
            text = f"Expected numerical fieldId. Got '{unknown[0]}' instead."
        raise Refused(f"Error: {text}", BAD_PARAMETER)
    chosen = [known[int(word)] for word in words]
    lines = [f"{'#Entity':<16}" + "".join(f"{each.short:<14}" for each in chosen)]
    lines += [f"{'ID':<16}" + "".join(f"{each.unit:<14}" for each in chosen)]
    for item in members(call, view):
        lost = item.device.trouble.lost
        cells = "".join(f"{NOT_AVAILABLE if lost else each.get(item.reading)!s:<14}" for each in chosen)
        lines.append(f"{f'GPU {item.number}':<16}{cells}")
    return "\n".join(lines) + "\n"


def diag(call: Call, view: View) -> tuple[str, int]:
    """Run the diagnostics of a level."""
    level = diagnose.LEVELS.get(call.value("-r", "--run", default="1"))
    if level is None:
        raise Refused(f"Error: Unable to complete diagnostic. Return: (-1) : {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
    seen = members(call, view)
    return diagnose.page(seen, level, verbose=call.given("-v", "--verbose"))
