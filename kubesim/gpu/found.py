"""Devices that a program has found when it started: what its log, its speed and its failures follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from kubesim.gpu.access import Access
from kubesim.gpu.cuda import INSUFFICIENT_DRIVER, NO_DEVICE, CudaDevice, CudaError

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
