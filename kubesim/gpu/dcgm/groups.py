"""``dcgmi group``: named sets of devices."""

from __future__ import annotations

from kubesim.gpu.dcgm.boxes import Node
from kubesim.gpu.dcgm.call import (
    BAD_PARAMETER,
    BAD_PARAMETER_TEXT,
    NO_GROUP,
    NOT_CONFIGURED,
    Call,
    Refused,
    devices,
    group_of,
    shown,
)
from kubesim.gpu.dcgm.engine import Engine, Group
from kubesim.gpu.smi.view import View


def group(call: Call, view: View, engine: Engine) -> str:
    """List groups, make and remove them, and change whom they have."""
    if call.given("-c", "--create"):
        return _create(call, view, engine)
    if call.given("-d", "--delete"):
        word = call.value("-d", "--delete")
        if not word.isdecimal() or engine.groups.pop(int(word), None) is None:
            raise Refused(f"Error: Cannot destroy group {word}. Return: {NO_GROUP}.", NOT_CONFIGURED)
        return f"Successfully removed group {word}\n"
    if call.given("-g", "--group"):
        return _change(call, view, engine)
    found = [Node(str(number), below=_about(number, each, view)) for number, each in sorted(engine.groups.items())]
    return shown(call, ["GROUPS", f"{len(found)} groups found."], [Node("Groups", below=found)], 20, 60)


def _create(call: Call, view: View, engine: Engine) -> str:
    name, ids = call.value("-c", "--create"), call.value("-a", "--add")
    if not name:
        raise Refused(f"Error: Cannot create group {name}. Return: {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
    every = [item.number for item in view.all()]
    gpus = [item.number for item in devices(view, ids)] if ids else every if call.given("--default") else []
    out = f'Successfully created group "{name}" with a group ID of {engine.create(name, gpus)}\n'
    return out + ("Add to group operation successful.\n" if ids else "")


def _change(call: Call, view: View, engine: Engine) -> str:
    number, known = group_of(call, engine)
    adds = call.given("-a", "--add")
    if not adds and not call.given("-r", "--remove"):
        return shown(call, ["GROUP INFO"], _about(number, known, view), 20, 60)
    for item in devices(view, call.value("-a", "--add", "-r", "--remove")):
        word, where = ("add", "into") if adds else ("remove", "in")
        if known.gpus is None or (item.number in known.gpus) == adds:
            why = "already in the group" if adds else "not part of the group"
            raise Refused(
                f"Error: Unable to perform {word} of GPU {item.number} {where} group {number}. "
                f"Return: {BAD_PARAMETER_TEXT}.\nThe GPU was not found or is {why}.",
                BAD_PARAMETER,
            )
        known.gpus = sorted({*known.gpus, item.number}) if adds else [g for g in known.gpus if g != item.number]
    return f"{'Add to' if adds else 'Remove from'} group operation successful.\n"


def _about(number: int, known: Group, view: View) -> list[Node]:
    gpus = [item.number for item in view.all()] if known.gpus is None else known.gpus
    entities = ", ".join(f"GPU {each}" for each in gpus) or "None"
    return [Node("Group ID", str(number)), Node("Group Name", known.name), Node("Entities", entities)]
