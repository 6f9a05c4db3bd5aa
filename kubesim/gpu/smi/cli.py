"""The command line of nvidia-smi: which page an invocation asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kubesim.gpu.mig import MigError
from kubesim.gpu.products import driver
from kubesim.gpu.smi import details, instances, monitor, query, table, topology
from kubesim.gpu.smi.view import NONE_FOUND, View

NO_PERMISSION = 4
LOST_STATUS = 255
MISMATCH_STATUS = 18
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {version}\n"
_LONG = re.compile(r"--(query-gpu|query-compute-apps|format|id|loop|loop-ms|display|filename)(?:=(.*))?$", re.S)
_BAD_COMBINATION = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"
_HELP_HINT = "Please run 'nvidia-smi --help' for help.\n"


@dataclass
class Call:
    """What was asked for."""

    page: str = "table"
    only: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    fields: str = ""
    options: query.Options = field(default_factory=query.Options)
    csv: bool = False
    words: list[str] = field(default_factory=list)
    loop_s: float = 0.0
    """Seconds between two passes; 0 for one pass only."""
    passes: int = 0
    """How many passes; 0 for no end."""
    file: str = ""
    value: str = ""


class BadUsage(Exception):
    """An option that nvidia-smi refuses; the message is its own."""


def parse(argv: list[str]) -> Call:
    """Return what ``argv`` (without the program's name) asks for. Raises BadUsage."""
    if argv and argv[0] in ("topo", "mig", "nvlink", "pmon", "dmon"):
        return _subcommand(argv)
    call, rest = Call(), list(argv)
    while rest:
        _option(call, rest.pop(0), rest)
    if call.fields and not call.csv:
        raise BadUsage('"--format=" must be specified when using "--query-..." options.\n')
    return call


def run(view: View, call: Call) -> tuple[str, int]:
    """Return what is printed and the exit status of one pass."""
    if call.page == "help":
        return HELP, 0
    if view.board.mismatched:
        return MISMATCH.format(version=".".join(view.board.library.split(".")[:2])), MISMATCH_STATUS
    if not view.board.devices or (view.owner and not view.all()):
        return NONE_FOUND + "\n", 6
    if (lost := view.lost()) and call.page not in ("list", "reset"):
        return "\n".join(lost) + "\n", LOST_STATUS
    try:
        return _PAGES[call.page](view, call)
    except (query.UnknownField, details.UnknownSection) as error:
        return f"{error}\n", 2


def _option(call: Call, word: str, rest: list[str]) -> None:
    if match := _LONG.match(word):
        _long(call, match[1], match[2] if match[2] is not None else _value(word, rest))
    elif word in _FLAGS:
        call.page = _FLAGS[word]
    elif word in _SHORT:
        _long(call, _SHORT[word], _value(word, rest))
    elif word in ("-l", "--loop"):
        call.loop_s = float(rest.pop(0)) if rest and rest[0].isdecimal() else 5.0
    elif word in _SETTERS:
        call.page, call.value = _SETTERS[word], _value(word, rest)
    else:
        raise BadUsage(_BAD_COMBINATION)


def _long(call: Call, name: str, value: str) -> None:
    match name:
        case "query-gpu":
            call.page, call.fields = "query", value
        case "query-compute-apps":
            call.page, call.fields = "apps", value
        case "format":
            words = [word.strip() for word in value.split(",")]
            call.csv = "csv" in words
            call.options = query.Options("noheader" not in words, "nounits" not in words)
        case "id":
            call.only += value.split(",")
        case "display":
            call.sections += value.split(",")
        case "filename":
            call.file = value
        case _:
            call.loop_s = _seconds(value) / (1000 if name == "loop-ms" else 1)


def _value(word: str, rest: list[str]) -> str:
    if not rest:
        raise BadUsage(f'Option "{word}" is missing its value.\n\n{_HELP_HINT}')
    return rest.pop(0)


def _seconds(value: str) -> float:
    if not value.isdecimal() or not int(value):
        raise BadUsage(f'Invalid value "{value}" for the loop interval.\n\n{_HELP_HINT}')
    return float(value)


def _subcommand(argv: list[str]) -> Call:
    name, words = argv[0], argv[1:]
    call = Call(page=name, words=words)
    for index, word in enumerate(words[:-1]):
        if word in ("-i", "--id", "-gi"):
            (call.only if word != "-gi" else call.sections).extend(words[index + 1].split(","))
    if name in ("dmon", "pmon"):
        call.loop_s, call.passes = 1.0, _passes(words)
    return call


def _passes(words: list[str]) -> int:
    following = words[words.index("-c") + 1 :] if "-c" in words else ["0"]
    if not following or not following[0].isdecimal():
        raise BadUsage('Option "-c" needs a number.\n')
    return int(following[0])


def _list(view: View, call: Call) -> tuple[str, int]:
    lines = view.lost()
    for seen in view.present():
        lines.append(f"GPU {seen.number}: {seen.device.product.name} (UUID: {seen.device.uuid})")
        lines += [
            f"  MIG {item.profile.name:<12} Device {number:>2}: (UUID: {item.uuid})"
            for number, item in enumerate(sorted(seen.instances, key=lambda item: item.id))
        ]
    return "\n".join(lines) + "\n", 0


def _topo(view: View, call: Call) -> tuple[str, int]:
    if {"-m", "--matrix"} & set(call.words):
        return topology.matrix(view), 0
    if "-p2p" in call.words and call.words[-1] in ("r", "w", "n", "a", "p"):
        return topology.peers(view, call.words[-1]), 0
    return "Please specify one of the options of 'nvidia-smi topo -h'.\n", 2


def _nvlink(view: View, call: Call) -> tuple[str, int]:
    names = {"--status": "-s", "--errorcounters": "-e", "--capabilities": "-c"}
    asked = next((word for word in (names.get(each, each) for each in call.words) if word in names.values()), "")
    if not asked:
        return "Please specify one of the options of 'nvidia-smi nvlink -h'.\n", 2
    return topology.links(view, call.only, asked), 0


def _mig(view: View, call: Call) -> tuple[str, int]:
    words = call.words
    if "-lgip" in words:
        return instances.profiles(view, call.only)
    if "-lgipp" in words:
        return instances.placements(view, call.only)
    if "-lgi" in words:
        return instances.instances(view, call.only)
    if "-lci" in words:
        return instances.compute_instances(view, call.only)
    if view.owner:
        return "Insufficient Permissions\n", NO_PERMISSION
    if "-cgi" in words:
        return instances.create(view, call.only, words[words.index("-cgi") + 1] if words[-1] != "-cgi" else "")
    if "-dgi" in words or "-dci" in words:
        return ("", 0) if "-dci" in words else instances.destroy(view, call.only, call.sections)
    return "Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.\n", 2


def _switch(view: View, call: Call) -> tuple[str, int]:
    if view.owner:
        return "Unable to enable MIG Mode: Insufficient Permissions\n", NO_PERMISSION
    out = ""
    for seen in query.chosen(view, call.only):
        on, address = call.value == "1", seen.device.pci_address
        try:
            view.board.set_mig(seen.device.index, on, view.at)
        except MigError as error:
            return f"Unable to {'enable' if on else 'disable'} MIG Mode for GPU {address}: {error}\n", 19
        out += f"{'Enabled' if on else 'Disabled'} MIG Mode for GPU {address}\n"
    return out + "All done.\n", 0


def _persist(view: View, call: Call) -> tuple[str, int]:
    if view.owner:
        return "Unable to set persistence mode: Insufficient Permissions\n", NO_PERMISSION
    out = ""
    for seen in query.chosen(view, call.only):
        seen.device.persistence = call.value == "1"
        out += (
            f"{'En' if seen.device.persistence else 'Dis'}abled persistence mode for GPU {seen.device.pci_address}.\n"
        )
    return out + "All done.\n", 0


def _compute(view: View, call: Call) -> tuple[str, int]:
    mode = _COMPUTE_MODES.get(call.value) or next((m for m in _COMPUTE_MODES.values() if m == call.value.title()), "")
    if not mode or mode == "Exclusive_Thread":
        return f"Invalid compute mode: {call.value}\n", 2
    if view.owner:
        return "Unable to set the compute mode: Insufficient Permissions\n", NO_PERMISSION
    out = ""
    for seen in query.chosen(view, call.only):
        seen.device.compute_mode = mode.replace("Exclusive_Process", "E. Process")
        out += f"Set compute mode to {mode.upper()} for GPU {seen.device.pci_address}.\n"
    return out + "All done.\n", 0


def _version(view: View, call: Call) -> tuple[str, int]:
    version, cuda = driver().version, driver().cuda
    rows = (("NVIDIA-SMI", version), ("NVML", version.rsplit(".", 1)[0]), ("DRIVER", version), ("CUDA", cuda))
    return "".join(f"{name + ' version':<20}: {value}\n" for name, value in rows), 0


def _reset(view: View, call: Call) -> tuple[str, int]:
    if view.owner:
        return "GPU Reset couldn't run because of insufficient permissions.\n", NO_PERMISSION
    out = ""
    for seen in [item for item in view.all() if not call.only or str(item.number) in call.only]:
        address = seen.device.pci_address
        try:
            view.board.reset(seen.device.index, view.at)
        except MigError as error:
            reason = "GPU is lost" if seen.device.trouble.lost else "is currently in use by one or more processes"
            return f"GPU {address} could not be reset: {reason} ({error}).\n", 19
        out += f"GPU {address} was successfully reset.\n"
    return out + "All done.\n", 0


_FLAGS = {
    "-L": "list", "--list-gpus": "list", "-q": "details", "--query": "details", "-h": "help", "--help": "help",
    "-r": "reset", "--gpu-reset": "reset", "--version": "version",
}  # fmt: skip
_SETTERS = {
    "-pm": "persist", "--persistence-mode": "persist", "-mig": "switch", "--multi-instance-gpu": "switch",
    "-c": "compute", "--compute-mode": "compute",
}  # fmt: skip
_COMPUTE_MODES = {"0": "Default", "1": "Exclusive_Thread", "2": "Prohibited", "3": "Exclusive_Process"}
_SHORT = {"-i": "id", "-d": "display", "-f": "filename", "-lms": "loop-ms"}
_PAGES: dict[str, Callable[[View, Call], tuple[str, int]]] = {
    "table": lambda view, call: (table.page(view), 0),
    "details": lambda view, call: (details.page(view, call.sections, call.only), 0),
    "query": lambda view, call: (query.gpus(view, call.fields, call.options, call.only), 0),
    "apps": lambda view, call: (query.apps(view, call.fields, call.options, call.only), 0),
    "list": _list,
    "topo": _topo,
    "nvlink": _nvlink,
    "mig": _mig,
    "switch": _switch,
    "persist": _persist,
    "reset": _reset,
    "compute": _compute,
    "version": _version,
    "dmon": monitor.devices,
    "pmon": monitor.processes,
}
HELP = """\
NVIDIA System Management Interface -- v580.95.05

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print usage information and exit.
    -L,   --list-gpus           Display a list of GPUs connected to the system.
    -i,   --id=                 Target a specific GPU.
    -f,   --filename=           Log to a specified file, rather than to stdout.
    -l,   --loop=               Probe until Ctrl+C at specified second interval.
    -lms, --loop-ms=            The same, in milliseconds.
    -q,   --query               Display GPU info.
    -d,   --display=            Display only selected information: MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER,
                                CLOCK, COMPUTE, PIDS, PERFORMANCE, PAGE_RETIREMENT, ENCODER_STATS, ROW_REMAPPER.
    --query-gpu=                Information about GPU; needs --format=csv[,noheader][,nounits].
    --query-compute-apps=       List of currently active compute processes, in the same way.
    -pm   0|1                   Set persistence mode.
    -mig  0|1                   Set MIG mode.
    -r    --gpu-reset           Reset the GPU.
    -c    MODE                  Set compute mode: 0 DEFAULT, 2 PROHIBITED, 3 EXCLUSIVE_PROCESS.
    --version                   Print versions.
    dmon | pmon [-c N]          Follow devices or processes, a line each second.
    topo -m                     Display the connections between the devices.
    topo -p2p r|w|n|a|p         Display which devices reach each other.
    nvlink -s|-e|-c             Display the state, the errors or the capabilities of the NVLinks.
    mig  -lgip|-lgi|-cgi|-dgi   List and change GPU instances.
"""
