"""ps, kill and pgrep: the processes of a machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesim.shell.machine import Process, Tool
from kubesim.shell.signals import NAMES, number
from kubesim.shell.tools import kit
from kubesim.shell.tools.dates import _clock
from kubesim.shell.tools.hosts import seen
from kubesim.shell.tools.users import name_of

BUSY = 0.5
"""Cores from which a process is seen running, in threads."""


async def ps(process: Process) -> int:
    """Show processes."""
    words = process.argv[1:]
    flags = "".join(word.lstrip("-") for word in words if "=" not in word and word not in ("-o",))
    rows = sorted(seen(process).values(), key=lambda each: each.pid)
    if process.busybox:
        await process.write("PID   USER     TIME  COMMAND\n")
        for each in rows:
            await process.write(f"{each.pid:5d} {name_of(process.view, each.view.uid):<8}  0:00 {_command(each)}\n")
        return 0
    if "-o" in words or any(word.startswith("-o") for word in words):
        return await _ps_columns(process, rows, words)
    return await _ps_forms(process, rows, flags)


class _Used:
    """What a process uses, as ps writes it; a process of a node uses nothing worth telling."""

    def __init__(self, process: Process, each: Any) -> None:
        self.each, self.current = each, getattr(each, "inner", each) is process
        use = each.use()
        self.seconds, self.busy = use.seconds, use.cores > BUSY
        self.vsz, self.rss = use.reserved >> 10, use.memory >> 10
        self.elapsed = process.machine.now() - each.started.timestamp()
        self.user = name_of(process.view, each.view.uid)
        self.cpu = _tenths(use.seconds / max(self.elapsed, 1.0))
        self.mem = _tenths(min(use.memory / process.machine.memory, 0.999))

    @property
    def minutes(self) -> str:
        return f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02d}"

    @property
    def hours(self) -> str:
        whole = int(self.seconds)
        return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"

    @property
    def state(self) -> str:
        first = "T" if self.each.stopped else "R" if self.current or self.busy else "S"
        return first + ("s" if self.each.pid == self.each.group else "") + ("l" if self.busy else "")


def _tenths(share: float) -> str:
    """Return a share of one in hundredths, with a tenth where there is room for it."""
    return f"{share * 100:.1f}" if share < 1 else f"{share * 100:.0f}"


def _command(each: Any) -> str:
    return " ".join(each.argv)[:200] or "{" + each.name + "}"


async def _ps_forms(process: Process, rows: list[Any], flags: str) -> int:
    wide = process.tty(1).size[1] if process.tty(1) else 10_000  # type: ignore[union-attr]
    if "u" in flags and "-" not in flags:
        await process.write("USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n")
        for each in rows:
            tty, used = "pts/0" if each.terminal else "?", _Used(process, each)
            line = (
                f"{used.user:<8} {each.pid:7d} {used.cpu:>4} {used.mem:>4} {used.vsz:6d} "
                f"{used.rss:5d} {tty:<8} {used.state:<4} {each.started:%H:%M} {used.minutes:>6} "
                f"{_command(each)}"
            )
            await process.write(line[:wide] + "\n")
    elif "f" in flags:
        await process.write("UID          PID    PPID  C STIME TTY          TIME CMD\n")
        for each in rows:
            tty, used = "pts/0" if each.terminal else "?", _Used(process, each)
            share = min(int(float(used.cpu)), 99)
            line = (
                f"{used.user:<8} {each.pid:7d} {each.parent:7d} {share:2d} "
                f"{each.started:%H:%M} {tty:<8} {used.hours} {_command(each)}"
            )
            await process.write(line[:wide] + "\n")
    else:
        await process.write("    PID TTY          TIME CMD\n")
        everyone = any(flag in flags for flag in "eAax")
        for each in rows:
            if everyone or each.terminal is process.terminal:
                tty = "pts/0" if each.terminal else "?"
                await process.write(f"{each.pid:7d} {tty:<8} {_Used(process, each).hours} {each.name[:15]}\n")
    return 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``ps -o``; ``width`` is that of a number, which stands right."""

    title: str
    value: Callable[[_Used], str]
    width: int = 0


COLUMNS = {
    "pid": Column("PID", lambda used: str(used.each.pid), 7),
    "ppid": Column("PPID", lambda used: str(used.each.parent), 7),
    "cmd": Column("CMD", lambda used: _command(used.each)),
    "args": Column("COMMAND", lambda used: _command(used.each)),
    "comm": Column("COMMAND", lambda used: used.each.name),
    "user": Column("USER", lambda used: used.user),
    "stat": Column("STAT", lambda used: used.state),
    "rss": Column("RSS", lambda used: str(used.rss), 5),
    "vsz": Column("VSZ", lambda used: str(used.vsz), 6),
    "tty": Column("TT", lambda used: "?"),
    "time": Column("TIME", lambda used: used.hours, 8),
    "etime": Column("ELAPSED", lambda used: _clock(used.elapsed)[3:], 11),
    **dict.fromkeys(("%cpu", "pcpu"), Column("%CPU", lambda used: used.cpu, 4)),
    **dict.fromkeys(("%mem", "pmem"), Column("%MEM", lambda used: used.mem, 4)),
}


async def _ps_columns(process: Process, rows: list[Any], words: list[str]) -> int:
    names, heads = [], []
    for name, equals, head in (piece.partition("=") for piece in _asked(words)):
        names.append(name)
        heads.append(head if equals else COLUMNS[name].title if name in COLUMNS else name.upper())
    table = [heads] if any(heads) else []
    table += [[_cell(name, _Used(process, each)) for name in names] for each in rows]
    for row in table:
        cells = [_aligned(cell, name) for cell, name in zip(row, names, strict=True)]
        await process.write(" ".join(cells).rstrip() + "\n")
    return 0


def _asked(words: list[str]) -> list[str]:
    """Return the columns of ``-o a,b`` and ``-eo a,b`` and ``-oa,b``."""
    spec = ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-") and word.endswith("o"):
            spec += "," + following
        elif word.startswith("-o"):
            spec += "," + word[2:]
    return [piece for piece in spec.split(",") if piece]


def _cell(name: str, used: _Used) -> str:
    return COLUMNS[name].value(used) if name in COLUMNS else "0.0"


def _aligned(cell: str, name: str) -> str:
    width = COLUMNS[name].width if name in COLUMNS else 0
    return f"{cell:>{width}}" if width else f"{cell:<8}"


async def kill(process: Process) -> int:
    """Send a signal."""
    args, name = process.argv[1:], "TERM"
    if args[:1] == ["-l"]:
        await process.write(" ".join(NAMES.values()) + "\n")
        return 0
    if args[:1] and args[0].startswith("-") and len(args) > 1:
        word = args.pop(0)[1:]
        value = number(args.pop(0) if word == "s" else word)
        if value is None:
            return await process.fail(f"bad signal name '{word}'" if process.busybox else f"invalid signal: {word}")
        name = NAMES.get(value, "")
    status = 0
    for word in args:
        try:
            pid = int(word) if re.fullmatch(r"-?\d{1,9}", word) else 0
            if pid and name:
                process.machine.kill(pid, name)
            elif pid not in process.machine.all():
                raise KeyError(word)
        except KeyError:
            shown = f"can't kill pid {word}: No such process" if process.busybox else f"({word}): No such process"
            status = await process.fail(shown)
    return status


async def pgrep(process: Process) -> int:
    """Find processes by name, or with pkill signal them."""
    args = process.argv[1:]
    name = "TERM"
    if process.name == "pkill" and args and re.fullmatch(r"-(\d+|[A-Z]+)", args[0]):
        name = NAMES.get(number(args.pop(0)[1:]) or 15, "TERM")
    opts = await kit.options(process, "acflnoxu:P:v", {"full": "f", "list-name": "l", "exact": "x"}, argv=args)
    if not opts.args:
        await kit.usage(process, "no matching criteria specified")
    try:
        pattern = (
            re.compile(opts.args[0][:200])
            if re.fullmatch(r"[\w./ :=^$|-]*", opts.args[0])
            else re.compile(re.escape(opts.args[0]))
        )
    except re.error:
        return 2
    found = []
    for each in [*seen(process).values()]:
        text = " ".join(each.argv)[:1000] if "f" in opts else each.name
        hit = pattern.fullmatch(text) if "x" in opts else pattern.search(text)
        if hit and getattr(each, "inner", each) is not process:
            found.append(each)
    for each in found:
        if process.name == "pkill":
            each.signal(name, inside=True)
        elif "c" not in opts:
            shown = f" {' '.join(each.argv)}" if "a" in opts else f" {each.name}" if "l" in opts else ""
            await process.write(f"{each.pid}{shown}\n")
    if "c" in opts:
        await process.write(f"{len(found)}\n")
    return int(not found)


TOOLS: dict[str, Tool] = {"ps": ps, "kill": kill, "pgrep": pgrep, "pkill": pgrep}
