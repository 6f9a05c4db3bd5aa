"""Text in columns, pieces and units: column, split, numfmt."""

from __future__ import annotations

import re

from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit, refusals

WIDTH = 80
MOST_PIECES = 676
UNITS = "KMGTPEZY"


async def column(process: Process) -> int:
    """Align words in a table, or fill the width of the screen with lines."""
    opts = await kit.options(
        process,
        "ts:o:c:xN:R:n",
        {"table": "t", "separator=": "s", "output-separator=": "o", "table-columns=": "N", "output-width=": "c"},
        whole={"c": "invalid columns argument: '{}'"},
    )
    found, status = await kit.every_line(process, opts.args)
    lines = [kit.text(line) for line in found if line.strip()]
    if "t" not in opts:
        await process.write(_filled(lines, int(opts.get("c", str(WIDTH)) or WIDTH)))
        return status
    split = f"[{re.escape(opts.get('s'))}]" if "s" in opts else r"\s+"
    rows = [re.split(split, line if "s" in opts else line.strip()) for line in lines]
    if "N" in opts:
        rows.insert(0, opts.get("N").split(","))
    widths = [max(len(row[at]) for row in rows if len(row) > at) for at in range(max(map(len, rows), default=0))]
    gap = opts.get("o", "  ")
    for row in rows:
        last = len(row) - 1
        cells = [cell if at == last else cell.ljust(widths[at]) for at, cell in enumerate(row)]
        await process.write(gap.join(cells) + "\n")
    return status


def _filled(lines: list[str], width: int) -> str:
    """Return lines in as many columns, filled from top to bottom, as there is room for."""
    if not lines:
        return ""
    step = (max(map(len, lines)) // 8 + 1) * 8
    count = max(width // step, 1)
    rows = -(-len(lines) // count)
    out = ""
    for row in range(rows):
        cells = lines[row::rows]
        for at, cell in enumerate(cells):
            tabs = -(-(step - len(cell)) // 8) if at + 1 < len(cells) else 0
            out += cell + "\t" * tabs
        out += "\n"
    return out


async def split(process: Process) -> int:
    """Write a file in pieces of so many lines or bytes."""
    opts = await kit.options(
        process,
        "l:b:C:da:n:",
        {"lines=": "l", "bytes=": "b", "numeric-suffixes": "d", "line-bytes=": "C", "suffix-length=": "a"},
        whole={"l": "invalid number of lines: '{}'"} if process.busybox else {},
    )
    await refusals.of_split(process, opts)
    name, prefix = ([*opts.args, "-", "x"] if not opts.args else [*opts.args, "x"])[:2]
    handle = await kit.opened(process, name)
    if handle is None:
        return 1
    data = await kit.everything(process, handle)
    if "b" in opts:
        size = _scaled(opts.get("b"))
        pieces = [data[at : at + size] for at in range(0, len(data), max(size, 1))]
    else:
        count = max(int(opts.get("l", "1000")), 1)
        lines = data.splitlines(keepends=True)
        pieces = [b"".join(lines[at : at + count]) for at in range(0, len(lines), count)]
    if len(pieces) > MOST_PIECES:
        return await process.fail("output file suffixes exhausted")
    for at, piece in enumerate(pieces):
        suffix = f"{at:02d}" if "d" in opts else chr(97 + at // 26) + chr(97 + at % 26)
        try:
            process.view.write(prefix + suffix, piece)
        except FileError as error:
            return await kit.complain(process, prefix + suffix, error)
    return 0


def _scaled(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})([kKMG]?)(i?B?)", text)
    if match is None:
        return 1
    base, power = 1000 if match[3] == "B" else 1024, " KMG".index(match[2].upper() or " ")
    return int(match[1]) * int(base**power)


NUMFMT = ("to", "from", "suffix", "field", "format", "padding", "to-unit", "from-unit")


async def numfmt(process: Process) -> int:
    """Write numbers with units, or numbers with units in full."""
    opts = await kit.options(process, "d:", {f"{flag}=": flag for flag in NUMFMT})
    await refusals.of_numfmt(process, opts)
    words = opts.args
    if not words:
        found, _ = await kit.every_line(process, [])
        words = [kit.text(line) for line in found]
    for word in words:
        first, *rest = word.split(" ") if word.strip() else [word]
        plain = first.removesuffix(opts.get("suffix")) if opts.get("suffix") else first
        match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kKMGTPEZY]?)(i?)", plain)
        if match is None and re.match(r"-?\d", first):
            return await process.fail(f"invalid suffix in input: '{first}'", 2)
        if match is None:
            return await process.fail(f"invalid number: '{first}'", 2)
        value = float(match[1])
        if match[2]:
            base = 1000 if opts.get("from") == "si" else 1024
            value *= base ** (UNITS.index(match[2].upper()) + 1)
        value = value * (_scaled(opts.get("from-unit", "1")) / _scaled(opts.get("to-unit", "1")))
        shown, wide = _short(value, opts.get("to")) + opts.get("suffix"), int(opts.get("padding", "0"))
        shown = shown.rjust(wide) if wide > 0 else shown.ljust(-wide)
        await process.write(" ".join([shown, *rest]) + "\n")
    return 0


def _short(value: float, how: str) -> str:
    base = {"iec": 1024, "iec-i": 1024, "si": 1000}.get(how)
    if base is None or abs(value) < base:
        return f"{value:.0f}" if value == int(value) else str(value)
    power = 0
    while abs(value) >= base and power < len(UNITS):
        value, power = value / base, power + 1
    tenths = -(-abs(value) * 10 // 1)  # upwards, as it rounds
    sign = "-" if value < 0 else ""
    text = f"{tenths / 10:.1f}" if tenths < 100 else f"{-(-abs(value) // 1):.0f}"
    return f"{sign}{text}{UNITS[power - 1]}{'i' if how == 'iec-i' else ''}"


TOOLS: dict[str, Tool] = {"column": column, "split": split, "numfmt": numfmt}
