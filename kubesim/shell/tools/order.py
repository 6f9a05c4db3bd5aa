"""Programs that put lines and numbers in order: sort, uniq, seq."""

from __future__ import annotations

import heapq
import re
from typing import Any

from kubesim.shell.machine import Process
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
        self.flags = "".join(flag for flag in "nrfbghV" if flag in opts)
        self.keys = [self._parse(word) for word in opts.all("k")]

    def _parse(self, word: str) -> tuple[int, int | None, str]:
        first, last = (re.match(r"(\d*)(\w*)", part) for part in (*word.split(","), "")[:2])
        assert first is not None
        assert last is not None
        return int(first[1]), int(last[1]) if last[1] else None, first[2] + last[2] or self.flags

    def _value(self, line: str, key: tuple[int, int | None, str]) -> Any:
        first, last, flags = key
        fields = line.split(self.separator) if self.separator else re.findall(r"\s*\S+|\s+$", line)
        text = (self.separator or "").join(fields[first - 1 : last]) if key[0] else line
        if "n" in flags or "g" in flags:
            value: Any = numeric(text)
        elif "h" in flags or "V" in flags:
            value = human(text) if "h" in flags else version(text)
        else:
            text = text.lstrip() if "b" in flags else text
            value = text.upper() if "f" in flags else text
        return _turned(value, reverse="r" in flags)

    def of(self, line: str) -> list[Any]:
        """Return what a line is ordered by."""
        return [self._value(line, key) for key in self.keys or [(0, None, self.flags)]]


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
    ordered = await _ordered(process, rows)
    if "u" in opts:
        ordered = [row for index, row in enumerate(ordered) if not index or row[0] != ordered[index - 1][0]]
    await process.write("".join(text + "\n" for _, _, text in ordered))
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


async def uniq(process: Process) -> int:
    """Drop lines that repeat the one before."""
    opts = await kit.options(process)
    lines, status = await kit.every_line(process, opts.args[:1])
    groups: list[tuple[int, str]] = []
    before = None
    for line in map(kit.text, lines):
        key = line.lower() if "i" in opts else line
        if groups and key == before:
            groups[-1] = (groups[-1][0] + 1, groups[-1][1])
        else:
            groups.append((1, line))
        before = key
        await process.tick()
    for count, line in groups:
        if "d" in opts and count == 1 or "u" in opts and count > 1:
            continue
        await process.write((f"{count:7d} " if "c" in opts else "") + line + "\n")
    return status


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
        await process.write((joint if index else "") + f"{value:0{wide}.{places}f}")
        index += 1
    if index:
        await process.write("\n")
    return 0


TOOLS = kit.named(sort, uniq, seq)
