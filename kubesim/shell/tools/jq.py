"""jq: its command line, and how it prints the values that a filter yields."""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from kubesim.shell.errors import FileError, Leave
from kubesim.shell.jq_process import run_filter
from kubesim.shell.jq_worker import mentions
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

LARGEST = 8 << 20
MAX_INDENT = 7


async def _arguments(process: Process, variables: dict[str, Any]) -> list[str]:
    """Take ``--arg`` and its relatives, which have two values, out of the command line."""
    words, kept = list(process.argv[1:]), []
    while words:
        word = words.pop(0)
        if word in ("--arg", "--argjson", "--slurpfile", "--rawfile") and len(words) > 1:
            name, text = words.pop(0), words.pop(0)
            variables[name] = await _bound(process, word, name, text)
        elif word in ("--args", "--jsonargs"):
            variables["ARGS"] = {"positional": words[1:], "named": {}}
            kept += words[:1]
            words = []
        else:
            kept.append(word)
    variables.setdefault("ARGS", {"positional": [], "named": {}})
    variables["ARGS"]["named"] = {name: value for name, value in variables.items() if name != "ARGS"}
    return kept


async def _bound(process: Process, flag: str, name: str, text: str) -> Any:
    if flag == "--arg":
        return text
    try:
        if flag == "--argjson":
            return json.loads(text)
        data = kit.text(process.view.read(text))
        return data if flag == "--rawfile" else _values(data)
    except FileError as error:
        text = f"error: Bad JSON in --{flag[2:]} {name} {text}: Could not open {text}: {error.text}"
        raise Leave(await process.fail(text, 2)) from error
    except (ValueError, RecursionError) as error:
        raise Leave(await process.fail(kit.told("jq_bad_argument", flag=flag), 2)) from error


def _values(text: str) -> list[Any]:
    """Parse JSON values one after the other. Raises ValueError."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        value, at = decoder.raw_decode(text)
        found.append(value)
        text = text[at:]
    return found


async def jq(process: Process) -> int:
    """Run a filter over JSON."""
    variables: dict[str, Any] = {}
    opts = await kit.options(process, argv=await _arguments(process, variables))
    if "V" in opts:
        await process.write("jq-1.8.2\n")
        return 0
    if "f" in opts:
        opts.args.insert(0, kit.text(process.view.read(opts.get("f"))))
    if not opts.args:
        await process.error(
            "jq - commandline JSON processor [version 1.8.2]\n\nUsage:\tjq [OPTIONS] FILTER [FILES...]\n"
        )
        return 2
    source, *names = opts.args
    unread = "n" in opts and not mentions("inputs?", source)
    texts, status = ([], 0) if unread else await _texts(process, names)
    request = {
        "program": source,
        "variables": variables,
        "null": "n" in opts,
        "slurp": "s" in opts and "R" not in opts,
        "stream": "stream" in opts,
        "environment": dict(process.env),
        "now": process.machine.now(),
        "texts": texts,
    }
    if "R" in opts:
        whole = "".join(texts)
        request["values"] = [whole] if "s" in opts else whole.splitlines()
    place = "<unknown>" if "n" in opts else f"<stdin>:{''.join(texts).count(chr(10))}"
    return await _run(process, opts, request, _Run(place, status))


async def _texts(process: Process, names: list[str]) -> tuple[list[str], int]:
    """Read the input files; 2 after a message where one cannot be read."""
    texts: list[str] = []
    status = 0
    for name in names or ["-"]:
        try:
            handle = process.fds[0] if name == "-" else process.open(name)
            texts.append(kit.text(await kit.everything(process, handle, LARGEST)))
        except FileError as error:
            status = await process.fail(f"error: Could not open {name}: {error.text}", 2)
    return texts, status


@dataclass
class _Run:
    """One run of a filter, and what has come of it so far."""

    place: str
    """The place in the input that errors name."""
    status: int
    last: Any = None
    some: bool = False


async def _run(process: Process, opts: kit.Options, request: dict[str, Any], run: _Run) -> int:
    async with aclosing(run_filter(process, request)) as events:
        async for kind, *told in events:
            if kind == "value":
                run.some, run.last = True, told[0]
                await process.write(_shown(told[0], opts))
            elif kind == "halt":
                await process.error(told[0] if isinstance(told[0], str) else dumps(told[0]) + "\n")
                return int(told[1])
            else:
                run.status = await _report(process, kind, told, run.place)
    if "e" in opts and not run.status:
        return 4 if not run.some else int(run.last is None or run.last is False)
    return run.status


async def _report(process: Process, kind: str, told: list[Any], place: str) -> int:
    """Word what went wrong; return the status."""
    if kind == "killed":
        await process.error("Killed\n")
        return 137
    value = told[0]
    if kind == "refused":
        await process.error(f"{value}\n")
        return 3
    shown = f": {value}" if isinstance(value, str) else f" (not a string): {dumps(value)}"
    await process.error(f"jq: {value}\n" if kind == "broken" else f"jq: error (at {place}){shown}\n")
    return 2 if kind == "broken" else 5


def dumps(value: Any, *, indent: int | str | None = None, sort: bool = False, ascii_only: bool = False) -> str:
    """Return a value as JSON, compact unless indented."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, indent=indent, sort_keys=sort, ensure_ascii=ascii_only, separators=separators)
    return text.replace("\x7f", "\\u007f")


def _shown(value: Any, opts: kit.Options) -> str:
    end = "" if "j" in opts else "\n"
    if isinstance(value, str) and opts.any("rj"):
        return value + end
    indent: int | str | None = "\t" if "tab" in opts else min(int(opts.get("indent", "2")), MAX_INDENT)
    indent = None if "c" in opts else indent or None
    return dumps(value, indent=indent, sort="S" in opts, ascii_only="a" in opts) + end


TOOLS: dict[str, Tool] = {"jq": jq}
