"""The command line of dcgmi: subsystems, and whether the host engine is to be reached."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.gpu.dcgm import diagnose, pages
from kubesim.gpu.dcgm.call import NOT_CONNECTED, Call, Refused, parse
from kubesim.gpu.smi.view import View

LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "unix:///tmp/nv-hostengine", "localhost:5555", "127.0.0.1:5555"})
UNREACHABLE = (
    "Error: unable to establish a connection to the specified host: {}\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
)
USAGE = """\
Usage: dcgmi [--host IP] subsystem
       dcgmi -v

 Subsystems Available:
    diag        System Validation/Diagnostic: -r 1-4 [-i ID] [-g GROUP] [-v]
    health      Health Monitoring: -s a|p|n|m|t|i|c | -f | -c [-g GROUP]
    discovery   Discover GPUs on the system: -l
    nvlink      Displays NvLink link statuses: -s
    dmon        Stats Monitoring of GPUs: -e FIELDS [-i ID] [-c COUNT] [-d MILLISECONDS] | -l
"""


Page = Callable[[Call, View], str | tuple[str, int]]


def run(view: View, argv: list[str]) -> tuple[str, int]:
    """Return what an invocation prints and its exit status."""
    if argv[:1] in (["-v"], ["--vv"], ["--version"]):
        return f"dcgmi  version: {diagnose.VERSION}\n", 0
    call = parse(argv)
    if call.name not in _PAGES:
        return ("ERROR: Invalid subsystem.\n\n" if call.name else "") + USAGE, 0 if call.given("-h", "--help") else 1
    if call.given("-j", "--json"):
        return "PARSE ERROR: Argument: -j\n             Couldn't find match for argument\n", 1
    host = call.value("--host", default="localhost")
    if host not in LOCAL or view.board.mismatched or not view.board.loaded:
        return UNREACHABLE.format(host), NOT_CONNECTED
    try:
        out = _PAGES[call.name](call, view)
    except Refused as error:
        return f"{error}\n", error.status
    return out if isinstance(out, tuple) else (out, 0)


def pace(argv: list[str]) -> tuple[float, int]:
    """Return the seconds between two passes of ``dmon`` and how many there are (0: no end); (0, 1) of other pages."""
    call = parse(argv)
    if call.name != "dmon" or not call.given("-e", "--field-id"):
        return 0.0, 1
    delay, count = call.value("-d", "--delay", default="1000"), call.value("-c", "--count", default="0")
    return max(float(delay) / 1000, 0.1) if delay.isdecimal() else 1.0, int(count) if count.isdecimal() else 0


_PAGES: dict[str, Page] = {
    "discovery": pages.discovery,
    "health": pages.health,
    "nvlink": pages.nvlink,
    "dmon": pages.dmon,
    "diag": pages.diag,
}
