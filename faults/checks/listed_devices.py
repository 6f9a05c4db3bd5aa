"""Devices that nvidia-smi lists in a log: by ``nvidia-smi -L``, or in its table."""

from __future__ import annotations

import re
from typing import Any

MAX_DEVICES = 64
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_GPU = re.compile(rf"^GPU \d+: (?P<name>\S.{{0,80}}?) \(UUID: (?P<id>GPU-{_UUID})\)", re.M)
_MIG = re.compile(r"^ +MIG (?P<name>\S+) +Device +\d+: \(UUID: (?P<id>MIG-[0-9a-fA-F/-]{8,80})\)", re.M)
_ADDRESS = r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
_ROW = re.compile(rf"^\| +\d+ +(?P<name>\S.{{0,40}}?) +(?:On|Off|N/A) +\| +(?P<id>{_ADDRESS}) ", re.M)


def devices(log: Any) -> list[dict[str, str]]:
    """Return name and id of each device in a text, once however often it was printed.

    MIG devices count in place of the GPUs that they are parts of, under the names of these. A name is written as in
    the label of a node; a table cuts long ones short.
    """
    text = str(log)
    gpus, parts = _found(_GPU, text), _found(_MIG, text)
    if gpus and parts:
        name = next(iter(gpus.values()))
        found = dict.fromkeys(parts, name)
    else:
        found = gpus or _found(_ROW, text)
    return [{"name": name, "id": identity} for identity, name in list(found.items())[:MAX_DEVICES]]


def _found(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    return {match["id"]: match["name"].rstrip(".").replace(" ", "-") for match in pattern.finditer(text)}
