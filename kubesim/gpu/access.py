"""Access of a container to its node's devices and kernel log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from kubesim.gpu.board import Board
from kubesim.gpu.cuda import INSUFFICIENT_DRIVER, MISMATCH, NO_DEVICE, Cuda, CudaDevice, CudaError
from kubesim.gpu.devices import Device
from kubesim.gpu.preload import ReadFile
from kubesim.gpu.smi.view import View
from kubesim.gpu.xids import KernelLog


@dataclass(frozen=True, slots=True)
class Access:
    """Access of ``owner`` (namespace/pod/container) to what it was given; ``privileged``: to all of the node.

    ``asked`` is NVIDIA_VISIBLE_DEVICES of a container that the toolkit's own runtime starts: that one believes it.
    """

    board: Board
    owner: str
    privileged: bool = False
    asked: str = ""
    read: ReadFile = lambda path: None
    """Reads a file of the container, as a library that its processes preload."""

    def view(self, at: datetime) -> View:
        """Return what nvidia-smi sees at a moment."""
        return View(self.board, at, "" if self.privileged else self.owner, tuple(self.devices()))

    @property
    def has_driver(self) -> bool:
        """Tell whether the container has the device files, at least."""
        mine = self.privileged or self.injected
        return bool(self.board.devices) and self.board.toolkit and mine

    @property
    def injected(self) -> bool:
        """Whether the container toolkit puts the driver's programs and libraries into the container."""
        return self.owner in self.board.given or bool(self.asked)

    def devices(self) -> list[Device]:
        """Return the devices that the container has: of a privileged one all."""
        if self.owner in self.board.given:
            return self.board.visible(self.owner)
        words = {word.strip() for word in self.asked.split(",")}
        every = self.privileged or "all" in words
        return [each for each in self.board.devices if every or words & {str(each.index), each.uuid}]

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


ABSENT = (INSUFFICIENT_DRIVER, NO_DEVICE)
"""CUDA's errors with which libraries fall back to the CPU without a word."""


@dataclass(frozen=True, slots=True)
class Found:
    """The GPUs of a process by their ordinals. ``speed``: the first one's beside a whole H100."""

    names: tuple[str, ...] = ()
    mib: tuple[int, ...] = ()
    speed: float = 0.0
    error: int = INSUFFICIENT_DRIVER
    """CUDA's error of its first call, or of its first context; 0: it may compute."""
    after_s: float = 0.0
    """For how long the call has blocked before it failed."""
    cores: float = 0.0
    """The processors it may use; 0: as many as it wants."""
    compute: float = 0.0
    """The first one's compute capability."""

    @property
    def absent(self) -> bool:
        """Tell whether there is no GPU for it at all."""
        return self.error in ABSENT

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes."""
        return asdict(self)

    @classmethod
    def load(cls, saved: dict[str, Any] | None) -> Found | None:
        """Rebuild from ``dump``, after a journey through JSON."""
        if saved is None:
            return None
        return cls(**{**saved, "names": tuple(saved["names"]), "mib": tuple(saved["mib"])})


def look(
    access: Access, environment: Mapping[str, str], now: datetime, cores: float = 0.0
) -> tuple[Found, tuple[CudaDevice, ...]]:
    """Return what a process of a container finds that starts now, and the devices themselves."""
    cuda = access.cuda(environment, 0, "", lambda: now)
    try:
        devices = cuda.devices()
        error, after_s = next(
            ((code, wait) for code, wait in map(cuda.failure, range(len(devices))) if code), (0, 0.0)
        )
    except CudaError as failed:
        return Found(error=failed.code, after_s=failed.after_s, cores=cores), ()
    names, sizes = tuple(each.name for each in devices), tuple(each.total >> 20 for each in devices)
    speed = devices[0].device.product.speed * cuda.speed(0)
    compute = float(devices[0].device.product.compute)
    return Found(names, sizes, speed, error, after_s, cores, compute), () if error else devices
