"""Programs that put lines in order or side by side: sort, uniq, comm, join, paste, seq, shuf."""

from __future__ import annotations

import heapq
import re
from typing import Any

from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

BATCH = 1000
_NUMBER = re.compile(r"\s*(-?\d{0,300}(?:\.\d{0,300})?)")
_UNITS = {"K": 1, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def numeric(text: str) -> float:
    """Return the number that a text begins with, 0 without one."""
    match = _NUMBER.match(text)
    try:
        return float(match[1]) if match and match[1] not in ("", "-", ".", "-.") else 0.0
    except ValueError:
        return 0.0


def human(text: str) -> float:
    """Return a number with a unit such as 2K."""
    match = re.match(r"\s*-?[\d.]*([KkMGTP])?", text)
    return numeric(text) * 1024.0 ** _UNITS.get(match[1] if match and match[1] else "", 0)


def version(text: str) -> list[tuple[int, int, str]]:
    """Return a key that orders versions."""
    return [(1, int(piece[:300]), "") if piece.isdigit() else (0, 0, piece) for piece in re.split(r"(\d+)", text)]


class Keys:
    """What sort compares: keys of fields with their flags."""

    def __init__(self, opts: kit.Options) -> None:
        self.separator = opts.get("t") or None
        self.flags = "".join(flag for flag in "nrfbghVMd" if flag in opts)
        self.keys = [self._parse(word) for word in opts.all("k")]

    def _parse(self, word: str) -> tuple[int, int, int, int, str]:
        start, _, end = word.partition(",")
        first = re.match(r"(\d{1,6})(?:\.(\d{1,6}))?(\w*)", start)
        last = re.match(r"(\d{1,6})(?:\.(\d{1,6}))?(\w*)", end)
        flags = (first[3] if first else "") + (last[3] if last else "")
        return (
            int(first[1]) if first else 1,
            int(first[2] or 1) if first else 1,
            int(last[1]) if last else 0,
            int(last[2] or 0) if last else 0,
            flags or self.flags,
        )

    def _extract(self, line: str, key: tuple[int, int, int, int, str]) -> str:
        first, offset, last, end, flags = key
        if self.separator:
            fields = line.split(self.separator)
            joint = self.separator
        else:
            fields, joint = re.findall(r"\s*\S+|\s+$", line), ""
        chosen = fields[first - 1 : last or None]
        if end and last and len(fields) >= last:
            chosen = [*chosen[:-1], chosen[-1][:end]] if chosen else []
        text = joint.join(chosen)
        return (text.lstrip() if "b" in flags else text)[offset - 1 :]

    def _value(self, text: str, flags: str) -> Any:
        if "n" in flags or "g" in flags:
            return numeric(text)
        if "h" in flags:
            return human(text)
        if "V" in flags:
            return version(text)
        if "M" in flags:
            months = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
            return months.find(text.strip()[:3].upper()) // 3 + 1
        text = text.lstrip() if "b" in flags else text
        if "d" in flags:
            text = re.sub(r"[^\w\s]", "", text)
        return text.upper() if "f" in flags else text

    def of(self, line: str) -> list[Any]:
        """Return what a line is ordered by."""
        if not self.keys:
            return [_turned(self._value(line, self.flags), reverse="r" in self.flags)]
        return [_turned(self._value(self._extract(line, key), key[4]), reverse="r" in key[4]) for key in self.keys]


class _Reversed:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


def _turned(value: Any, *, reverse: bool) -> Any:
    return _Reversed(value) if reverse else value


async def sort(process: Process) -> int:
    """Sort lines."""
    opts = await kit.options(process)
    lines, status = await kit.every_line(process, opts.args)
    if status:
        return 2
    keys = Keys(opts)
    rows = []
    for text in map(kit.text, lines):
        await process.tick()
        rows.append((keys.of(text), _last_resort(text, opts), text))
    if opts.any("cC"):
        return await _check(process, rows, opts)
    ordered = await _ordered(process, rows)
    if "u" in opts:
        ordered = [row for index, row in enumerate(ordered) if not index or row[0] != ordered[index - 1][0]]
    out = "".join(text + "\n" for _, _, text in ordered)
    if "o" not in opts:
        await process.write(out)
        return 0
    try:
        process.view.write(opts.get("o"), kit.data(out))
    except FileError as error:
        return await process.fail(f"open failed: {opts.get('o')}: {error.text}", 2)
    return 0


def _last_resort(text: str, opts: kit.Options) -> Any:
    if opts.any("su"):
        return 0
    return _turned(text, reverse="r" in opts)


async def _ordered(process: Process, rows: list[Any]) -> list[Any]:
    """Sort in batches, so that nothing else waits for long."""
    batches = []
    for at in range(0, len(rows), BATCH):
        batches.append(sorted(rows[at : at + BATCH], key=lambda row: row[:2]))
        await process.tick(32)
    if len(batches) == 1:
        return batches[0]
    merged = []
    for row in heapq.merge(*batches, key=lambda row: row[:2]):
        merged.append(row)
        await process.tick()
    return merged


async def _check(process: Process, rows: list[Any], opts: kit.Options) -> int:
    for index in range(1, len(rows)):
        if rows[index][:2] < rows[index - 1][:2]:
            if "c" in opts:
                await process.fail(f"{(opts.args or ['-'])[0]}:{index + 1}: disorder: {rows[index][2]}")
            return 1
    return 0


async def uniq(process: Process) -> int:
    """Drop lines that repeat the one before."""
    opts = await kit.options(process)
    lines, status = await kit.every_line(process, opts.args[:1])
    groups: list[tuple[int, str]] = []
    before = None
    for line in map(kit.text, lines):
        key = _uniq_key(line, opts)
        if groups and key == before:
            groups[-1] = (groups[-1][0] + 1, groups[-1][1])
        else:
            groups.append((1, line))
        before = key
        await process.tick()
    for count, line in groups:
        if "d" in opts and count == 1 or "u" in opts and count > 1:
            continue
        for _ in range(count if "D" in opts else 1):
            await process.write((f"{count:7d} " if "c" in opts else "") + line + "\n")
    return status


def _uniq_key(line: str, opts: kit.Options) -> str:
    for _ in range(min(int(opts.get("f", "0")), 1000)):
        line = re.sub(r"^\s*\S+", "", line)
    line = line[int(opts.get("s", "0")) :]
    if "w" in opts:
        line = line[: int(opts.get("w"))]
    return line.lower() if "i" in opts else line


async def seq(process: Process) -> int:
    """Print numbers."""
    opts = await kit.options(process, argv=_guard(process.argv[1:]))
    words = [word.removeprefix("\0") for word in opts.args]
    if len(words) > 3:
        await kit.usage(process, f"extra operand '{words[3]}'")
    if not words:
        await kit.usage(process, "missing operand")
    for word in words:
        if not re.fullmatch(r"[+-]?(\d{1,30}\.?\d{0,30}|\.\d{1,30})(e-?\d{1,2})?", word):
            await kit.usage(process, f"invalid floating point argument: '{word}'")
    places = max(len(word.partition(".")[2]) for word in words)
    numbers = [float(word) if places else int(float(word)) for word in words]
    first, step, last = {1: (1, 1, numbers[0]), 2: (numbers[0], 1, numbers[-1])}.get(
        len(numbers), (numbers[0], numbers[1] if len(numbers) > 1 else 1, numbers[-1])
    )
    if step == 0:
        await kit.usage(process, f"invalid Zero increment value: '{words[1]}'")
    return await _count_up(process, opts, (first, step, last), places)


def _guard(words: list[str]) -> list[str]:
    """Hide negative numbers from the reading of options."""
    return ["\0" + word if re.fullmatch(r"-[\d.]+", word) else word for word in words]


async def _count_up(process: Process, opts: kit.Options, span: tuple[float, float, float], places: int) -> int:
    first, step, last = span
    wide = max(len(f"{first:.{places}f}"), len(f"{last:.{places}f}")) if "w" in opts else 0
    joint = opts.get("s", "\n").replace("\\n", "\n").replace("\\t", "\t")
    index = 0
    while (
        (value := first + index * step) <= last + 1e-9 if step > 0 else (value := first + index * step) >= last - 1e-9
    ):
        shown = opts.get("f").replace("%g", f"{value:g}") if "f" in opts else f"{value:0{wide}.{places}f}"
        await process.write((joint if index else "") + shown)
        index += 1
    if index:
        await process.write("\n")
    return 0


TOOLS: dict[str, Tool] = {
    "sort": sort,
    "uniq": uniq,
    "seq": seq,
}
