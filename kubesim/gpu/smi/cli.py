"""The command line of nvidia-smi: which page an invocation asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from kubesim import data
from kubesim.gpu.products import driver
from kubesim.gpu.smi import query, report, setters, table, topology
from kubesim.gpu.smi.view import NONE_FOUND, NoDevices, View

LOST_STATUS = 255
NONE_STATUS = 6
MISMATCH_STATUS, NOT_LOADED_STATUS = 18, 9
NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {version}\n"
_MIG = {
    "-lgip", "-lgi", "-lci", "-cgi", "-dgi", "-dci", "--list-gpu-instance-profiles", "--list-gpu-instances",
    "--list-compute-instances", "--create-gpu-instance", "--destroy-gpu-instance", "--destroy-compute-instance",
}  # fmt: skip
BAD_COMBINATION = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"
_HELP_HINT = "Please run 'nvidia-smi --help' for help.\n"


@dataclass
class Call:
    """What was asked for."""

    page: str = "table"
    only: list[str] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    switch: str = ""
    """Which ``--query-...``, with its ``fields``."""
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

    @property
    def heads(self) -> int:
        """How many lines are printed in the first pass only."""
        return 2 if self.page in ("dmon", "pmon") else int(bool(self.switch) and self.options.header)


class BadUsage(Exception):
    """An option that nvidia-smi refuses; the message is its own."""


def parse(argv: list[str]) -> Call:
    """Return what ``argv`` (without the program's name) asks for. Raises BadUsage."""
    if argv and argv[0] in usage().subcommands and {"-h", "--help"} & set(argv):
        return Call(page="help", value=argv[0])
    if argv and argv[0] in ("topo", "mig", "nvlink"):
        return _subcommand(argv)
    if argv and argv[0] in ("dmon", "pmon"):
        return _monitor(argv)
    call, rest = Call(), list(argv)
    while rest:
        _option(call, rest.pop(0), rest)
    if call.switch and not call.csv:
        raise BadUsage('"--format=" must be specified when using "--query-..." options.\n')
    return call


def run(view: View, call: Call) -> tuple[str, int]:
    """Return what is printed and the exit status of one pass."""
    if call.page == "help":
        return usage().subcommands.get(call.value) or usage().help.format(version=driver().version), 0
    if call.page == "properties":
        return query.switches()[call.value].help, 0
    if not view.board.loaded:
        return NOT_LOADED, NOT_LOADED_STATUS
    if view.board.mismatched:
        return MISMATCH.format(version=".".join(view.board.library.split(".")[:2])), MISMATCH_STATUS
    if not view.board.devices or (view.owner and not view.all()):
        return NONE_FOUND + "\n", NONE_STATUS
    if (lost := view.lost(call.only)) and call.page not in ("list", "reset"):
        return "\n".join(lost) + "\n", LOST_STATUS
    try:
        return _PAGES[call.page](view, call)
    except NoDevices as error:
        return f"{error}\n", NONE_STATUS
    except (query.UnknownField, report.UnknownSection) as error:
        return f"{error}\n", 2


def _option(call: Call, word: str, rest: list[str]) -> None:
    name, mark, value = word.removeprefix("--").partition("=")
    long = name if word.startswith("--") else usage().short.get(word, "")
    if long in ("loop", "l"):
        given = value if mark else rest.pop(0) if rest and rest[0].isdecimal() else "5"
        call.loop_s = _seconds(given)
    elif long in usage().flags and not mark:
        _flag(call, long)
    elif long in usage().valued:
        _valued(call, long, value if mark else _value(word, rest))
    else:
        raise BadUsage(BAD_COMBINATION)


def _flag(call: Call, name: str) -> None:
    if name.startswith("help-query-"):
        call.page, call.value = "properties", name.removeprefix("help-query-")
    else:
        call.page = {"query": "details", "list-gpus": "list", "gpu-reset": "reset"}.get(name, name)
        if name in setters.SETTERS:
            call.page, call.words = "set", [name]


def _valued(call: Call, name: str, value: str) -> None:
    if name in setters.SETTERS:
        call.page, call.words, call.value = "set", [name], value
        return
    match name:
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
        case "loop-ms":
            call.loop_s = _seconds(value) / 1000
        case _:
            call.page, call.switch, call.fields = "query", name.removeprefix("query-"), value


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
        if word in ("-i", "--id"):
            call.only += words[index + 1].split(",")
    return call


def _monitor(argv: list[str]) -> Call:
    call, rest = Call(page=argv[0], loop_s=1.0, value="puc" if argv[0] == "dmon" else "u"), argv[1:]
    while rest:
        word = rest.pop(0)
        value = _value(word, rest)
        match word:
            case "-c" | "--count" if value.isdecimal():
                call.passes = int(value)
            case "-d" | "--delay" if value.isdecimal() and int(value):
                call.loop_s = float(value)
            case "-i" | "--id":
                call.only += value.split(",")
            case "-s" | "--select" if set(value) <= set(table.columns()):
                call.value = value
            case "-f" | "--filename":
                call.file = value
            case _:
                raise BadUsage(f"Invalid value for option {word}. Run 'nvidia-smi {argv[0]} -h' for help.\n")
    return call


def _list(view: View, call: Call) -> tuple[str, int]:
    lines = view.lost()
    for seen in view.present():
        lines.append(f"GPU {seen.number}: {seen.device.product.name} (UUID: {seen.device.uuid})")
    return "\n".join(lines) + "\n", 0


def _topo(view: View, call: Call) -> tuple[str, int]:
    if {"-m", "--matrix"} & set(call.words):
        return topology.matrix(view), 0
    return "Please specify one of the options of 'nvidia-smi topo -h'.\n", 2


def _nvlink(view: View, call: Call) -> tuple[str, int]:
    names = {"--status": "-s", "--errorcounters": "-e"}
    asked = next((word for word in (names.get(each, each) for each in call.words) if word in names.values()), "")
    if not asked:
        return "Please specify one of the options of 'nvidia-smi nvlink -h'.\n", 2
    return topology.links(view, call.only, asked), 0


def _mig(view: View, call: Call) -> tuple[str, int]:
    """Answer as where no device is in MIG mode: simulated devices never are."""
    if _MIG & {*call.words}:
        return "No MIG-enabled devices found.\n", NONE_STATUS
    return "Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.\n", 2


def _version(view: View, call: Call) -> tuple[str, int]:
    version, cuda = driver().version, driver().cuda
    nvml = version.rsplit(".", 1)[0]
    rows = (
        ("NVIDIA-SMI version", version),
        ("NVML version", nvml),
        ("DRIVER version", version),
        ("CUDA Version", cuda),
    )
    return "".join(f"{name:<20}: {value}\n" for name, value in rows), 0


_PAGES: dict[str, Callable[[View, Call], tuple[str, int]]] = {
    "table": lambda view, call: (table.page(view, call.only), 0),
    "details": lambda view, call: (report.page(view, call.sections, call.only), 0),
    "query": lambda view, call: (query.answer(view, call.switch, call.fields, call.options, call.only), 0),
    "list": _list,
    "topo": _topo,
    "nvlink": _nvlink,
    "mig": _mig,
    "set": lambda view, call: setters.run(view, call.words[0], call.value, call.only),
    "reset": lambda view, call: setters.reset(view, call.only),
    "version": _version,
    "dmon": lambda view, call: (table.devices(view, call.value, call.only), 0),
    "pmon": lambda view, call: (table.processes(view, call.value, call.only), 0),
}


@dataclass(frozen=True, slots=True)
class Usage:
    """Options that stand alone, those with a value, the short ones' long names, and the helps (``usage.yaml``)."""

    flags: frozenset[str]
    valued: frozenset[str]
    short: dict[str, str]
    help: str
    subcommands: dict[str, str]


@cache
def usage() -> Usage:
    """Return what the command line knows."""
    read = data.table(__file__, "usage.yaml")
    short = {f"-{also}": name for kind in ("flags", "valued") for name, also in read[kind].items() if also}
    return Usage(frozenset(read["flags"]), frozenset(read["valued"]), short, read["help"], read["subcommands"])
