"""GPUs of a node as NVIDIA's driver lists them in ``/proc/driver/nvidia/gpus``: its library is not needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("/proc/driver/nvidia/gpus")
ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.[0-7]", re.IGNORECASE)
UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TURING = re.compile(r"\bTesla T4\b|\bT4G?\b|\bQuadro RTX\b|\bTITAN RTX\b")
MAX_INFORMATION = 4096


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. ``bus``: domain, bus and device, as the driver's lines name it."""

    index: int
    bus: str
    uuid: str
    retires_pages: bool = False
    """Turing GPUs retire pages, where later ones remap rows."""


def list_gpus(folder: Path = FOLDER) -> list[Gpu]:
    """Return the GPUs in the order of their addresses, by which nvidia-smi counts them. Without the driver: none."""
    try:
        found = sorted((_bus(match), path) for path in folder.iterdir() if (match := ADDRESS.fullmatch(path.name)))
    except OSError:
        return []
    return [_gpu(index, bus, path) for index, (bus, path) in enumerate(found)]


def _bus(address: re.Match[str]) -> str:
    domain, bus, device = address.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}".lower()


def _gpu(index: int, bus: str, path: Path) -> Gpu:
    try:
        text = (path / "information").read_text(encoding="utf-8", errors="replace")[:MAX_INFORMATION]
    except OSError:
        text = ""
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    uuid = fields.get("GPU UUID", "").replace("GPU-GPU-", "GPU-")
    known = uuid if UUID.fullmatch(uuid) else ""
    return Gpu(index, bus, known, bool(TURING.search(fields.get("Model", ""))))
