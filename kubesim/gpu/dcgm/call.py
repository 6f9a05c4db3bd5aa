"""What dcgmi is asked for: options, the devices that are meant, and refusals."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesim.gpu.dcgm.boxes import Node, as_json, tree
from kubesim.gpu.dcgm.engine import ALL_GPUS, Engine, Group
from kubesim.gpu.smi.view import Seen, View

BAD_PARAMETER, GENERIC, NOT_CONFIGURED, NOT_CONNECTED = 255, 253, 251, 235
BAD_PARAMETER_TEXT = "Bad parameter passed to function"
NO_GROUP = "The Group is not found"
HINT = "Error: Required argument missing. For complete USAGE and HELP type: dcgmi --help"


class Refused(Exception):
    """What is asked for cannot be done: the text, and the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Call:
    """What was asked for: the subsystem and its options, values by option."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    def given(self, *names: str) -> bool:
        """Whether one of these options stands there."""
        return any(name in self.options for name in names)

    def value(self, *names: str, default: str = "") -> str:
        """Return the value of the first of these options."""
        return next((self.options[name] for name in names if name in self.options), default)


def parse(argv: list[str]) -> Call:
    """Return what a command line asks for; a word that follows an option is its value."""
    call, last = Call(""), ""
    for word in argv:
        if word.startswith("-") and not word[1:].isdecimal():
            last, mark, value = word.partition("=")
            call.options[last] = value if mark else ""
        elif last and not call.options[last]:
            call.options[last] = word
        elif not call.name:
            call.name = word
    return call


def group_of(call: Call, engine: Engine) -> tuple[int, Group]:
    """Return the group that is asked about, with its number. Raises Refused."""
    word = call.value("-g", "--group", default=str(ALL_GPUS))
    number = ALL_GPUS if word == "all_gpus" else int(word) if word.isdecimal() else -1
    if number not in engine.groups:
        raise Refused(
            f"Error: Unable to retrieve information about group {word}. Return: {NO_GROUP}.", NOT_CONFIGURED
        )
    return number, engine.groups[number]


def members(call: Call, view: View, engine: Engine) -> list[Seen]:
    """Return the devices that are asked about: by ``-i``, or of a group; those that are lost, too."""
    if ids := call.value("-i", "--gpuid", "--gpu-id"):
        return devices(view, ids)
    gpus = group_of(call, engine)[1].gpus
    return [item for item in view.all() if gpus is None or item.number in gpus]


def devices(view: View, ids: str) -> list[Seen]:
    """Return devices by their numbers. Raises Refused."""
    known = {str(item.number): item for item in view.all()}
    words = [word.strip().removeprefix("gpu:") for word in ids.split(",")]
    if any(word not in known for word in words):
        raise Refused(f"Error: parsing for GPUs failed. Error: {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
    return [known[word] for word in words]


def shown(call: Call, head: list[str], nodes: list[Node], left: int, right: int) -> str:
    """Return a tree, as JSON where that is asked for."""
    return as_json(head, nodes) if call.given("-j", "--json") else tree(head, nodes, left, right)
