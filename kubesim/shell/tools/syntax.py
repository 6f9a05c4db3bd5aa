"""Command lines of tools that take few options, held against ``arguments.yaml`` before the tool runs."""

from __future__ import annotations

from functools import cache, wraps
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.shell.errors import Leave
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

ALWAYS = ("help", "version")
"""Options that every such tool knows."""


@cache
def table() -> dict[str, dict[str, Any]]:
    """Return what is known of each tool's command line."""
    rows: dict[str, dict[str, Any]] = data.read(Path(__file__).with_name("arguments.yaml"))
    default = rows.pop("default")
    return {name: {**default, "short": "", "long": [], **row} for name, row in rows.items()}


def strict(name: str, tool: Tool) -> Tool:
    """Return a tool that refuses what is wrong on its command line, where the table knows what that is."""
    if name not in table():
        return tool

    @wraps(tool)
    async def checked(process: Process) -> int:
        await _check(process, table()[name])
        return await tool(process)

    return checked


async def _check(process: Process, known: dict[str, Any]) -> None:
    words, operands = list(process.argv[1:]), 0
    while words:
        word = words.pop(0)
        if word == "--":
            return
        if word.startswith("--"):
            await _long(process, known, word, words)
        elif len(word) > 1 and word[0] == "-":
            await _short(process, known, word, words)
        else:
            operands += 1
            if known.get("stop"):
                if word not in known.get("verbs", [word]):
                    await process.error(f"No help topic for '{word}'\n")
                    raise Leave(3)
                return
            if operands > known.get("operands", len(process.argv)):
                await _refuse(process, known, "extra", word=word)


async def _long(process: Process, known: dict[str, Any], word: str, words: list[str]) -> None:
    name, equals, _ = word[2:].partition("=")
    fitting = [each for each in (*known["long"], *ALWAYS) if each.startswith(name)]
    if not fitting:
        await _refuse(process, known, "bad", option=word, why=f"unrecognized option '{word}'", letter=word[1:2])
    if fitting[0].endswith("=") and not equals and words:
        words.pop(0)


async def _short(process: Process, known: dict[str, Any], word: str, words: list[str]) -> None:
    for at, letter in enumerate(word[1:], 1):
        place = known["short"].find(letter)
        if place < 0 or letter == ":":
            await _refuse(process, known, "bad", option=word, why=f"invalid option -- '{letter}'", letter=letter)
        if known["short"][place + 1 : place + 2] == ":":
            if not word[at + 1 :] and words and known["short"][place + 1 : place + 3] != "::":
                words.pop(0)
            return


async def _refuse(process: Process, known: dict[str, Any], which: str, **words: str) -> None:
    """Say what is wrong, as this tool does, and end it."""
    if process.busybox:
        await kit.usage(process, words.get("why", f"unrecognized operand '{words.get('word')}'"))
    form = f"{known[which]}{known['tail']}"
    for name, text in {"name": process.name, **words}.items():
        form = form.replace(f"{{{name}}}", text)
    await process.error(form)
    raise Leave(known["status"])
