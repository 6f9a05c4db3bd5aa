"""The pages of dcgmi that need little: discovery, health, policy, configuration, modules, profiling, fields, diag."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.gpu.dcgm import diagnose
from kubesim.gpu.dcgm.boxes import Node, columns, tree, wrapped
from kubesim.gpu.dcgm.call import (
    BAD_PARAMETER,
    BAD_PARAMETER_TEXT,
    GENERIC,
    HINT,
    Call,
    Refused,
    group_of,
    members,
    shown,
)
from kubesim.gpu.dcgm.engine import HEALTH_SYSTEMS, Engine
from kubesim.gpu.dcgm.fields import FIELDS, INTERNAL
from kubesim.gpu.dcgm.verdicts import SYSTEMS, Trouble, troubles, worst
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View


def discovery(call: Call, view: View, engine: Engine) -> str:
    """List the devices, or with ``-c`` how MIG cuts them."""
    if call.given("-c", "--compute-hierarchy"):
        return _hierarchy(view)
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


def _hierarchy(view: View) -> str:
    rule, out = f"+{'-' * 19}+{'-' * 68}+", ""
    for number, item in enumerate(view.present()):
        node = Node(f"GPU {item.number}", f"GPU {item.device.uuid} (EntityID: {item.number})")
        for each, instance in enumerate(item.cut):
            compute = Node(f"CI {item.number}/{each}/0", f"Compute Instance (EntityID: {item.number * 8 + each})")
            text = f"GPU Instance (EntityID: {item.number * 8 + each})"
            node.below.append(Node(f"I {item.number}/{instance.id}", text, below=[compute]))
        box = tree(() if number else ("Instance Hierarchy",), [node], 20, 70)
        out += box.removeprefix(f"{rule}\n") if number else box
    return out


def health(call: Call, view: View, engine: Engine) -> str:
    """Set the watches, tell which are set, or tell what they say."""
    known = group_of(call, engine)[1]
    if call.given("-s", "--set"):
        letters = call.value("-s", "--set")
        if not letters or not set(letters) <= set(HEALTH_SYSTEMS):
            raise Refused(f"Error: Unable to set health watches. Return: {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
        known.health = "".join(SYSTEMS) if "a" in letters else letters
        return "Health monitor systems set successfully.\n"
    if call.given("-f", "--fetch"):
        nodes = [Node(name, "On" if letter in known.health else "Off") for letter, name in SYSTEMS.items()]
        return "Health monitor systems report\n" + shown(call, [], nodes, 18, 70)
    if not call.given("-c", "--check"):
        raise Refused(HINT, 1)
    if not known.health:
        raise Refused("Error: Health watches not enabled. Please enable watches. ", GENERIC)
    watched = {SYSTEMS[letter] for letter in known.health if letter in SYSTEMS}
    found = {
        item.number: [trouble for trouble in troubles(item) if trouble.system in watched]
        for item in members(call, view, engine)
    }
    nodes = [Node("Overall Health", worst([trouble for each in found.values() for trouble in each]))]
    bad = []
    for number, each in found.items():
        if each:
            errors = [_errors(system, each) for system in dict.fromkeys(trouble.system for trouble in each)]
            bad.append(Node(str(number), worst(each), below=[Node("Errors", below=errors)]))
    return shown(call, ["Health Monitor Report"], [*nodes, *([Node("GPU", below=bad)] if bad else [])], 28, 60)


def _errors(system: str, found: list[Trouble]) -> Node:
    """Return what is wrong with one system: its incidents together have the worst of their verdicts."""
    mine = [trouble for trouble in found if trouble.system == system]
    name = system if system == "Driver" else f"{system} system"
    return Node(name, worst(mine), wrapped(", ".join(trouble.text for trouble in mine), 52))


def policy(call: Call, view: View, engine: Engine) -> str:
    """Tell what counts as a violation, or set it."""
    known = group_of(call, engine)[1]
    if call.given("--set"):
        chosen = [text for flag, text in _CONDITIONS.items() if call.given(flag)]
        if not chosen:
            raise Refused(f"Error: Cannot set policy for remote node. Return: {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
        known.conditions = chosen
        return "Policy successfully set.\n"
    first, *more = known.conditions or ["None"]
    nodes = [
        Node("Violation conditions", first, more), Node("Isolation mode", "Manual"),
        Node("Action on violation", "None"), Node("Validation after action", "None"),
        Node("Validation failure action", "None"),
    ]  # fmt: skip
    return "Policy information\n" + shown(call, ["Policy Information", known.name], nodes, 30, 50)


_CONDITIONS = {
    "-e": "Double-bit ECC errors", "--eccerrors": "Double-bit ECC errors", "-p": "PCI errors and replays",
    "--pcierrors": "PCI errors and replays", "-n": "NVLink Errors", "--nvlinkerrors": "NVLink Errors",
    "-x": "XID error detected.", "--xiderrors": "XID error detected.",
}  # fmt: skip


def config(call: Call, view: View, engine: Engine) -> str:
    """Tell what is configured of the devices: what the engine was told to keep, and what is."""
    known, seen = group_of(call, engine)[1], members(call, view, engine)
    lines = []
    for name, get in _CONFIGURED.items():
        values = {str(get(item)) for item in seen}
        current = "****" if len(values) > 1 else min(values, default="Not Specified")
        lines.append(([name], ["Not Specified"], [current]))
    head = [known.name, f"Group of {len(seen)} GPUs"]
    return columns((30, 30, 30), ("Field", "Target", "Current"), lines, head)


_CONFIGURED: dict[str, Callable[[Seen], object]] = {
    "Compute Mode": lambda item: item.device.settings.compute_mode.replace("Default", "Unrestricted"),
    "ECC Mode": lambda item: "Enabled",
    "Sync Boost": lambda item: "Not Supported",
    "Memory Application Clock": lambda item: (item.device.settings.applications or _most(item))[0],
    "SM Application Clock": lambda item: (item.device.settings.applications or _most(item))[1],
    "Power Limit": lambda item: f"{item.device.power_limit:.0f}",
    "Power Profile": lambda item: "Not Specified",
}


def _most(item: Seen) -> tuple[int, int]:
    graphics, memory = item.device.product.clocks["most"]
    return memory, graphics


def fieldgroup(call: Call, view: View, engine: Engine) -> str:
    """List the field groups, those that the engine has made for itself."""
    out = f"{len(INTERNAL)} field groups found.\n"
    for number, (name, ids) in INTERNAL.items():
        lines = [", ".join(map(str, ids[start : start + 10])) for start in range(0, len(ids), 10)]
        commas = [f"{line}, " for line in lines[:-1]] + lines[-1:]
        nodes = [Node("ID", str(number)), Node("Name", name), Node("Field IDs", commas[0], commas[1:])]
        out += shown(call, ["FIELD GROUPS"], nodes, 20, 60)
    return out


def modules(call: Call, view: View, engine: Engine) -> str:
    """List the modules of the engine."""
    loaded = {"Core", "NvSwitch", "Profiling"} | (
        {"Health"} if any(g.health for g in engine.groups.values()) else set()
    )
    states = ["Loaded" if name in loaded else "Not loaded" for name in _MODULES]
    rows = [
        ([str(number)], [name], [state]) for number, (name, state) in enumerate(zip(_MODULES, states, strict=True))
    ]
    return columns((11, 20, 50), ("Module ID", "Name", "State"), rows, ["List Modules", "Status: Success"])


_MODULES = (
    "Core", "NvSwitch", "VGPU", "Introspection", "Health", "Policy", "Config", "Diag", "Profiling", "SysMon",
    "MnDiag",
)  # fmt: skip


def profile(call: Call, view: View, engine: Engine) -> str:
    """List the profiling counters, or let go of them for other tools."""
    if call.given("--pause", "--resume"):
        engine.profiling = call.given("--resume")
        return f"Successfully {'resumed' if engine.profiling else 'paused'} profiling.\n"
    if view.board.product.family == "turing":
        raise Refused(
            "Error: Unable to Get supported metric groups: Profiling is not supported for this group of GPUs or GPU.",
            GENERIC,
        )
    rows = [([each.group], [str(number)], [each.name]) for number, each in FIELDS.items() if each.group]
    return columns((16, 10, 54), ("Group.Subgroup", "Field ID", "Field Tag"), rows)


def dmon(call: Call, view: View, engine: Engine) -> str:
    """Show fields by number, a line for each device; with ``-l`` which there are."""
    if call.given("-l", "--list"):
        rows = "".join(f"{each.name:<52} {each.short:<14}{number}\n" for number, each in FIELDS.items())
        return f"{'_' * 75}\n{'Long Name':<53}{'Short Name':<14}Field ID\n{'_' * 75}\n{rows}"
    words = call.value("-e", "--field-id").split(",")
    if unknown := [word for word in words if not word.strip().isdecimal() or int(word) not in FIELDS]:
        numeric = unknown[0].strip().isdecimal()
        text = (
            f"Got invalid field ID. '{unknown[0]}'. See dcgm_fields.h for a list of valid field IDs."
            if numeric
            else (f"Expected numerical fieldId. Got '{unknown[0]}' instead.")
        )
        raise Refused(f"Error: {text}", BAD_PARAMETER)
    chosen = [FIELDS[int(word)] for word in words]
    lines = [f"{'#Entity':<16}" + "".join(f"{each.short:<14}" for each in chosen)]
    lines += [f"{'ID':<16}" + "".join(f"{each.unit:<14}" for each in chosen)]
    for item in members(call, view, engine):
        lost = item.device.trouble.lost or (not engine.profiling and any(each.group for each in chosen))
        cells = "".join(f"{NOT_AVAILABLE if lost else each.get(item.reading)!s:<14}" for each in chosen)
        lines.append(f"{f'GPU {item.number}':<16}{cells}")
    return "\n".join(lines) + "\n"


def diag(call: Call, view: View, engine: Engine) -> tuple[str, int]:
    """Run the diagnostics of a level."""
    level = diagnose.LEVELS.get(call.value("-r", "--run", default="1"))
    if level is None:
        raise Refused(f"Error: Unable to complete diagnostic. Return: (-1) : {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
    seen = members(call, view, engine)
    if call.given("-j", "--json"):
        return diagnose.document(seen, level)
    return diagnose.page(seen, level, verbose=call.given("-v", "--verbose"))
