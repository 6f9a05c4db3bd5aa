"""Access of a container to its node's devices and kernel log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kubesim.gpu.board import Board
from kubesim.gpu.cuda import INSUFFICIENT_DRIVER, MISMATCH, NO_DEVICE, Cuda
from kubesim.gpu.devices import Device
from kubesim.gpu.kernel_log import KernelLog
from kubesim.gpu.smi.view import View


@dataclass(frozen=True, slots=True)
class Access:
    """Access of ``owner`` (namespace/pod/container) to what it was given; ``privileged``: to all of the node.

    ``asked`` is NVIDIA_VISIBLE_DEVICES of a container that the toolkit's own runtime starts: that one believes it.
    """

    board: Board
    owner: str
    privileged: bool = False
    asked: str = ""

    def view(self, at: datetime) -> View:
        """Return what nvidia-smi sees at a moment."""
        return View(self.board, at, "" if self.privileged else self.owner, tuple(self.slots()))

    @property
    def has_driver(self) -> bool:
        """Tell whether the container has the device files, at least."""
        mine = self.privileged or self.injected
        return bool(self.board.devices) and self.board.toolkit and mine

    @property
    def injected(self) -> bool:
        """Whether the container toolkit puts the driver's programs and libraries into the container."""
        return self.owner in self.board.given or bool(self.asked)

    def slots(self) -> list[tuple[Device, int | None]]:
        """Return the devices, with the MIG instances, that the container has: of a privileged one all."""
        if self.owner in self.board.given:
            return self.board.visible(self.owner)
        words = {word.strip() for word in self.asked.split(",")}
        every = self.privileged or "all" in words
        return [(each, None) for each in self.board.devices if every or words & {str(each.index), each.uuid}]

    def driver_error(self) -> int:
        """Return CUDA's error where the driver cannot be used by anybody in the container; 0 where it can."""
        if not (self.has_driver and self.injected):
            return INSUFFICIENT_DRIVER
        if not self.board.loaded:
            return NO_DEVICE
        return MISMATCH if self.board.mismatched else 0

    def cuda(
        self,
        environment: Mapping[str, str],
        pid: int,
        name: str,
        now: Callable[[], datetime],
        struck: Callable[[int], None] = lambda code: None,
    ) -> Cuda:
        """Return the CUDA driver for a process: ``pid`` is its number on the node, ``name`` its program."""
        return Cuda(self, environment, pid, name, now, struck)

    @property
    def log(self) -> KernelLog | None:
        """The node's kernel log, for who may read it."""
        return self.board.log if self.privileged else None
