"""dcgm-exporter: the series of a node's devices (names, units and label order of the exporter's default counters)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache

from kubesim import data
from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device, State
from kubesim.gpu.products import driver
from kubesim.gpu.readings import Reading, read
from kubesim.gpu.xids import xids
from kubesim.metrics.exposition import Exposed, Family
from kubesim.metrics.promql.values import NAME
from kubesim.metrics.scrape import Function

Value = Callable[[Reading], float | None]


@dataclass(frozen=True, slots=True)
class Counter:
    """A field of DCGM: its family, and its value in a reading (None: the device has no such sensor)."""

    family: Family
    value: Value


XID = "DCGM_FI_DEV_XID_ERRORS"
"""The one counter of a device that has fallen off the bus: DCGM has its value from an event, not from the device."""
_OTHERS: dict[str, Value] = {
    "memory_temperature_sensor": lambda reading: reading.memory_temperature or None,
    "nothing": lambda reading: 0.0,
    "replays": lambda reading: reading.state.replays,
    "xid": lambda reading: reading.state.xid,
    "uncorrected_rows": lambda reading: reading.state.remap.uncorrected,
    "corrected_rows": lambda reading: reading.state.remap.corrected,
    "remap_failure": lambda reading: float(reading.state.remap.failed),
    "nvlink_megabytes": lambda reading: round(reading.nvlink / 1e6) if reading.device.product.nvlinks else None,
}


@cache
def counters() -> dict[str, Counter]:
    """Return the exporter's counters by name, in its order."""
    rows = data.table(__file__, "dcgm.yaml")
    found = [Counter(Family(f"DCGM_FI_{name}", kind, text), _value(value)) for name, kind, text, value in rows]
    return {counter.family.name: counter for counter in found}


def _value(name: str) -> Value:
    return _OTHERS.get(name) or (lambda reading: round(getattr(reading, name), 6))


def series(board: Board, name: str, start: float, end: float) -> Iterator[Function]:
    """Yield the series of one metric ("" for all) of a node's devices, one for each owner they had in the span."""
    known = counters()
    wanted = [known[name]] if name in known else [] if name else list(known.values())
    if not wanted:
        return
    since, until = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    for device in board.devices:
        states = [device.state] if device.state.since <= since else device.states(since, until)
        for owner in _owners(states[0]) if len(states) == 1 else dict.fromkeys(o for s in states for o in _owners(s)):
            labels = labels_of(board, device, owner)
            for counter in wanted:
                told = counter.family.name == XID
                for code in dict.fromkeys(state.xid for state in states) if told else (None,):
                    named = labels if code is None else labels_of(board, device, owner, code)
                    yield Function({NAME: counter.family.name, **named}, _at(board, device, owner, counter, code))


def exposed(board: Board, at: datetime) -> Iterator[Exposed]:
    """Yield the lines of the exporter's page."""
    for counter in counters().values() if board.loaded else ():
        for device in board.devices:
            reading = read(device, at)
            told = counter.family.name == XID
            value = None if reading.state.trouble.lost and not told else counter.value(reading)
            code = reading.state.xid if told else None
            for owner in _owners(reading.state) if value is not None else ():
                yield Exposed(counter.family, labels_of(board, device, owner, code), value or 0.0)


def labels_of(board: Board, device: Device, owner: str, xid: int | None = None) -> dict[str, str]:
    """Return the labels of a device, and of the container that has it (``namespace/pod/container``, or empty).

    ``xid``: that of the counter of Xids, which names it; 0 for none yet.
    """
    found = {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.pci_address,
        "device": f"nvidia{device.minor}",
        "modelName": device.product.name,
        "Hostname": board.node,
        "DCGM_FI_DRIVER_VERSION": driver().version,
    }
    namespace, pod, container = owner.split("/") if owner else ("", "", "")
    more = {"container": container, "namespace": namespace, "pod": pod} if owner else {}
    if xid is not None:
        more |= {"err_code": str(xid), "err_msg": xids()[xid].message if xid else "No Error"}
    return found | dict(sorted(more.items()))


@lru_cache(maxsize=256)
def _time(moment: float) -> datetime:
    """Return a time; all devices of a node are asked for the same ones."""
    return datetime.fromtimestamp(moment, UTC)


def _owners(state: State) -> Iterable[str]:
    return dict.fromkeys(state.given) or _NOBODY


_NOBODY = ("",)


def _at(
    board: Board, device: Device, owner: str, counter: Counter, code: int | None
) -> Callable[[float], float | None]:
    """Return the series of a counter; that of one Xid is its number, as long as it is the last one."""

    def call(moment: float) -> float | None:
        if board.without_driver is not None and moment >= board.without_driver.timestamp():
            return None
        if code is not None:
            state = device.state_at(_time(moment))
            return code if state.xid == code and owner in _owners(state) else None
        reading = read(device, _time(moment))
        known = not reading.state.trouble.lost and owner in _owners(reading.state)
        return counter.value(reading) if known else None

    return call
