"""The lines that NVIDIA's driver writes about an Xid, in their order and with their times (``native/xids.yaml``).

No process is named, since nothing on the node tells the agent who uses a GPU; the driver writes the same form of the
line where it knows none. A serial number is only told where the driver has told it itself.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from faults.agent.gpus import Gpu

ROW_MASK = 0x0FFFFFC0
RECOVERY_ACTION = 154
Lines = list[tuple[int, str]]
"""Microseconds after the first line, and text."""


def _load() -> Mapping[str, Any]:
    table: dict[str, Any] = json.loads(resources.files("faults").joinpath("xids.json").read_text(encoding="utf-8"))
    return table


TABLE = _load()
"""Read while the agent is still root, to whom Python's own folder may belong alone."""


def known_xids() -> list[int]:
    """Return the Xids that may be written; there are no others."""
    return [int(code) for code in TABLE["xids"]]


def xid_lines(code: int, gpu: Gpu, *, announce: bool, serial: str = "", seed: str = "") -> Lines:
    """Return the lines of an Xid. ``announce``: the driver has not named the GPU since it was loaded."""
    head = list(_announcement(gpu, serial)) if announce else []
    start = TABLE["timing"]["announced"] if announce else 0
    row = f"0x{zlib.crc32(f'{gpu.uuid}/{seed}'.encode()) & ROW_MASK:016x}"
    values = {"pci": gpu.bus, "function": f"{gpu.bus}.0", "gpu": gpu.index, "serial": serial, "row": row}
    rest = [(after, text.format(**values)) for after, text in _event(code, gpu) if serial or "{serial}" not in text]
    return head + [(start + after, text) for after, text in rest]


def _announcement(gpu: Gpu, serial: str) -> Iterator[tuple[int, str]]:
    yield 0, f"NVRM: GPU at PCI:{gpu.bus}: {gpu.uuid}"
    if serial:
        yield TABLE["timing"]["serial"], f"NVRM: GPU Board Serial Number: {serial}"


def _event(code: int, gpu: Gpu) -> Iterator[tuple[int, str]]:
    """Yield the lines of an Xid, of those that it brings with it, and of the recovery action that it calls for."""
    row = TABLE["xids"][str(code)]
    lines = (gpu.retires_pages and row["turing"]) or row["lines"]
    yield from ((after, _line(gpu, code, text)) for after, text in lines)
    for other in row["follow"]:
        yield from ((lines[-1][0] + after, text) for after, text in _event(other, gpu))
    if action := row["recovery"]:
        none, new = (f"0x{number:x} ({TABLE['recovery_actions'][number]})" for number in (0, action))
        text = f"GPU recovery action changed from {none} to {new}"
        yield TABLE["timing"]["recovery"], _line(gpu, RECOVERY_ACTION, text)


def _line(gpu: Gpu, code: int, text: str) -> str:
    return text if text.startswith("NVRM:") else f"NVRM: Xid (PCI:{gpu.bus}): {code}, {text}"


def reset_line(gpu: Gpu) -> str:
    """Return the line by which NVSentinel learns that a GPU has been reset and is healthy."""
    return f"nvsentinel-gpu-reset: GPU reset executed: {gpu.uuid}, success: true"
