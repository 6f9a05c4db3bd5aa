"""Files by their size: dd, fallocate. What only fills a disk is counted, and takes its time."""

from __future__ import annotations

import re

from kubesim.shell.errors import FileError
from kubesim.shell.files import Device, File
from kubesim.shell.handles import Handle, OpenFile
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

SIZES = ("bs", "count", "seek")
OPERANDS = frozenset({*SIZES, "if", "of", "conv", "oflag", "status"})
SIZE = re.compile(r"\d+([cwbBkKMGTPE]|[kKMGTPE]i?B)?(x\d+[kKMG]?)*", re.ASCII)
RATE = 1 << 30
"""Bytes that a node's disk takes in a second."""
SMALL = 4 << 20
"""Up to here bytes are really copied."""


def length(text: str) -> int | None:
    """Return a size as util-linux reads it: 10G and 10GiB are the same, 10GB is less."""
    found = re.fullmatch(r"(\d{1,18})(?:([KMGTPEkmgtpe])(iB|B)?)?", text)
    if found is None:
        return None
    base = 1000 if found[3] == "B" else 1024
    power = " KMGTPE".index((found[2] or " ").upper())
    return int(int(found[1]) * base**power)


async def fallocate(process: Process) -> int:
    """Give a file space on its disk."""
    opts = await kit.options(process)
    size, offset = length(opts.get("l")), length(opts.get("o") or "0")
    if not opts.get("l") or not opts.args:
        missing = "no length argument specified" if opts.args else "no filename specified"
        return await process.fail(missing)
    if not size or offset is None:
        return await process.fail("failed to parse length" if size is None else "invalid length value specified")
    name = opts.args[0]
    try:
        node = process.view.file(name)
    except FileError as error:
        return await process.fail(f"cannot open {name}: {error.text}")
    try:
        if isinstance(node, File):
            _lengthen(process, node, size + offset)
    except FileError as error:
        return await process.fail(f"fallocate failed: {error.text}")
    return 0


def _lengthen(process: Process, node: File, size: int) -> None:
    """Let a file be so long at least; raises FileError."""
    before = len(node.data)
    if size <= before:
        return
    if process.view.files.disk is not None and size - before > SMALL:
        process.view.lengthen(node, size)
    elif size > process.view.files.limit:
        raise FileError("ENOSPC")
    else:
        process.view.store(node, bytes(node.data) + bytes(size - before))


class Copied:
    """What dd has copied so far: whole blocks, the rest of one, bytes."""

    def __init__(self) -> None:
        self.full = self.part = self.done = 0

    def add(self, size: int, block: int) -> None:
        """Count what was read and written."""
        self.done += size
        self.full += size // block
        self.part += 1 if size % block else 0

    def told(self, process: Process, elapsed: float) -> str:
        """Return the lines at dd's end."""
        rate = self.done / max(elapsed, 0.000_1)
        count = f"{self.full}+{self.part}"
        head = f"{count} records in\n{count} records out\n"
        sizes = [f"{_decimal(self.done)}B"] if self.done >= 1000 else []
        sizes += [f"{_binary(self.done)}B"] if self.done >= 1024 else []
        shown = f" ({', '.join(sizes)})" if sizes else ""
        return f"{head}{self.done} bytes{shown} copied, {elapsed:.6g} s, {_decimal(rate)}B/s\n"


def _scaled(value: float, base: int, letters: str) -> tuple[str, str]:
    power = 0
    while value >= base and power < len(letters):
        value, power = value / base, power + 1
    digits = f"{value:.1f}" if power and value < 10 else f"{value:.0f}"
    return digits, letters[power - 1] if power else ""


def _binary(value: float) -> str:
    digits, letter = _scaled(value, 1024, "KMGTP")
    return f"{digits} {letter}{'i' if letter else ''}"


def _decimal(value: float) -> str:
    return " ".join(_scaled(value, 1000, "kMGTP"))


async def _check_operands(process: Process) -> None:
    """Refuse operands that dd does not know."""
    for word in process.argv[1:]:
        name, equals, value = word.partition("=")
        if not equals or name not in OPERANDS:
            await kit.usage(process, f"unrecognized operand '{word}'")
        if name in SIZES and not SIZE.fullmatch(value):
            await kit.refuse(process, f"invalid number: '{value}'")


async def dd(process: Process) -> int:
    """Copy blocks."""
    await _check_operands(process)
    words = dict(word.partition("=")[::2] for word in process.argv[1:])
    block = kit.number(words.get("bs", "512")) or 512
    count = kit.number(words.get("count", "")) if "count" in words else None
    try:
        source = process.open(words["if"]) if "if" in words else process.fds[0]
        target = (
            process.open(words["of"], "+" if "notrunc" in words.get("conv", "") else "w") if "of" in words else None
        )
    except FileError as error:
        return await process.fail(f"failed to open '{error.path}': {error.text}")
    if isinstance(target, OpenFile):
        target.position = block * (kit.number(words.get("seek", "")) or 0)
    copied, started = Copied(), process.machine.now()
    try:
        if isinstance(target, OpenFile) and _fills(process, source, target, block, count):
            await _fill(process, target, block, count, copied)
        else:
            await _copy(process, source, target or process.fds[1], block, count, copied)
        status = 0
    except FileError as error:
        status = await process.fail(f"error writing '{words.get('of', 'standard output')}': {error.text}")
    if words.get("status") != "none":
        await process.error(copied.told(process, max(process.machine.now() - started, 0.001)))
    return status


def _fills(process: Process, source: Handle, target: OpenFile, block: int, count: int | None) -> bool:
    """Whether so much comes from a device that has no end that nobody wants to read it."""
    endless = (
        isinstance(source, OpenFile) and isinstance(source.node, Device) and source.node.kind in ("zero", "random")
    )
    large = count is None or block * count > SMALL
    return endless and large and isinstance(target.node, File) and process.view.files.disk is not None


async def _fill(process: Process, target: OpenFile, block: int, count: int | None, copied: Copied) -> None:
    """Let a file grow as fast as the disk takes it."""
    left = block * count if count is not None else None
    while left is None or left:
        piece = max(RATE // block, 1) * block
        piece = piece if left is None else min(piece, left)
        room = process.view.files.disk
        if room is not None and 0 < room.left < piece:
            target.lengthen(room.left)
            copied.add(room.left // block * block, block)
        target.lengthen(piece)
        copied.add(piece, block)
        left = left - piece if left is not None else None
        await process.sleep(piece / RATE)


async def _copy(
    process: Process, source: Handle, target: Handle, block: int, count: int | None, copied: Copied
) -> None:
    block, done = min(block, 1 << 20), 0
    while count is None or done < count:
        data = await source.read(block)
        await process.tick(8)
        if not data:
            return
        await target.write(data)
        copied.add(len(data), block)
        done += 1


TOOLS: dict[str, Tool] = {"dd": dd, "fallocate": fallocate}
