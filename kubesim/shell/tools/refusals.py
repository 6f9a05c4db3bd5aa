"""What GNU's tools say of numbers, lists and sets that they cannot take, before they do anything.

The words are those of coreutils 9.1 and findutils 4.9; BusyBox has its own, which its tools say themselves.
"""

from __future__ import annotations

import re
from typing import NoReturn

from kubesim.shell.errors import Leave
from kubesim.shell.machine import Process
from kubesim.shell.patterns import CLASSES
from kubesim.shell.signals import number
from kubesim.shell.tools import kit

SIZE = re.compile(r"(\d+)(c|w|b|[kKMGTPEZY](?:iB|B)?|xM)?")
DD = {
    *("bs", "cbs", "conv", "count", "ibs", "if", "iflag", "obs", "of", "oflag", "seek", "skip", "status", "iseek"),
    "oseek",
}

CONVERSIONS = {
    *("ascii", "ebcdic", "ibm", "block", "unblock", "lcase", "ucase", "sparse", "swab", "sync", "excl", "nocreat"),
    *("notrunc", "noerror", "fdatasync", "fsync"),
}
IO_FLAGS = {
    *("append", "direct", "directory", "dsync", "sync", "fullblock", "nonblock", "noatime", "nocache", "noctty"),
    *("nofollow", "count_bytes", "skip_bytes", "seek_bytes"),
}


async def refuse(process: Process, text: str, status: int = 1) -> NoReturn:
    """Say why and leave."""
    await process.fail(text)
    raise Leave(status)


async def of_sort(process: Process, opts: kit.Options) -> None:
    """Refuse keys, separators and orders that sort does not know."""
    if process.busybox:
        return
    for spec in opts.all("k"):
        await _key(process, spec)
    separator = opts.get("t")
    if "t" in opts and separator == "":
        await refuse(process, "empty tab", 2)
    if len(separator) > 1 and separator != "\\0":
        await refuse(process, f"multi-character tab '{separator}'", 2)


async def _key(process: Process, spec: str) -> None:
    sides = spec.partition(",")
    for at, side in enumerate((sides[0], sides[2]) if sides[1] else (sides[0],)):
        match = re.match(r"(\d+)(?:(\.)(\d*))?([a-zA-Z]*)", side)
        if match is None:
            where = "after ','" if at else "at field start"
            await refuse(process, f"invalid number {where}: invalid count at start of '{side}'", 2)
        if int(match[1]) == 0:
            await refuse(process, f"field number is zero: invalid field specification '{spec}'", 2)
        if match.end() < len(side) or set(match[4]) - set("bdfghiMnRrV"):
            await refuse(process, f"stray character in field spec: invalid field specification '{spec}'", 2)


async def of_dd(process: Process) -> None:
    """Refuse operands that dd does not know."""
    if process.busybox:
        return
    for word in process.argv[1:]:
        name, equals, value = word.partition("=")
        if not equals or name not in DD:
            await kit.usage(process, f"unrecognized operand '{word}'")
        if name in ("bs", "cbs", "ibs", "obs", "count", "skip", "seek", "iseek", "oseek"):
            parts = [SIZE.fullmatch(part) for part in value.split("x")]
            size = all(parts) and (
                name in ("count", "skip", "seek", "iseek", "oseek") or not re.fullmatch("0+", value)
            )
            if not (size or re.fullmatch(r"\d+B", value)):
                await refuse(process, f"invalid number: '{value}'")
        wrong = next((part for part in value.split(",") if part not in CONVERSIONS), None)
        if name == "conv" and wrong is not None:
            await kit.usage(process, f"invalid conversion: '{wrong}'")
        wrong = next((part for part in value.split(",") if part not in IO_FLAGS), None)
        if name in ("iflag", "oflag") and wrong is not None:
            await kit.usage(process, f"invalid {'input' if name == 'iflag' else 'output'} flag: '{wrong}'")
        if name == "status" and value not in ("none", "noxfer", "progress"):
            await kit.usage(process, f"invalid status level: '{value}'")


async def of_nice(process: Process) -> list[str]:
    """Return the command of nice, its adjustment read. Leaves in nice's words."""
    words, adjusted = process.argv[1:], False
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        if word.startswith("--") and not word.startswith("--adjustment"):
            await kit.usage(process, f"unrecognized option '{word}'")
        value = word.partition("=")[2] if "=" in word else word[2:] if word[:2] == "-n" else word[1:]
        if word in ("-n", "--adjustment"):
            if not words:
                await kit.usage(process, "option requires an argument -- 'n'")
            value = words.pop(0)
        if not re.fullmatch(r"[+-]?\d+", value):
            await refuse(process, f"invalid adjustment '{value}'", 125)
        adjusted = True
    if adjusted and not words:
        await kit.usage(process, "a command must be given with an adjustment")
    return words[1:] if words[:1] == ["--"] else words


async def of_timeout(process: Process, opts: kit.Options, wrong: bool) -> None:
    """Refuse a signal, or a second duration (``wrong``), that is none."""
    if process.busybox:
        return
    if wrong:
        await kit.usage(process, f"invalid time interval '{opts.get('k')}'")
    if "s" in opts and number(opts.get("s")) is None:
        await kit.usage(process, f"'{opts.get('s')}': invalid signal")


async def of_cut(process: Process, opts: kit.Options, kind: str) -> None:
    """Refuse lists and delimiters."""
    if process.busybox:
        return
    if len({flag for flag, _ in opts.given} & set("bcf")) > 1 or len(opts.all(kind)) > 1:
        await kit.usage(process, "only one list may be specified")
    fields = kind == "f"
    for piece in re.split(r"[,\s]", opts.get(kind)):
        await _positions(process, piece, fields=fields)
    if "d" in opts and not fields:
        await kit.usage(process, "an input delimiter may be specified only when operating on fields")


async def _positions(process: Process, piece: str, *, fields: bool) -> None:
    zero = "fields are numbered from 1" if fields else "byte/character positions are numbered from 1"
    if piece == "-":
        await kit.usage(process, "invalid range with no endpoint: -")
    if bad := re.search(r"[^\d-].*", piece):
        kind = "field value" if fields else "byte or character position"
        await kit.usage(process, f"invalid {kind} '{bad[0]}'")
    first, dash, last = piece.partition("-")
    if piece == "" or first and int(first) == 0 or dash and last and int(last) == 0:
        await kit.usage(process, zero)
    if "-" in last:
        await kit.usage(process, "invalid field range" if fields else "invalid byte or character range")
    if dash and last and int(last) < int(first or 1):
        await kit.usage(process, "invalid decreasing range")


async def of_tr(process: Process, opts: kit.Options) -> None:
    """Refuse sets that tr cannot translate."""
    if process.busybox:
        return
    most = 1 if "d" in opts and "s" not in opts else 2
    if len(opts.args) > most:
        more = "\nOnly one string may be given when deleting without squeezing repeats." if most == 1 else ""
        await kit.usage(process, f"extra operand '{opts.args[most]}'{more}")
    for spec in opts.args:
        await _set(process, spec)
    if len(opts.args) < 2 or "d" in opts:
        return
    first, second = opts.args
    if second == "" and first and "t" not in opts:
        await refuse(process, "when not truncating set1, string2 must be non-empty")


async def _set(process: Process, spec: str) -> None:
    plain = spec
    for name in re.findall(r"\[:([^:\]]*):\]", spec):
        if name not in CLASSES:
            await refuse(process, f"invalid character class '{name}'")
    plain = re.sub(r"\[:[^:\]]*:\]", "", plain)
    for first, last in re.findall(r"([^\\\[])-(.)", plain):
        if last < first:
            await refuse(process, f"range-endpoints of '{first}-{last}' are in reverse collating sequence order")


async def of_xargs(process: Process, opts: kit.Options) -> None:
    """Refuse numbers."""
    if process.busybox:
        return
    for flag in "nPsL":
        value, least = opts.get(flag, "1"), 0 if flag == "P" else 1
        if not re.fullmatch(r"[+-]?\d{1,18}", value):
            await kit.usage(process, f'invalid number "{value}" for -{flag} option')
        if int(value) < least:
            await kit.usage(process, f"value {int(value)} for -{flag} option should be >= {least}")


async def of_seq(process: Process, opts: kit.Options, words: list[str]) -> None:
    """Refuse formats and too many numbers."""
    if process.busybox:
        return
    if len(words) > 3:
        await kit.usage(process, f"extra operand '{words[3]}'")
    if "f" in opts and not re.search(r"%[-+ 0#']*\d*(?:\.\d*)?[aefgAEFG]", opts.get("f")):
        await refuse(process, f"format '{opts.get('f')}' has no % directive")
