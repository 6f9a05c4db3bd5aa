"""What a device's sensors say at a moment. Every value is worked out when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubesim.gpu.devices import Device, State, Task, energy_mj, power_share, temperature
from kubesim.gpu.devices import limit as power_limit
from kubesim.gpu.products import Load, Range, swing, warm

SLOWED = 0.45
"""Share of its clocks that a device keeps while the hardware slows it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The sensors of ``device`` at ``at``: MHz, MiB, watts, degrees Celsius, bytes per second, shares of time."""

    device: Device
    state: State
    at: datetime

    @property
    def util(self) -> int:
        """Percent of the time that a kernel ran."""
        return round(self._strongest("util", lambda load: load.util))

    @property
    def memory_util(self) -> int:
        """Percent of the time that memory was read or written."""
        return round(self._strongest("mem", lambda load: load.memory_util))

    @property
    def power(self) -> float:
        """Watts."""
        idle, limit = self.device.product.power["idle"], self.device.product.power["limit"]
        share = power_share(self.state, lambda task: self._now(task, "power", task.load.power))
        flicker = swing((-0.006, 0.006), self.at.timestamp() % 86400, 4, self.device.seed)
        brake = 0.5 if self.state.trouble.hot or self.state.trouble.power_brake else 1.0
        drawn = max(idle + (limit - idle) * share * brake + limit * flicker * 0.3, idle * 0.95)
        return round(min(drawn, self.limit * (1 + flicker * 0.3)), 2)

    @property
    def limit(self) -> float:
        """Watts that it may draw."""
        return power_limit(self.device.product, self.state.settings)

    @property
    def throttle(self) -> frozenset[str]:
        """Reasons of ``clocks_event_reasons`` that hold."""
        reasons = {
            "hw_thermal_slowdown": self.state.trouble.hot,
            "hw_power_brake_slowdown": self.state.trouble.power_brake,
            "sw_power_cap": self.power > self.limit * 0.985,
            "gpu_idle": not self.state.tasks,
        }
        return frozenset(name for name, holds in reasons.items() if holds)

    @property
    def sm_clock(self) -> int:
        """Clock of the multiprocessors."""
        ceiling = self.device.product.clocks["most"][0]
        if not self.state.tasks:
            return int(self.device.product.clocks["idle"][0])
        capped = 0.93 if "sw_power_cap" in self.throttle else 1.0
        return ceiling if capped * self._slow == 1.0 else round(ceiling * self._slow * capped / 15) * 15

    @property
    def video_clock(self) -> int:
        """Clock of the video engines."""
        idle, most = self.device.product.clocks["video"]
        return most if self.state.tasks else idle

    @property
    def mem_clock(self) -> int:
        """Clock of the memory; products that idle in P0 keep it up."""
        idle, most = self.device.product.clocks["idle"][1], self.device.product.clocks["most"][1]
        return most if self.state.tasks or self.device.product.idle_state == "P0" else idle

    @property
    def performance(self) -> str:
        """The performance state."""
        return "P0" if self.state.tasks else self.device.product.idle_state

    @property
    def temperature(self) -> int:
        """Of the chip."""
        return round(temperature(self.device.product, self.state, self.at))

    @property
    def memory_temperature(self) -> int:
        """Of the memory; 0 where it has no sensor."""
        return self.temperature + 8 if self.device.product.temperature["memory"] else 0

    @property
    def used(self) -> int:
        """Memory that processes hold."""
        return self.device.used(self.at)

    @property
    def reserved(self) -> int:
        """Memory that the driver keeps."""
        return self.device.product.reserved

    @property
    def free(self) -> int:
        """Memory that is left."""
        return max(self.device.product.memory - self.reserved - self.used, 0)

    @property
    def sm_active(self) -> float:
        """Share of the time in which multiprocessors had work."""
        return self._strongest("sm", lambda load: load.sm) * self._slow

    @property
    def tensor_active(self) -> float:
        """Share of the time in which tensor cores worked."""
        return self._strongest("tensor", lambda load: load.tensor) * self._slow

    @property
    def dram_active(self) -> float:
        """Share of the time in which memory moved data."""
        return self._strongest("dram", lambda load: load.dram) * self._slow

    @property
    def pcie_tx(self) -> float:
        """Bytes per second sent over PCIe."""
        return self._strongest("tx", lambda load: load.pcie) * 1e9

    @property
    def pcie_rx(self) -> float:
        """Bytes per second received over PCIe."""
        return self._strongest("rx", lambda load: load.pcie) * 1.6e9

    @property
    def nvlink(self) -> float:
        """Bytes per second over the links that are up."""
        links, down = self.device.product.nvlinks, len(self.state.trouble.links_down)
        if links <= down:
            return 0.0
        return self._strongest("nvlink", lambda load: load.nvlink) * 1e9 * (links - down) / links

    @property
    def energy_mj(self) -> int:
        """Millijoules since boot."""
        return int(energy_mj(self.device.product, self.state, self.at))

    @property
    def _slow(self) -> float:
        return SLOWED if self.state.trouble.hot or self.state.trouble.power_brake else 1.0

    def _strongest(self, key: str, pick: Callable[[Load], Range]) -> float:
        """Return the greatest of what the processes do: a shared device is as busy as its busiest user."""
        if self.state.trouble.stalled or self.state.trouble.reset_required:
            return 0.0  # the engines have stopped, whoever waits for them
        return max((self._now(task, key, pick(task.load)) for task in self.state.tasks), default=0.0)

    def _now(self, task: Task, key: str, span: Range) -> float:
        """Return what one process does at this moment, of a span in which it wanders."""
        elapsed = task.elapsed(self.at)
        moment = swing(span, elapsed, task.load.period, f"{self.device.seed}/{task.owner}/{key}")
        return moment * warm(task.load, elapsed)


def read(device: Device, at: datetime) -> Reading:
    """Return the sensors of a device at a moment, past ones included."""
    return Reading(device, device.state_at(at), at)


def find(value: Any, path: str) -> Any:
    """Return what lies at a path of names and numbers, as ``state.ecc.corrected.0``."""
    for part in path.split("."):
        if part.isdecimal():
            value = value[int(part)]
        else:
            value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value
