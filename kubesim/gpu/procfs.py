"""Files of the driver below /proc/driver/nvidia: its version, its parameters, and the devices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kubesim import data
from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device
from kubesim.gpu.products import driver

FILES = ("version", "params", "registry")


def driver_files(board: Board, devices: Iterable[Device]) -> dict[str, str]:
    """Return the files by their paths; none where the driver is not in the kernel."""
    if not board.devices or not board.loaded:
        return {}
    texts = _texts()
    found = {f"driver/nvidia/{name}": texts[name].format(version=driver().version) for name in FILES}
    for each in devices:
        place, vbios = each.pci_address[4:].lower(), each.product.vbios.lower()
        values = {"device": each, "product": each.product, "irq": 150 + each.minor, "place": place, "vbios": vbios}
        text = texts["information"].format(version=driver().version, **values)
        found[f"driver/nvidia/gpus/{place}/information"] = text
    return found


@cache
def _texts() -> dict[str, str]:
    return dict(data.read(Path(__file__).with_name("procfs.yaml")))
