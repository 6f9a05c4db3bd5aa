"""What most tools need: options in getopt's manner, input files, lines."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, NoReturn

from kubesim import data as tables
from kubesim.clock import first
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.files import File
from kubesim.shell.handles import CHUNK, Handle, OpenFile
from kubesim.shell.machine import Process, Tool

phrases: tables.Reader[dict[str, str]] = tables.beside(__file__, "texts.yaml")
"""Return the texts of the tools; read with them, so that no program reads a file of this machine."""
LONGEST_LINE = 1 << 20
MOST_DATA = 32 << 20
MOST_COUNTED = 256 << 20
"""Who has read so much without an end in sight is taken to read for ever."""


@dataclass
class Options:
    """What the command line asked for: flags in their order with their values, and the other words."""

    given: list[tuple[str, str]] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    status: int = 0
    """1 after an input that could not be opened."""

    def __contains__(self, flag: str) -> bool:
        return any(name == flag for name, _ in self.given)

    def any(self, flags: str) -> bool:
        """Tell whether one of these flags was given."""
        return any(name in flags for name, _ in self.given if len(name) == 1)

    def get(self, flag: str, default: str = "") -> str:
        """Return the value of the last such flag."""
        return next((value for name, value in reversed(self.given) if name == flag), default)

    def all(self, flag: str) -> list[str]:
        """Return the values of every such flag."""
        return [value for name, value in self.given if name == flag]

    def last(self, flags: str) -> str:
        """Return the last given of these flags."""
        return next((name for name, _ in reversed(self.given) if name in flags and name), "")


def named(*tools: Tool) -> dict[str, Tool]:
    """Return tools by the names of their functions."""
    return {str(getattr(tool, "__name__", "")).rstrip("_"): tool for tool in tools}


async def options(process: Process, *, argv: list[str] | None = None, least: int = 0) -> Options:
    """Read a command line by what ``options.yaml`` knows of the program. Mistakes end the program."""
    known = _of(process)
    given = {key: known[key] for key in ("short", "long", "stop", "numbers", "values") if key in known}
    found = await parsed(process, argv=argv, **given)
    if len(found.args) < least:
        await usage(process, "missing operand")
    return found


@cache
def table() -> dict[str, dict[str, Any]]:
    """Return what is known of each program's command line."""
    rows: dict[str, dict[str, Any]] = tables.table(__file__, "options.yaml")
    return {name: {**rows["default"], **row} for name, row in rows.items()}


def told(name: str, /, **values: object) -> str:
    """Return a text of ``texts.yaml`` with its values."""
    return phrases()[name].format(**values)


def _of(process: Process) -> dict[str, Any]:
    return table().get(process.program.tool) or table()["default"]


def strict(name: str, tool: Tool) -> Tool:
    """Return a tool whose command line is held against the table first, where it reads it itself."""
    if not table().get(name, {}).get("checked"):
        return tool

    @wraps(tool)
    async def checked(process: Process) -> int:
        known = _of(process)
        long = {**known.get("long", {}), "help": "", "version": ""}
        found = await parsed(process, known["short"], long, stop=known.get("stop", False))
        first = "".join(found.args[:1])
        if first and first not in known.get("verbs", [first]):
            await process.error(f"No help topic for '{first}'\n")
            raise Leave(3)
        most = known.get("operands", len(found.args))
        if len(found.args) > most:
            word = found.args[most]
            await usage(process, f"unrecognized operand '{word}'", "extra", word=word)
        return await tool(process)

    return checked


async def parsed(
    process: Process,
    short: str,
    long: Mapping[str, str] | None = None,
    *,
    argv: list[str] | None = None,
    stop: bool = False,
    numbers: str = "",
    values: Mapping[str, tuple[str, str]] | None = None,
) -> Options:
    """Read a command line: ``short`` options as getopt has them, ``long`` names with their flags, ``=`` for a value.

    ``stop`` ends the options at the first other word; ``numbers`` is the flag that ``-5`` stands for; ``values`` has
    the patterns of flags' values, each with what is said of another. A wrong option ends the program.
    """
    found = Options()
    words = list(process.argv[1:] if argv is None else argv)
    while words:
        word = words.pop(0)
        if word == "--":
            found.args += words
            break
        if word.startswith("--"):
            await _long(process, found, word[2:], words, long or {})
        elif numbers and word[:1] == "-" and word[1:].isdecimal():
            found.given.append((numbers, word[1:]))
        elif process.name == "head" and word[:1] == "-" and word[1:2].isdecimal():
            rest = word[1:].lstrip("0123456789")
            await usage(process, f"invalid trailing option -- {rest[:1]}")
        elif len(word) > 1 and word[0] == "-":
            await _short(process, found, word[1:], words, short)
        else:
            found.args.append(word)
            if stop:
                found.args += words
                break
    for flag, (pattern, wrong) in (values or {}).items():
        for value in found.all(flag):
            if not re.fullmatch(pattern, value, re.ASCII):
                await refuse(process, wrong.format(value))
    return found


async def refuse(process: Process, text: str) -> NoReturn:
    """Say why a program does not do what it was asked, and end it."""
    raise Leave(await process.fail(text, _of(process)["status"]))


async def _short(process: Process, found: Options, flags: str, words: list[str], short: str) -> None:
    while flags:
        flag, flags = flags[0], flags[1:]
        at = short.find(flag)
        if at < 0 or flag == ":":
            await usage(process, f"invalid option -- '{flag}'", option=f"-{flag}", letter=flag)
        if short[at + 1 : at + 3] == "::":
            found.given.append((flag, flags))
            return
        if short[at + 1 : at + 2] != ":":
            found.given.append((flag, ""))
            continue
        if not flags and not words:
            await usage(process, f"option requires an argument -- '{flag}'", "wants", option=f"-{flag}", letter=flag)
        found.given.append((flag, flags or words.pop(0)))
        return


async def _long(process: Process, found: Options, word: str, words: list[str], long: Mapping[str, str]) -> None:
    name, equals, value = word.partition("=")
    names = [key for key in long if key.rstrip("=?") == name] or [key for key in long if key.startswith(name)]
    if not names:
        await usage(process, f"unrecognized option '--{name}'", option=f"--{name}", letter="-")
    key = names[0]
    if key.endswith("="):
        if not equals and not words:
            await usage(process, f"option '--{name}' requires an argument", "wants", option=f"--{name}", letter="-")
        found.given.append((long[key], value if equals else words.pop(0)))
    else:
        found.given.append((long[key], value))


async def usage(process: Process, why: str, which: str = "bad", **words: str) -> NoReturn:
    """Complain about the command line in the words that the table has for the program, and leave."""
    known = _of(process)
    form = known[which] + known["tail"]
    for name, text in {"name": process.name, "why": why, **words}.items():
        form = form.replace(f"{{{name}}}", text)
    await process.error(form)
    raise Leave(known["status"])


async def complain(process: Process, name: str, error: FileError, status: int = 1) -> int:
    """Say that a file cannot be opened, as this program words it."""
    forms = _of(process)
    form = forms.get("directory") if error.code == "EISDIR" else None
    return await process.fail((form or forms["cannot"]).format(name=name, text=error.text), status)


async def opened(process: Process, name: str) -> Handle | None:
    """Open a file to read, ``-`` being standard input; None after a message."""
    if name == "-":
        return process.fds.get(0)
    try:
        handle = process.open(name)
        if await _is_directory(process, name):
            raise FileError("EISDIR", name)
    except FileError as error:
        await complain(process, name, error)
        return None
    return handle


async def inputs(process: Process, opts: Options) -> AsyncIterator[tuple[str, Handle]]:
    """Yield the files of the operands, standard input for none; ``opts.status`` tells of one that is missing."""
    for name in opts.args or ["-"]:
        handle = await opened(process, name)
        if handle is None:
            opts.status = 1
        else:
            yield name, handle


async def _is_directory(process: Process, name: str) -> bool:
    node = process.view.find(name)
    return type(node).__name__ in ("Directory", "Listing")


async def lines(process: Process, handle: Handle, end: bytes = b"\n") -> AsyncIterator[bytes]:
    """Yield lines with their ends; one that is too long comes in pieces."""
    rest = b""
    while True:
        await process.flush()
        data = await handle.read_for(process, CHUNK)
        await process.tick()
        if not data:
            break
        pieces = (rest + data).split(end)
        rest = pieces.pop()
        for piece in pieces:
            await process.tick()
            yield piece + end
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


async def texts(process: Process, handle: Handle) -> AsyncIterator[str]:
    """Yield lines as text without their ends."""
    async for line in lines(process, handle):
        yield text(line.removesuffix(b"\n"))


def text(data: bytes | bytearray) -> str:
    """Decode bytes so that they can be encoded again whatever they are."""
    return bytes(data).decode("utf-8", "surrogateescape")


def data(text: str) -> bytes:
    """Encode what ``text`` has decoded."""
    return text.encode("utf-8", "surrogateescape")


async def everything(process: Process, handle: Handle, limit: int = MOST_DATA) -> bytes:
    """Read all, up to ``limit`` bytes; more ends the program."""
    whole = bytearray()
    while piece := await handle.read_for(process, CHUNK):
        whole += piece
        await process.tick()
        await process.claim(len(whole))
        if len(whole) > limit or not process.keep(len(piece)):
            await exhausted(process, handle, len(whole))
    return bytes(whole)


async def exhausted(process: Process, handle: Handle, size: int) -> NoReturn:
    """End a program that has read too much: by the kernel's hand if it reads on to the limit of its container."""
    while size < MOST_COUNTED and (piece := await handle.read_for(process, CHUNK)):
        size += len(piece)
        await process.tick()
        await process.claim(size)
    endless = not isinstance(handle, OpenFile) or not isinstance(handle.node, File)
    if size >= MOST_COUNTED and (endless or process.machine.memory_limit):
        await process.outgrow()
    await process.fail("memory exhausted")
    raise Leave(2)


async def every_line(process: Process, names: list[str]) -> tuple[list[bytes], int]:
    """Return all lines of the files, without ends, and 1 if one could not be read."""
    found: list[bytes] = []
    status = size = 0
    for name in names or ["-"]:
        handle = await opened(process, name)
        if handle is None:
            status = 1
            continue
        async for line in lines(process, handle):
            size += len(line)
            if size > MOST_DATA or not process.keep(len(line)):
                await exhausted(process, handle, size)
            found.append(line.removesuffix(b"\n"))
    return found, status


def number(word: str) -> int | None:
    """Return a count such as ``5``, ``10k`` or ``2M``; None for no number."""
    units = {"b": 512, "k": 1024, "K": 1024, "M": 1 << 20, "G": 1 << 30}
    factor = units.get(word[-1:], 1)
    digits = word[:-1] if factor > 1 else word
    return int(digits) * factor if digits.isdecimal() and len(digits) < 16 else None


def decimal(word: str, default: float) -> float:
    """Return a number of seconds or steps such as ``0.5``; ``default`` for no number."""
    whole, _, rest = word.partition(".")
    return float(word) if whole.isdecimal() and (not rest or rest.isdecimal()) and len(word) < 12 else default


def significant(value: float) -> str:
    """Return a duration with three significant digits, as iputils prints milliseconds."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


async def no_operands(process: Process, args: list[str], form: str = "extra operand '{}'", status: int = 1) -> None:
    """Fail where there are operands, in the words of ``form``, as a program does that takes none."""
    if args:
        await process.error(f"{process.name}: {form.format(args[0])}\n")
        if form.startswith("extra"):
            await process.error(f"Try '{process.name} --help' for more information.\n")
        raise Leave(status)


async def missing(process: Process, args: list[str], least: int) -> None:
    """Fail unless there are ``least`` operands."""
    if len(args) < 1:
        await usage(process, "missing operand" if least < 2 else "missing file operand")
    if len(args) < least:
        await usage(process, f"missing destination file operand after '{args[0]}'")


async def for_each(process: Process, names: list[str], work: Callable[[str], Any], wrong: str) -> int:
    """Do something with every operand, and say what went ``wrong``; returns 1 where something did."""
    status = 0
    for name in names:
        try:
            made = work(name)
            if made is not None:
                await made
        except FileError as error:
            status = await process.fail(f"{wrong.format(name)}: {error.text}")
    return status


class Interrupt:
    """Ctrl-C, for a program that has something to say before it ends."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._event = asyncio.Event()
        process.handlers["INT"] = lambda name: self._event.set()

    async def sleep(self, seconds: float) -> bool:
        """Sleep so long; returns whether it was interrupted."""
        await first(self._process.sleep(seconds), self._event.wait())
        return self._event.is_set()
