"""View of one caller of nvidia-smi, and a few words all its pages share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from kubesim import data
from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device, Task
from kubesim.gpu.readings import Reading, read

texts: data.Reader[dict[str, str]] = data.beside(__file__, "texts.yaml")
"""Return the frames of tables, and explanations."""
NOT_AVAILABLE = "N/A"
LOST = "Unable to determine the device handle for GPU{index}: {bus}: Unknown Error"
NONE_FOUND = "No devices were found"


class NoDevices(Exception):
    """``-i`` names no device that is there."""

    def __init__(self) -> None:
        super().__init__(NONE_FOUND)


@dataclass(frozen=True, slots=True)
class Seen:
    """A device under the number by which the caller knows it."""

    number: int
    device: Device
    reading: Reading

    @property
    def names(self) -> set[str]:
        """What it can be called: its number, its UUID, its address with or without (long) domain."""
        address = self.device.pci_address.lower()
        return {str(self.number), self.device.uuid.lower(), self.device.serial, address, address[4:], address[9:]}

    @property
    def mig(self) -> str:
        """The word of the MIG column."""
        return "Disabled" if self.device.product.mig else NOT_AVAILABLE


@dataclass(frozen=True, slots=True)
class View:
    """A caller's view: the node (``owner`` empty) or a container of it; ``at`` is now."""

    board: Board
    at: datetime
    owner: str = ""
    devices: tuple[Device, ...] | None = None
    """Devices of a container that the board does not know."""

    def all(self) -> list[Seen]:
        """Return every device the caller has, lost ones too."""
        mine = self._mine() if self.owner else self.board.devices
        return [Seen(number, device, read(device, self.at)) for number, device in enumerate(mine)]

    def present(self) -> list[Seen]:
        """Return the devices that answer."""
        return [seen for seen in self.all() if not seen.device.trouble.lost]

    def lost(self, only: Collection[str] = ()) -> list[str]:
        """Return the line for each device that has fallen off the bus, of those that ``-i`` names if it does."""
        wanted = {word.strip().lower() for word in only}
        gone = [seen for seen in self.all() if seen.device.trouble.lost and (not wanted or wanted & seen.names)]
        return [LOST.format(index=seen.number, bus=seen.device.bus.upper() + ".0") for seen in gone]

    def stalled(self) -> bool:
        """Whether the driver waits for a firmware that does not answer: the real program hangs then."""
        return any(seen.device.trouble.stalled for seen in self.all())

    def tasks(self, seen: Seen) -> list[Task]:
        """Return the processes the caller may see: on the node all, in a container none (other PID namespaces)."""
        tasks = sorted(seen.device.tasks.values(), key=lambda task: task.pid)
        return tasks if not self.owner else []

    def _mine(self) -> list[Device]:
        return list(dict.fromkeys(self.board.visible(self.owner) if self.devices is None else self.devices))


def chosen(view: View, only: Iterable[str]) -> list[Seen]:
    """Return the devices that ``-i`` names by number, address or UUID; all where it names none. Raises NoDevices."""
    wanted = {word.strip().lower() for word in only}
    seen = [item for item in view.present() if not wanted or wanted & item.names]
    if wanted and not seen:
        raise NoDevices
    return seen
