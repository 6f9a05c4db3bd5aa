"""Text in columns: column."""

from __future__ import annotations

import re

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

WIDTH = 80


async def column(process: Process) -> int:
    """Align words in a table, or fill the width of the screen with lines."""
    opts = await kit.options(process)
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


TOOLS: dict[str, Tool] = {"column": column}
