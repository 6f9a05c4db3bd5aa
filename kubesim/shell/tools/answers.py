"""Programs that do little in a container: they tell their version, or why they cannot work (answers.yaml)."""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase
from typing import Any

from kubesim import data
from kubesim.shell.machine import Process, Tool

_TABLE: dict[str, list[dict[str, Any]]] = data.table(__file__, "answers.yaml")


async def answer(process: Process) -> int:
    """Say what the program says to its arguments."""
    words = " ".join(process.argv[1:])
    said = next(each for each in _TABLE[process.name] if fnmatchcase(words, each["args"]))
    known = defaultdict(str, process.machine.env | process.env | {"LAST_WORD": process.argv[-1]})
    if "out" in said:
        await process.write(said["out"].format_map(known))
    if "err" in said:
        await process.error(said["err"].format_map(known))
    return int(said.get("code", 0))


TOOLS: dict[str, Tool] = dict.fromkeys(_TABLE, answer)
