"""ps, kill and pgrep: the processes of a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kubesim.shell.machine import Process, Tool
from kubesim.shell.signals import NAMES, number
from kubesim.shell.tools import kit
from kubesim.shell.tools.dates import _clock
from kubesim.shell.tools.hosts import seen
from kubesim.shell.tools.users import name_of

BUSY = 0.5
"""Cores from which a process is seen running, in threads."""


FLAGS = re.compile(r"-?[AaedfFlyxuwTHcjm]*")
OTHER_FLAGS = re.compile(r"-[AacdeFfHjLlMmNnOTVwxyZ]+")
OF_USERS = ("-u", "-U", "-G", "-g", "-t", "-s", "U", "t", "-O", "k")
LONG = ("no-headers", "no-heading", "headers", "cols", "columns", "width", "lines", "rows", "deselect", "info",
        "version", "help", "context", "cumulative", "format", "user", "User", "group", "Group", "tty",
        "sid")  # fmt: skip
"""Options of the real one that change nothing here; ``OF_USERS`` are followed by a value."""
COLUMN_FLAG = re.compile(r"-?[AaedfFlyxuwTHcjm]*o(.*)", re.S)
PICKED = re.compile(r"(?:-?p|-q|--pid=|--ppid=|-C)(.*)", re.S)


@dataclass
class Asked:
    """What a command line of ps asks for: letters, columns, whose (``--ppid``, ``-C``, ``-p``), the order."""

    flags: str = ""
    columns: list[str] = field(default_factory=list)
    picked: dict[str, set[str]] = field(default_factory=dict)
    order: str = ""
    forest: bool = False
    wrong: str = ""
    """Its error about a word that it does not know."""


def _read(words: list[str]) -> Asked:
    asked, rest = Asked(), iter(words)
    for word in rest:
        if word == "--forest":
            asked.forest = True
        elif word.startswith("--sort"):
            asked.order = word.partition("=")[2] or next(rest, "")
        elif word in ("--ppid", "--pid"):
            asked.picked.setdefault(word, set()).update(next(rest, "").split(","))
        elif word in OF_USERS:
            next(rest, "")
        elif FLAGS.fullmatch(word):
            asked.flags += word.lstrip("-") + ("-" if word.startswith("-") else "")
        elif (found := COLUMN_FLAG.fullmatch(word)) is not None and not word.startswith("--"):
            asked.flags += word[: word.index("o")].lstrip("-")
            asked.columns += [piece for piece in (found[1] or next(rest, "")).split(",") if piece]
        elif (found := PICKED.fullmatch(word)) is not None:
            key = word[: len(word) - len(found[1])].rstrip("=").lstrip("-")
            kind = {"p": "--pid", "q": "--pid", "pid": "--pid", "ppid": "--ppid", "C": "-C"}[key]
            asked.picked.setdefault(kind, set()).update((found[1] or next(rest, "")).split(","))
        elif word.replace(",", "").isdecimal():
            asked.picked.setdefault("--pid", set()).update(word.split(","))
        else:
            asked.wrong = asked.wrong or _wrong(word)
    asked.forest = asked.forest or "H" in asked.flags or ("f" in asked.flags and "-" not in asked.flags)
    return asked


def _wrong(word: str) -> str:
    """Return what ps says of a word that nothing here knows; empty where the real one does."""
    if word.startswith("--"):
        return "" if word[2:].partition("=")[0] in LONG else "unknown gnu long option"
    if word.startswith("-"):
        return "" if OTHER_FLAGS.fullmatch(word) else "unsupported SysV option"
    return "unsupported option (BSD syntax)"


def _picks(asked: Asked, each: Any) -> bool:
    """Whether somebody who names processes means this one."""
    values = {"--pid": str(each.pid), "--ppid": str(each.parent), "-C": each.name[:15]}
    return not asked.picked or any(values[kind] in names for kind, names in asked.picked.items())


def _sorted(rows: list[Any], asked: Asked, process: Process) -> list[Any]:
    """Return the processes as ``--sort`` wants them: the last key first, for sorting is stable."""
    known = kit.table()["ps"]["columns"]
    for key in reversed([key for key in asked.order.split(",") if key.lstrip("+-") in known]):
        form = known[key.lstrip("+-")][1]
        rows.sort(key=lambda each: _comparable(form.format(_Used(process, each))), reverse=key.startswith("-"))
    return rows


def _comparable(text: str) -> tuple[float, str]:
    return (float(text), "") if re.fullmatch(r"\d+(\.\d+)?", text) else (0.0, text)


def _tree(rows: list[Any]) -> tuple[list[Any], dict[int, str]]:
    """Return processes below their parents, and what stands before the command of each."""
    known, found, heads = {each.pid for each in rows}, [], {}

    def below(parent: Any, depth: int) -> None:
        for each in rows:
            if each.parent == parent.pid and each is not parent:
                place(each, depth)

    def place(each: Any, depth: int) -> None:
        found.append(each)
        heads[each.pid] = "    " * (depth - 1) + " \\_ " if depth else ""
        below(each, depth + 1)

    for each in rows:
        if each.parent not in known:
            place(each, 0)
    return found, heads


async def ps(process: Process) -> int:
    """Show processes."""
    asked = _read(process.argv[1:])
    busybox = process.program.flavour == "busybox"
    if asked.wrong and not busybox:
        await process.error(f"error: {asked.wrong}\n\n{kit.told('processes_usage')}")
        return 1
    rows = sorted(seen(process).values(), key=lambda each: each.pid)
    if busybox:
        return await _ps_busybox(process, rows, asked.columns)
    rows = _sorted([each for each in rows if _picks(asked, each)], asked, process)
    heads: dict[int, str] = {}
    if asked.forest:
        rows, heads = _tree(rows)
    if asked.columns:
        status = await _ps_columns(process, rows, asked.columns)
    else:
        status = await _ps_forms(process, rows, asked.flags + ("e" if asked.picked else ""), heads)
    return status if rows else 1


async def _ps_busybox(process: Process, rows: list[Any], columns: list[str]) -> int:
    """Show every process with its whole command, as only BusyBox' ps does without being asked."""
    if columns:
        return await _ps_columns(process, rows, columns)
    await process.write("PID   USER     TIME  COMMAND\n")
    for each in rows:
        whole = _Used(process, each).minutes
        await process.write(f"{each.pid:5d} {name_of(process.view, each.view.uid):<8} {whole:>5} {_command(each)}\n")
    return 0


class _Used:
    """What a process uses, as ps writes it; a process of a node uses nothing worth telling."""

    def __init__(self, process: Process, each: Any) -> None:
        self.each, self.current = each, getattr(each, "inner", each) is process
        use = each.use().of(each.name)
        self.seconds, self.busy = use.seconds, use.cores > BUSY
        self.kernel = each.argv[:1] != ["["] and _command(each).startswith("[")
        self.vsz: int = 0 if self.kernel else use.reserved >> 10
        self.rss: int = 0 if self.kernel else use.memory >> 10
        self.elapsed = process.machine.now() - each.started.timestamp()
        self.user = name_of(process.view, each.view.uid)
        self.cpu = _tenths(use.seconds / max(self.elapsed, 1.0))
        self.mem = _tenths(min(use.memory / process.machine.memory, 0.999))

        self.share = min(int(float(self.cpu)), 99)
        self.tty, self.command = "pts/0" if each.terminal else "?", _command(each)

    @property
    def cgroup(self) -> str:
        return str(getattr(self.each, "cgroup", "0::/")).strip()

    @property
    def start(self) -> str:
        return f"{self.each.started:%H:%M}" if self.elapsed < 86400 else f"{self.each.started:%b%d}"

    @property
    def elapsed_time(self) -> str:
        return _clock(self.elapsed)[3:]

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
        return (
            first + ("s" if self.each.pid == self.each.group and not self.kernel else "") + ("l" if self.busy else "")
        )


def _tenths(share: float) -> str:
    """Return a share of one in hundredths, with a tenth where there is room for it."""
    return f"{share * 100:.1f}" if share < 1 else f"{share * 100:.0f}"


def _command(each: Any) -> str:
    return " ".join(each.argv)[:200] or "{" + each.name + "}"


async def _ps_forms(process: Process, rows: list[Any], flags: str, heads: dict[int, str]) -> int:
    wide = process.tty(1).size[1] if process.tty(1) else 10_000  # type: ignore[union-attr]
    form = "user" if "u" in flags and "-" not in flags else "full" if "f" in flags else "short"
    title, row = kit.table()["ps"]["forms"][form]
    await process.write(title + "\n")
    everyone = form != "short" or any(flag in flags for flag in "eAax")
    for each in rows:
        if everyone or each.terminal is process.terminal:
            line = row.format(_Used(process, each), head=heads.get(each.pid, ""))
            await process.write(line[:wide] + "\n")
    return 0


async def _ps_columns(process: Process, rows: list[Any], columns: list[str]) -> int:
    known, chosen = kit.table()["ps"]["columns"], [re.sub(r":\d+", "", piece).partition("=") for piece in columns]
    for name, _, _ in chosen:
        if name not in known:
            await process.error(
                f'error: unknown user-defined format specifier "{name}"\n\n' + kit.told("processes_usage")
            )
            return 1
    heads = [head if equals else known[name][0] for name, equals, head in chosen]
    table = [heads] if any(heads) else []
    table += [[known[name][1].format(_Used(process, each)) for name, _, _ in chosen] for each in rows]
    widths = [(known[name] + ["<8"])[2] for name, _, _ in chosen]
    for row in table:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
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
            return await process.fail(f"invalid signal: {word}")
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
            status = await process.fail(f"({word}): No such process")
    return status


async def pgrep(process: Process) -> int:
    """Find processes by name, or with pkill signal them."""
    args = process.argv[1:]
    name = "TERM"
    if process.name == "pkill" and args and re.fullmatch(r"-(\d+|[A-Z]+)", args[0]):
        name = NAMES.get(number(args.pop(0)[1:]) or 15, "TERM")
    opts = await kit.options(process, argv=args)
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
