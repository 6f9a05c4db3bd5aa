"""grep and its relatives."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubesim.shell import patterns, regexes
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.files import Directory
from kubesim.shell.handles import Handle
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

COLOUR = "\x1b[01;31m\x1b[K{}\x1b[m\x1b[K"
Finder = Callable[[str], Iterator[tuple[int, int]]]


@dataclass
class _State:
    """What grep has found so far."""

    matched: bool = False
    failed: bool = False


async def grep(process: Process) -> int:
    """Print lines that match."""
    opts = await kit.options(process)
    sources = await _sources(process, opts)
    finder = await _finder(process, opts, sources)
    names = opts.args or (["."] if opts.any("rR") else ["-"])
    state = _State()
    many = (len(names) > 1 or opts.any("rR")) and "h" not in opts or "H" in opts
    for name in names:
        await _visit(process, name, opts, finder, state, many=many, depth=0, given=bool(opts.args))
        if state.matched and "q" in opts:
            return 0
    return 2 if state.failed and not (state.matched and "q" in opts) else int(not state.matched)


async def _sources(process: Process, opts: kit.Options) -> list[str]:
    found = [piece for word in opts.all("e") for piece in word.split("\n")]
    for name in opts.all("f"):
        handle = await kit.opened(process, name)
        if handle is None:
            raise Leave(2)
        found += kit.text(await kit.everything(process, handle)).splitlines()
    if not opts.all("e") and not opts.all("f"):
        if not opts.args:
            await process.error(
                "Usage: grep [OPTION]... PATTERNS [FILE]...\nTry 'grep --help' for more information.\n"
            )
            raise Leave(2)
        found = opts.args.pop(0).split("\n")
    return found


async def _finder(process: Process, opts: kit.Options, sources: list[str]) -> Finder:
    """Return what finds the matches in a line."""
    fixed = "F" in opts or process.name == "fgrep"
    extended = "E" in opts or process.name == "egrep"
    ignore = opts.any("iy")
    compiled: list[Any] = []
    try:
        for source in sources:
            if fixed:
                source = re.sub(r"([\\.*\[\]^$])", r"\\\1", source)
            if "P" in opts:
                compiled.append(regexes.compile_perl(source, ignore_case=ignore))
            else:
                compiled.append(regexes.compile_posix(source, extended=extended and not fixed, ignore_case=ignore))
    except regexes.RegexError as error:
        text = str(error)
        raise Leave(await process.fail(text, 2)) from error
    return lambda line: _spans(compiled, line, opts)


def _spans(compiled: list[Any], line: str, opts: kit.Options) -> Iterator[tuple[int, int]]:
    at = 0
    while at <= len(line):
        found = [match for each in compiled if (match := regexes.search(each, line, at))]
        if not found:
            return
        match = min(found, key=lambda each: (each.start(), -each.end()))
        start, end = match.span()
        if "x" in opts and (start, end) != (0, len(line)):
            if start > 0 or all(each.fullmatch(line, timeout=regexes.MATCH_S) is None for each in compiled):
                return
            start, end = 0, len(line)
        if "w" in opts and not _whole_word(line, start, end):
            at = start + 1
            continue
        yield start, end
        at = max(end, start + 1)


def _whole_word(line: str, start: int, end: int) -> bool:
    def wordy(text: str) -> bool:
        return bool(re.match(r"\w", text))

    return not wordy(line[start - 1 : start] if start else "") and not wordy(line[end : end + 1])


async def _visit(
    process: Process,
    name: str,
    opts: kit.Options,
    finder: Finder,
    state: _State,
    *,
    many: bool,
    depth: int,
    given: bool,
) -> None:
    node = process.view.find(name) if name != "-" else None
    await process.tick()
    if isinstance(node, Directory):
        if not opts.any("rR"):
            await process.fail(f"{name}: Is a directory")
            return
        for below in node.names() if depth < 64 else []:
            path = below if name == "." and not given else f"{name.rstrip('/')}/{below}"
            if not _left_out(process, path, below, opts):
                await _visit(process, path, opts, finder, state, many=many, depth=depth + 1, given=True)
        return
    try:
        handle = process.fds[0] if name == "-" else process.open(name)
    except FileError as error:
        state.failed = True
        if "s" not in opts:
            await process.fail(f"{name}: {error.text}")
        return
    shown = "(standard input)" if name == "-" else name
    try:
        await _file(process, handle, shown, opts, finder, state, many=many)
    except regexes.RegexError as error:
        state.failed = True
        await process.fail(str(error))


def _left_out(process: Process, path: str, name: str, opts: kit.Options) -> bool:
    def fits(flag: str) -> bool:
        return any(patterns.matches(((word, False),), name) for word in opts.all(flag))

    if isinstance(process.view.find(path), Directory):
        return fits("exdir")
    return bool(opts.all("include")) and not fits("include") or fits("exclude")


async def _file(
    process: Process, handle: Handle, name: str, opts: kit.Options, finder: Finder, state: _State, *, many: bool
) -> None:
    after, before = (int(opts.get(flag) or opts.get("C") or "0") for flag in "AB")
    most = int(opts.get("m")) if opts.get("m").isdecimal() else None
    waiting: deque[tuple[int, str]] = deque(maxlen=before or 1)
    count = number = last = following = 0
    async for line in kit.texts(process, handle):
        number += 1
        spans = list(finder(line)) if "o" in opts or _coloured(process, opts) else None
        hit = (bool(spans) if spans is not None else next(finder(line), None) is not None) != ("v" in opts)
        if hit and (most is None or count < most):
            count += 1
            state.matched = True
            if opts.any("q"):
                return
            if opts.any("lL"):
                break
            if "c" not in opts:
                context = list(waiting) if before else []
                if (before or after) and last and (context[0][0] if context else number) > last + 1:
                    await process.write("--\n")
                for at, text in context:
                    await process.write(_prefix(process, name, at, "-", opts, many=many) + text + "\n")
                await _show(process, name, number, line, spans, opts, many=many)
            waiting.clear()
            last, following = number, after
        elif following > 0 and not opts.any("clL"):
            await process.write(_prefix(process, name, number, "-", opts, many=many) + line + "\n")
            last, following = number, following - 1
        elif before:
            waiting.append((number, line))
        if most is not None and count >= most and following <= 0:
            break
    await _summary(process, name, count, opts, many=many)


async def _summary(process: Process, name: str, count: int, opts: kit.Options, *, many: bool) -> None:
    if "c" in opts and not opts.any("lL"):
        await process.write(f"{name + ':' if many else ''}{count}\n")
    elif "l" in opts and count or "L" in opts and not count:
        await process.write(name + "\n")


def _coloured(process: Process, opts: kit.Options) -> bool:
    when = opts.get("color", "never")
    return when == "always" or when in ("", "auto") and process.tty(1) is not None


def _prefix(process: Process, name: str, number: int, mark: str, opts: kit.Options, *, many: bool) -> str:
    parts = [(35, name)] * many + [(32, str(number))] * ("n" in opts)
    if not _coloured(process, opts):
        return "".join(f"{text}{mark}" for _, text in parts)
    return "".join(f"\x1b[{code}m\x1b[K{text}\x1b[m\x1b[K\x1b[36m\x1b[K{mark}\x1b[m\x1b[K" for code, text in parts)


async def _show(
    process: Process,
    name: str,
    number: int,
    line: str,
    spans: list[tuple[int, int]] | None,
    opts: kit.Options,
    *,
    many: bool,
) -> None:
    start = _prefix(process, name, number, ":", opts, many=many)
    colour = _coloured(process, opts)
    if "o" in opts:
        for first, end in spans or []:
            if end > first and "v" not in opts:
                piece = line[first:end]
                await process.write(start + (COLOUR.format(piece) if colour else piece) + "\n")
        return
    if colour and spans and "v" not in opts:
        out, at = [], 0
        for first, end in spans:
            out += [line[at:first], COLOUR.format(line[first:end]) if end > first else ""]
            at = end
        line = "".join(out) + line[at:]
    await process.write(start + line + "\n")


TOOLS: dict[str, Tool] = {"grep": grep, "egrep": grep, "fgrep": grep}
