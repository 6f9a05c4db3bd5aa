"""Text as a whole and line by line: cat, tac, head, tail, wc, tee."""

from __future__ import annotations

import re

from kubesim.shell.errors import FileError, Leave
from kubesim.shell.files import File
from kubesim.shell.handles import CHUNK, Handle
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit

FOLLOW_S = 1.0


async def cat(process: Process) -> int:
    """Copy files to standard output, numbered or made visible on request."""
    opts = await kit.options(process)
    plain = not opts.any("An")
    number = 0
    async for _, handle in kit.inputs(process, opts):
        if plain:
            while data := await process_read(process, handle):
                await process.write(data)
                await process.flush()
        else:
            number = await _decorated(process, handle, opts, number)
    return opts.status


async def process_read(process: Process, handle: Handle) -> bytes:
    """Read a chunk after what was written is out."""
    await process.flush()
    await process.tick()
    return await handle.read_for(process, CHUNK)


async def _decorated(process: Process, handle: Handle, opts: kit.Options, number: int) -> int:
    async for line in kit.lines(process, handle):
        number += 1
        body = line.removesuffix(b"\n")
        if "A" in opts:
            line = b"".join(map(_shown, body)) + b"$\n" * (body != line)
        await process.write((f"{number:6d}\t".encode() if "n" in opts else b"") + line)
    return number


def _shown(byte: int) -> bytes:
    """Return a byte so that it can be seen."""
    if byte >= 128:
        return b"M-" + _shown(byte - 128)
    return b"^" + bytes([byte ^ 64]) if byte < 32 or byte == 127 else bytes([byte])


async def head(process: Process) -> int:
    """Print the beginning of files."""
    opts = await kit.options(process)
    flag = "c" if "c" in opts else "n"
    word = opts.get(flag, "10")
    count = await _amount(process, word.lstrip("-"), flag)
    gap = ""
    async for name, handle in kit.inputs(process, opts):
        gap = await _title(process, name, gap, opts)
        if word.startswith("-"):
            await _all_but(process, handle, count, flag)
        else:
            await _first(process, handle, count, flag)
    return opts.status


async def _amount(process: Process, word: str, flag: str) -> int:
    count = kit.number(word)
    if count is None:
        kind = "bytes" if flag == "c" else "lines"
        raise Leave(await process.fail(f"invalid number of {kind}: '{word}'"))
    return count


async def _title(process: Process, name: str, gap: str, opts: kit.Options) -> str:
    """Write the name of one of several files after a ``gap``; returns the gap before the next."""
    if len(opts.args) > 1 and "q" not in opts or "v" in opts:
        await process.write(f"{gap}==> {'standard input' if name == '-' else name} <==\n")
    return "\n"


async def _first(process: Process, handle: Handle, count: int, flag: str) -> None:
    if count == 0:
        return
    if flag == "c":
        while count > 0 and (data := await handle.read_for(process, min(count, CHUNK))):
            await process.write(data)
            count -= len(data)
        return
    async for line in kit.lines(process, handle):
        await process.write(line)
        count -= 1
        if count == 0:
            return


async def _all_but(process: Process, handle: Handle, count: int, flag: str) -> None:
    data = await kit.everything(process, handle)
    if flag == "c":
        await process.write(data[: max(len(data) - count, 0)])
        return
    lines = data.splitlines(keepends=True)
    await process.write(b"".join(lines[: max(len(lines) - count, 0)]))


async def tail(process: Process) -> int:
    """Print the end of files and, on request, what is appended to them."""
    opts = await kit.options(process)
    flag = "c" if "c" in opts else "n"
    word = opts.get(flag, "10")
    count = await _amount(process, word.lstrip("+-"), flag)
    gap = ""
    ends: list[tuple[str, int]] = []
    async for name, handle in kit.inputs(process, opts):
        gap = await _title(process, name, gap, opts)
        data = await kit.everything(process, handle)
        await process.write(_end(data, count, flag, start=word.startswith("+")))
        ends.append((name, len(data)))
    if opts.any("fF") and any(name != "-" for name, _ in ends):
        await _follow(process, ends, float(opts.get("s") or FOLLOW_S), many=len(opts.args) > 1)
    return opts.status


def _end(data: bytes, count: int, flag: str, *, start: bool) -> bytes:
    if flag == "c":
        return data[max(count - 1, 0) :] if start else data[len(data) - min(count, len(data)) :]
    lines = data.splitlines(keepends=True) if b"\r" not in data else re.findall(rb"[^\n]*\n|[^\n]+", data)
    return b"".join(lines[max(count - 1, 0) :] if start else lines[len(lines) - min(count, len(lines)) :])


async def _follow(process: Process, ends: list[tuple[str, int]], every: float, *, many: bool) -> None:
    places = dict(ends)
    last = list(places)[-1]
    while True:
        await process.sleep(max(every, 0.1))
        for name, end in places.items():
            node = process.view.find(name)
            if not isinstance(node, File):
                continue
            content = node.content()
            if len(content) < end:
                await process.fail(f"{name}: file truncated")
                end = 0
            if len(content) > end:
                if many and name != last:
                    await process.write(f"\n==> {name} <==\n")
                last = name
                await process.write(bytes(content[end:]))
                await process.flush()
            places[name] = len(content)


async def wc(process: Process) -> int:
    """Count lines, words and bytes."""
    opts = await kit.options(process)
    flags = [flag for flag in "lwmc" if flag in opts] or ["l", "w", "c"]
    rows: list[tuple[dict[str, int], str]] = []
    async for name, handle in kit.inputs(process, opts):
        rows.append((await _counted(process, handle), name if opts.args else ""))
    if len(opts.args) > 1:
        keys = rows[0][0] if rows else {}
        rows.append(({key: sum(row[key] for row, _ in rows) for key in keys}, "total"))
    for counts, name in rows:
        await process.write(_wc_line([counts[flag] for flag in flags], name, rows, single=not opts.args))
    return opts.status


async def _counted(process: Process, handle: Handle) -> dict[str, int]:
    counts = dict.fromkeys("lwcm", 0)
    async for line in kit.lines(process, handle):
        counts["l"] += line.endswith(b"\n")
        counts["w"] += len(line.split())
        counts["c"] += len(line)
        counts["m"] += len(kit.text(line))
    return counts


def _wc_line(values: list[int], name: str, rows: list[tuple[dict[str, int], str]], *, single: bool) -> str:
    if len(values) == 1 and len(rows) == 1:
        return f"{values[0]} {name}".rstrip() + "\n"
    wide = 7 if single else max(len(str(counts["c"])) for counts, _ in rows)
    return f"{' '.join(f'{value:{wide}d}' for value in values)} {name}".rstrip() + "\n"


async def tee(process: Process) -> int:
    """Copy standard input to files and on."""
    opts = await kit.options(process)
    handles = []
    status = 0
    for name in opts.args:
        try:
            handles.append(process.open(name, "a" if "a" in opts else "w"))
        except FileError as error:
            status = await kit.complain(process, name, error)
    while data := await process_read(process, process.fds[0]):
        await process.write(data)
        for handle in handles:
            await handle.write(data)
    return status


TOOLS = kit.named(cat, head, tail, wc, tee)
