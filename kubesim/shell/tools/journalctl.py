"""journalctl: what a node's kernel and services have said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import re2

from kubesim.gpu.xids import LEVELS, KernelLog
from kubesim.shell.hostside import HostSide
from kubesim.shell.journals import Entry, entries, kernel
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools.hosts import host_of
from kubesim.shell.tools.kit import Options, no_operands, options

FOLLOW_S = 1.0
FEW, MANY = 10, 1000
"""How many lines come before those that are followed, and how many -e and -n without a number show."""
SPANS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600,
         "d": 86400, "day": 86400, "w": 604800, "week": 604800}  # fmt: skip
LONGEST_S = 10**9
_RELATIVE = re.compile(r"([+-]?)\s*((?:\d{1,9}\s*[a-z]+\s*)+?)\s*(ago)?")
NO_ENTRIES = "-- No entries --\n"


class Wrong(ValueError):
    """An argument that journalctl does not take; the message is its own."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries are asked for."""

    since: datetime | None
    until: datetime | None
    levels: range
    pattern: Any
    names: list[str]

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is one of them."""
        if self.since and entry.at < self.since or self.until and entry.at > self.until:
            return False
        if entry.level not in self.levels or self.names and entry.name not in self.names:
            return False
        return self.pattern is None or self.pattern.search(entry.text) is not None


async def journalctl(process: Process) -> int:
    """Show the journal: the kernel's part (``-k``), that of units (``-u``), or with the node's root all of it."""
    opts = await options(process)
    await no_operands(
        process, [each for each in opts.args if "=" not in each], "Failed to add match '{}': Invalid argument"
    )
    side, access = host_of(process), process.machine.devices
    log = side.devices.log if side is not None else access.log if access is not None else None
    if log is None:
        await process.error("No journal files were found.\n")
        await process.write(NO_ENTRIES)
        return 0
    if "D" in opts:
        await process.write("Archived and active journals take up 61.7M in the file system.\n")
        return 0
    try:
        wanted = _wanted(opts, process.machine.clock.now())
    except Wrong as error:
        return await process.fail(str(error))
    return await _print(process, opts, wanted, side, log)


async def _print(process: Process, opts: Options, wanted: Wanted, side: HostSide | None, log: KernelLog) -> int:
    host = side.name if side is not None else access_name(process)

    async def read() -> list[Entry]:
        return [entry for entry in await _read(opts, side, log) if wanted.takes(entry)]

    def text(entry: Entry) -> str:
        return shown(entry, host, opts.get("o"), named="H" not in opts) + "\n"

    found = await read()
    seen, most = {*found}, _most(opts)
    chosen = found if most is None else found[-most:] if most else []
    await process.write("".join(map(text, reversed(chosen) if "r" in opts else chosen)))
    if not found and "f" not in opts and "q" not in opts:
        await process.write(NO_ENTRIES)
    while "f" in opts:
        await process.flush()
        await process.sleep(FOLLOW_S)
        for entry in [entry for entry in await read() if entry not in seen]:
            seen.add(entry)
            await process.write(text(entry))
    return int(not found and wanted.pattern is not None)


def access_name(process: Process) -> str:
    """Return the name of the node beneath a container that may read its log."""
    access = process.machine.devices
    return access.board.node if access is not None else process.machine.hostname


async def _read(opts: Options, side: HostSide | None, log: KernelLog) -> list[Entry]:
    """Return what there is of what is asked for: the kernel's lines, or those of units."""
    matched = [word.partition("=")[2] for word in opts.args if word.startswith("_SYSTEMD_UNIT=")]
    units = [name.removesuffix(".service") for name in [*opts.all("u"), *matched]]
    if side is None or "k" in opts:
        return [] if units else [*kernel(log)]
    known = [name for name in side.units if any(_matches(name, each) for each in units)]
    return await entries(side, known) if known or not units else []


def _matches(name: str, pattern: str) -> bool:
    """Whether a unit is meant by what ``-u`` says: a name, or a shell's pattern."""
    return re2.fullmatch(re2.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), name) is not None


def _most(opts: Options) -> int | None:
    """Return how many lines are shown; None for all."""
    if "n" not in opts:
        return FEW if "f" in opts else MANY if "e" in opts else None
    text = opts.get("n")
    return int(text) if text.isdecimal() and len(text) < 9 else None


def _wanted(opts: Options, now: datetime) -> Wanted:
    try:
        pattern = re2.compile(opts.get("g")) if "g" in opts else None
    except re2.error as error:
        raise Wrong(f'Bad pattern "{opts.get("g")}": invalid pattern') from error
    since, until = (moment(opts.get(flag), now) if flag in opts else None for flag in ("S", "U"))
    levels = _levels(opts.get("p")) if "p" in opts else range(8)
    return Wanted(since, until, levels, pattern, opts.all("t"))


def _levels(text: str) -> range:
    """Return the urgencies that ``-p`` names: one and all above it, or from .. to. Raises ``Wrong``."""
    names = {
        **{name: at for at, name in enumerate(LEVELS)},
        **{str(at): at for at in range(8)},
        "warning": 4,
        "error": 3,
    }
    first, dots, last = text.partition("..")
    if first not in names or dots and last not in names:
        raise Wrong(f"Unknown log level {text}")
    ends = sorted((names[first], names[last] if dots else 0))
    return range(ends[0], ends[1] + 1)


def moment(text: str, now: datetime) -> datetime:
    """Return the moment that ``--since`` or ``--until`` names. Raises ``Wrong``."""
    midnight, day = now.replace(hour=0, minute=0, second=0, microsecond=0), timedelta(days=1)
    named = {"now": now, "today": midnight, "yesterday": midnight - day, "tomorrow": midnight + day}
    if text in named:
        return named[text]
    if text[:1] == "@" and text[1:].isdecimal() and len(text) < 12:
        return datetime.fromtimestamp(int(text[1:]), UTC)
    found = _RELATIVE.fullmatch(text.strip())
    if found and (found[1] or found[3]):
        seconds = sum(int(number) * _span(word, text) for number, word in re.findall(r"(\d+)\s*([a-z]+)", found[2]))
        return now + timedelta(seconds=min(seconds, LONGEST_S) * (1 if found[1] == "+" else -1))
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M"):
        try:
            given = datetime.strptime(text.removesuffix(" UTC"), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return given if "%Y" in form else midnight.replace(hour=given.hour, minute=given.minute, second=given.second)
    raise Wrong(f"Failed to parse timestamp: {text}")


def _span(word: str, whole: str) -> int:
    """Return the seconds of a unit of time. Raises ``Wrong``."""
    unit = word if word in SPANS else word.removesuffix("s")
    if unit not in SPANS:
        raise Wrong(f"Failed to parse timestamp: {whole}")
    return SPANS[unit]


def shown(entry: Entry, host: str, form: str = "", *, named: bool = True) -> str:
    """Return an entry as journalctl prints it (``form``: its ``-o``)."""
    if form == "cat":
        return entry.text
    if form.startswith("json"):
        return _json(entry, host)
    stamp = STAMPS.get(form, STAMPS[""])(entry.at)
    number = f"[{entry.pid}]" if entry.pid else ""
    return f"{stamp} {f'{host} ' if named else ''}{entry.name}{number}: {entry.text}"


def _json(entry: Entry, host: str) -> str:
    fields = {"__REALTIME_TIMESTAMP": str(int(entry.at.timestamp() * 1e6)), "PRIORITY": str(entry.level)}
    fields |= {"_HOSTNAME": host, "SYSLOG_IDENTIFIER": entry.name, "MESSAGE": entry.text}
    fields |= {"_PID": str(entry.pid)} if entry.pid else {"_TRANSPORT": "kernel"}
    fields |= {"_SYSTEMD_UNIT": f"{entry.unit}.service" if entry.pid != 1 else "init.scope"} if entry.pid else {}
    return json.dumps(fields, separators=(",", ":"))


STAMPS: dict[str, Callable[[datetime], str]] = {
    "": lambda at: f"{at:%b %d %H:%M:%S}",
    "short-iso": lambda at: f"{at:%Y-%m-%dT%H:%M:%S}+0000",
    "short-precise": lambda at: f"{at:%b %d %H:%M:%S.%f}",
    "short-full": lambda at: f"{at:%a %Y-%m-%d %H:%M:%S} UTC",
    "short-unix": lambda at: f"{at.timestamp():.6f}",
}
"""Forms of ``-o`` and how they write a moment."""
TOOLS: dict[str, Tool] = {"journalctl": journalctl}
