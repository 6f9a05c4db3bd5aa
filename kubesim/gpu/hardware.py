"""Parts of a node with GPUs: modules of its kernel, devices on its bus, and the driver's files in /proc."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubesim import data
from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device
from kubesim.gpu.products import driver

_texts: data.Reader[dict[str, str]] = data.beside(__file__, "procfs.yaml")
_table = data.beside(__file__, "hardware.yaml")
SPEEDS = {1: "2.5GT/s", 2: "5GT/s", 3: "8GT/s", 4: "16GT/s", 5: "32GT/s", 6: "64GT/s"}
"""Of a lane of PCIe, by its generation."""


def modules(board: Board | None) -> Iterator[tuple[str, int, int, list[str]]]:
    """Yield the modules that are loaded: name, bytes, use count, and what uses them."""
    devices, out = (board.devices, board.unloaded) if board is not None else ([], frozenset())
    tasks = sum(len(device.tasks) for device in devices)
    for name, entry in _table()["modules"].items():
        if name not in out and (entry.get("needs") != "gpus" or devices):
            by = [each for each in entry.get("by", ()) if each not in out]
            count = entry.get("count", 0) + entry.get("each", 0) * len(devices) + entry.get("used", 0) * tasks
            yield name, entry["size"], max(count + len(by) * ("count" not in entry), len(by)), by


@dataclass(frozen=True, slots=True)
class Pci:
    """A device on the bus; ``gpu`` is the one that it is."""

    address: str
    kind: str
    code: str
    name: str
    ids: str
    revision: str
    module: str
    gpu: Device | None = None

    @property
    def lost(self) -> bool:
        """Whether it answers no more: then its registers read as ones."""
        return self.gpu is not None and self.gpu.trouble.lost

    def line(self, numbers: int) -> str:
        """Return its line; ``numbers``: 0 names, 1 numbers, 2 both."""
        kind = self.code if numbers == 1 else f"{self.kind} [{self.code}]" if numbers else self.kind
        name = self.ids if numbers == 1 else f"{self.name} [{self.ids}]" if numbers else self.name
        revision = "ff" if self.lost else self.revision
        return f"{self.address} {kind}: {name}{f' (rev {revision})' if revision else ''}"


def bus(board: Board | None) -> list[Pci]:
    """Return the devices of a machine in their order on the bus."""
    table = _table()
    found = [Pci(*row) for row in table["pci"]]
    module = "nvidia" if board is not None and board.loaded else ""
    for each in board.devices if board is not None else ():
        number = each.product.pci["device"][:4].lower()
        kind, code, name, *_ = table["gpus"].get(number, ("3D controller", "0302", f"Device {number}", "16M", "32G"))
        address = each.pci_address.lower().partition(":")[2]
        found.append(Pci(address, kind, code, f"NVIDIA Corporation {name}", f"10de:{number}", "a1", module, each))
    if board is not None and board.devices and board.product.nvlinks and board.product.family in table["switches"]:
        count, number, name, first = table["switches"][board.product.family]
        for at in range(count):
            address = f"{int(first[:2], 16) + at:02x}{first[2:]}"
            found.append(Pci(address, "Bridge", "0680", f"NVIDIA Corporation {name}", f"10de:{number}", "a1", module))
    return sorted(found, key=lambda each: each.address)


def memories(gpu: Device) -> tuple[str, str]:
    """Return how much of a GPU is seen through its two windows on the bus."""
    *_, small, large = _table()["gpus"].get(gpu.product.pci["device"][:4].lower(), ("16M", "32G"))
    return small, large


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
