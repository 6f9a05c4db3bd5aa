"""The rows of the tables of calls, by the kinds of ``calls.yaml``; ``read_headers.py`` says which calls there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from read_headers import Call

KINDS = yaml.safe_load((Path(__file__).resolve().parent / "calls.yaml").read_text(encoding="utf-8"))
C_TYPES = {"p": "void *", "i": "int ", "q": "uint64_t ", "f": "float ", "d": "double "}
HEAD = (
    "/* From CUDA's headers (read_headers.py): symbol; name and version for cuGetProcAddress; kind; bytes or device; "
    "arguments. */\n"
)


def kind_of(call: Call, library: str) -> str:
    """Return the kind of a call; empty for one that a failed GPU leaves alone."""
    if library == "nvml":
        return _kind_in_nvml(call)
    return _first(re.sub(r"(_v\d)?(_pt[sd][sz])?$", "", call.symbol), KINDS["cuda"])


def _kind_in_nvml(call: Call) -> str:
    """Return the kind of a call of NVML for a device; one that is newer than the hand-written has none."""
    newer = re.search(r"_v[3-9]$", call.symbol) is not None
    kind = _first(re.sub(r"_v\d$", "", call.symbol), KINDS["nvml"])
    if kind == "OWN":
        return "" if newer else kind
    return kind if call.first == "nvmlDevice_t" else ""


def _first(name: str, kinds: dict[str, list[str]]) -> str:
    return next((kind for kind, patterns in kinds.items() if any(_matches(name, each) for each in patterns)), "")


def _matches(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern.replace("[]", "cu(?:da)?"), name) is not None


def tables(library: str, calls: Iterable[Call]) -> dict[str, str]:
    """Return the text of each table of one library, by its file's name."""
    kept = sorted(((kind_of(call, library), call) for call in calls), key=lambda pair: pair[1].symbol)
    return {
        name: HEAD + "".join(row(kind, call) for wanted in kinds for kind, call in kept if kind == wanted)
        for name, kinds in KINDS["files"][library].items()
    }


def row(kind: str, call: Call) -> str:
    """Return one row of a table, a call of a macro that each user of the table defines."""
    letters = [chr(ord("a") + index) for index in range(len(call.arguments))]
    given = ", ".join(c_type(kind) + letter for kind, letter in zip(call.arguments, letters, strict=True)) or "void"
    head = f"{call.symbol}, {call.base}, {call.version}, {kind}, {extra(kind, call)}"
    return f"{'OWN' if kind == 'OWN' else 'CALL'}({head}, ({given}), ({', '.join(letters)}))\n"


def c_type(kind: str) -> str:
    """Return how C writes an argument's type; ``b64`` is a structure of 64 bytes."""
    return f"struct b{kind[1:]} " if kind[0] == "s" else C_TYPES[kind]


def extra(kind: str, call: Call) -> str:
    """Return which argument says how many bytes are wanted, or on which device a context is made.

    The runtime's allocations need none: they arrive at the driver's.
    """
    letters = [chr(ord("a") + index) for index in range(len(call.arguments))]
    if kind == "CONTEXT":
        return letters[-1]
    if kind != "ALLOCATE" or call.symbol.startswith("cuda"):
        return "0"
    wanted = (2, 3) if "Pitch" in call.symbol else (1,)
    return " * ".join(
        f"(uint64_t)(uint32_t){letters[at]}" if call.arguments[at] == "i" else letters[at] for at in wanted
    )
