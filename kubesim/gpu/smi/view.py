"""View of one caller of nvidia-smi, and a few words all its pages share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubesim import data
from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device, Task
from kubesim.gpu.mig import Instance
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
    """A device under the number by which the caller knows it; ``instances``: the parts of it that the caller has."""

    number: int
    device: Device
    instances: tuple[Instance, ...]
    reading: Reading

    @property
    def names(self) -> set[str]:
        """What it can be called: its number, its UUID, its address with or without (long) domain."""
        address = self.device.pci_address.lower()
        return {str(self.number), self.device.uuid.lower(), self.device.serial, address, address[4:], address[9:]}

    @property
    def cut(self) -> list[Instance]:
        """Its instances in the order of their numbers."""
        return sorted(self.instances, key=lambda item: item.id)

    @property
    def mig(self) -> str:
        """The word of the MIG column."""
        if not self.device.product.mig:
            return NOT_AVAILABLE
        return "Enabled" if self.device.mig_mode else "Disabled"


@dataclass(frozen=True, slots=True)
class View:
    """A caller's view: the node (``owner`` empty) or a container of it; ``at`` is now."""

    board: Board
    at: datetime
    owner: str = ""
    slots: tuple[tuple[Device, int | None], ...] | None = None
    """Devices of a container that the board does not know."""

    def all(self) -> list[Seen]:
        """Return every device the caller has, lost ones too."""
        if not self.owner:
            return [Seen(d.index, d, d.instances, read(d, self.at)) for d in self.board.devices]
        return [self._seen(number, device) for number, device in enumerate(self._mine())]

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

    def _given(self) -> Sequence[tuple[Device, int | None]]:
        return self.board.visible(self.owner) if self.slots is None else self.slots

    def _mine(self) -> list[Device]:
        return list(dict.fromkeys(device for device, _ in self._given()))

    def _seen(self, number: int, device: Device) -> Seen:
        ids = {instance for other, instance in self._given() if other is device}
        whole = device.mig_mode and ids == {None}
        mine = tuple(item for item in device.instances if whole or item.id in ids)
        return Seen(number, device, mine, read(device, self.at))


def chosen(view: View, only: Iterable[str]) -> list[Seen]:
    """Return the devices that ``-i`` names by number, address or UUID; all where it names none. Raises NoDevices."""
    wanted = {word.strip().lower() for word in only}
    seen = [item for item in view.present() if not wanted or wanted & item.names]
    if wanted and not seen:
        raise NoDevices
    return seen
