"""Parts of lines and single characters: cut, tr."""

from __future__ import annotations

import re

from kubesim.shell.machine import Process
from kubesim.shell.patterns import CLASSES
from kubesim.shell.quoting import ansi
from kubesim.shell.tools import kit
from kubesim.shell.tools.text import process_read


def ranges(spec: str) -> list[tuple[int, int]] | None:
    """Return the ranges of ``1,3-5,7-``; None for a wrong list."""
    found = []
    for piece in spec.split(","):
        match = re.fullmatch(r"(\d{1,9})?(-)?(\d{1,9})?", piece)
        if not match or not piece or piece == "-":
            return None
        first = int(match[1] or 1)
        last = int(match[3]) if match[3] else 10**9 if match[2] else first
        if first < 1 or last < first:
            return None
        found.append((first, last))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(found):
        before = merged.pop() if merged and first <= merged[-1][1] else (first, last)
        merged.append((before[0], max(before[1], last)))
    return merged


async def cut(process: Process) -> int:
    """Print parts of lines."""
    opts = await kit.options(process)
    kind = opts.last("bcf")
    if not kind:
        await kit.usage(process, "you must specify a list of bytes, characters, or fields")
    if len({flag for flag, _ in opts.given} & set("bcf")) > 1 or len(opts.all(kind)) > 1:
        await kit.usage(process, "only one list may be specified")
    if "d" in opts and kind != "f":
        await kit.usage(process, "an input delimiter may be specified only when operating on fields")
    chosen = ranges(opts.get(kind))
    if chosen is None:
        await kit.usage(
            process, "fields are numbered from 1" if kind == "f" else "byte/character positions are numbered from 1"
        )
    delimiter = opts.get("d", "\t")
    if len(delimiter) != 1:
        await kit.usage(process, "the delimiter must be a single character")
    async for _, handle in kit.inputs(process, opts):
        async for line in kit.texts(process, handle):
            if kind == "f" and delimiter in line:
                parts = line.split(delimiter)
                line = delimiter.join(part for first, last in chosen for part in parts[first - 1 : last])
            elif kind != "f":
                line = "".join(line[first - 1 : last] for first, last in chosen)
            elif "s" in opts:
                continue
            await process.write(line + "\n")
    return opts.status


def charset(spec: str) -> list[str]:
    """Return the characters that tr's set stands for."""
    spec = ansi(re.sub(r"\\(?![nrtabfve\\0-7])", "", spec)) if "\\" in spec else spec
    out: list[str] = []
    at = 0
    while at < len(spec):
        named = re.compile(r"\[:(\w+):\]").match(spec, at)
        if named and named[1] in CLASSES:
            out += [chr(code) for code in range(128) if re.fullmatch(f"[{CLASSES[named[1]]}]", chr(code))]
            at = named.end()
        elif at + 2 < len(spec) and spec[at + 1] == "-":
            out += [chr(code) for code in range(ord(spec[at]), min(ord(spec[at + 2]), ord(spec[at]) + 4096) + 1)]
            at += 3
        else:
            out.append(spec[at])
            at += 1
    return out


async def _check_set(process: Process, spec: str) -> None:
    """Refuse unknown classes and ranges that run backwards."""
    for name in re.findall(r"\[:(\w*):\]", spec):
        if name not in CLASSES:
            await kit.refuse(process, f"invalid character class '{name}'")
    for first, last in re.findall(r"([^\\\[])-(.)", re.sub(r"\[:\w*:\]", "", spec)):
        if last < first:
            await kit.refuse(process, f"range-endpoints of '{first}-{last}' are in reverse collating sequence order")


async def tr(process: Process) -> int:
    """Translate, squeeze or delete characters."""
    opts = await kit.options(process, least=1)
    if len(opts.args) < 2 and not opts.any("ds"):
        why = f"missing operand after '{opts.args[0]}'\nTwo strings must be given when translating."
        await kit.usage(process, why)
    most = 1 if "d" in opts and "s" not in opts else 2
    if len(opts.args) > most:
        await kit.usage(process, f"extra operand '{opts.args[most]}'")
    for spec in opts.args:
        await _check_set(process, spec)
    if opts.args[1:] == [""]:
        await kit.refuse(process, "when not truncating set1, string2 must be non-empty")
    first = charset(opts.args[0])
    second = charset(opts.args[1]) if len(opts.args) > 1 else []
    table = _tr_table(first, second, opts)
    squeezed = set(second or first) if "s" in opts else set()
    if "s" in opts and not second and opts.any("cC"):
        squeezed = {chr(code) for code in range(256)} - set(first)
    last = ""
    while data := await process_read(process, process.fds[0]):
        text = data.decode("utf-8", "surrogateescape").translate(table)
        if squeezed:
            text, last = _squeeze(text, squeezed, last)
        await process.write(text)
    return 0


def _tr_table(first: list[str], second: list[str], opts: kit.Options) -> dict[int, str | None]:
    if opts.any("cC"):
        kept = set(first)
        first = [chr(code) for code in range(256) if chr(code) not in kept]
    if "d" in opts:
        return {ord(char): None for char in first}
    if not second:
        return {}
    full = second + [second[-1]] * (len(first) - len(second))
    return {ord(old): new for old, new in zip(first, full, strict=False)}


def _squeeze(text: str, squeezed: set[str], last: str) -> tuple[str, str]:
    out = []
    for char in text:
        if char != last or char not in squeezed:
            out.append(char)
        last = char
    return "".join(out), last


TOOLS = kit.named(cut, tr)
