"""ps, kill and pgrep: the processes of a machine."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.hostside import OWN_PIDS
from kubesim.shell.machine import Process, Tool, Use
from kubesim.shell.signals import NAMES, number
from kubesim.shell.tools import kit
from kubesim.shell.tools.dates import _clock
from kubesim.shell.tools.users import name_of

BUSY = 0.5
"""Cores from which a process is seen running, in threads."""


class Shifted:
    """A process of a container as its node numbers it."""

    def __init__(self, inner: Process) -> None:
        self.inner = inner
        self.pid, self.parent, self.group = inner.pid + OWN_PIDS, inner.parent + OWN_PIDS, inner.group + OWN_PIDS

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


async def ps(process: Process) -> int:
    """Show processes."""
    words = process.argv[1:]
    flags = "".join(word.lstrip("-") for word in words if "=" not in word and word not in ("-o",))
    machine = process.machine
    rows: list[Any] = sorted(machine.processes.values(), key=lambda each: each.pid)
    if machine.host is not None and machine.shares_processes:
        rows = [*await machine.host.processes(), *(Shifted(each) for each in rows if each.pid > 1)]
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
        self.each = each
        use = getattr(each, "use", Use)()
        self.seconds, self.busy = use.seconds, use.cores > BUSY
        self.vsz, self.rss = use.reserved >> 10, use.memory >> 10
        self.cpu = _tenths(use.seconds / max(process.machine.now() - each.started.timestamp(), 1.0))
        self.mem = _tenths(min(use.memory / process.machine.memory, 0.999))

    @property
    def minutes(self) -> str:
        return f"{int(self.seconds) // 60}:{int(self.seconds) % 60:02d}"

    @property
    def hours(self) -> str:
        whole = int(self.seconds)
        return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"

    def state(self, process: Process) -> str:
        first = "T" if self.each.stopped else "R" if self.each is process or self.busy else "S"
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
                f"{name_of(process.view, each.view.uid):<8} {each.pid:7d} {used.cpu:>4} {used.mem:>4} {used.vsz:6d} "
                f"{used.rss:5d} {tty:<8} {used.state(process):<4} {each.started:%H:%M} {used.minutes:>6} "
                f"{_command(each)}"
            )
            await process.write(line[:wide] + "\n")
    elif "f" in flags:
        await process.write("UID          PID    PPID  C STIME TTY          TIME CMD\n")
        for each in rows:
            tty, used = "pts/0" if each.terminal else "?", _Used(process, each)
            share = min(int(float(used.cpu)), 99)
            line = (
                f"{name_of(process.view, each.view.uid):<8} {each.pid:7d} {each.parent:7d} {share:2d} "
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


async def _ps_columns(process: Process, rows: list[Any], words: list[str]) -> int:
    spec = ""
    for at, word in enumerate(words):
        if word.startswith("-") and word.endswith("o") and at + 1 < len(words):
            spec += "," + words[at + 1]
        elif word.startswith("-o"):
            spec += "," + word[2:]
    columns = [piece for piece in spec.split(",") if piece]
    titles = {
        "pid": "PID",
        "ppid": "PPID",
        "cmd": "CMD",
        "args": "COMMAND",
        "comm": "COMMAND",
        "user": "USER",
        "stat": "STAT",
        "etime": "ELAPSED",
        "%cpu": "%CPU",
        "%mem": "%MEM",
        "rss": "RSS",
        "tty": "TT",
        "pcpu": "%CPU",
        "pmem": "%MEM",
    }
    wide = {
        "pid": 7,
        "ppid": 7,
        "%cpu": 4,
        "%mem": 4,
        "pcpu": 4,
        "pmem": 4,
        "rss": 5,
        "vsz": 6,
        "etime": 11,
        "time": 8,
    }
    heads = [
        titles.get(name.partition("=")[0], name.upper()) if "=" not in name else name.partition("=")[2]
        for name in columns
    ]
    names = [name.partition("=")[0] for name in columns]
    table = [heads] if any(heads) else []
    for each in rows:
        used = _Used(process, each)
        values = {
            "pid": str(each.pid),
            "ppid": str(each.parent),
            "cmd": _command(each),
            "args": _command(each),
            "comm": each.name,
            "user": name_of(process.view, each.view.uid),
            "stat": used.state(process),
            "rss": str(used.rss),
            "vsz": str(used.vsz),
            **dict.fromkeys(("%cpu", "pcpu"), used.cpu),
            **dict.fromkeys(("%mem", "pmem"), used.mem),
            "time": used.hours,
            "tty": "?",
            "etime": _clock(process.machine.now() - each.started.timestamp())[3:],
        }
        table.append([values.get(name, "0.0") for name in names])
    for row in table:
        cells = [
            f"{cell:>{wide[name]}}" if name in wide else f"{cell:<8}" for cell, name in zip(row, names, strict=True)
        ]
        await process.write(" ".join(cells).rstrip() + "\n")
    return 0


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
            elif pid not in process.machine.processes:
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
    for each in list(process.machine.processes.values()):
        text = " ".join(each.argv)[:1000] if "f" in opts else each.name
        hit = pattern.fullmatch(text) if "x" in opts else pattern.search(text)
        if hit and each is not process:
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
