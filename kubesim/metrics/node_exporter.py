"""node_exporter: the series of a node, made of the same figures as what its shells show (free, uptime, df, top)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubesim import data
from kubesim.gpu.board import BUILD, KERNEL
from kubesim.kubelet.host import Node
from kubesim.metrics.exposition import Exposed, Family
from kubesim.metrics.promql.values import NAME, Labels
from kubesim.metrics.scrape import Function, Timeline
from kubesim.shell.share import Disk

_table: data.Reader[list[list[Any]]] = data.beside(__file__, "node_exporter.yaml")
SYSTEM_RECEIVED, SYSTEM_SENT = 21_400.0, 9_800.0
"""Bytes per second of what does not belong to a pod."""
PACKET = 940
"""Bytes of a packet on the average."""
ROOT = {"device": "/dev/sda1", "device_error": "", "fstype": "ext4", "mountpoint": "/"}


@dataclass(frozen=True, slots=True)
class Moment:
    """A node at a moment of time, in seconds since 1970."""

    node: Node
    at: float
    disk: Timeline[int]
    """Bytes used of its disk, whenever somebody asked."""

    @property
    def filled(self) -> int:
        """Bytes used of its disk; before anybody asked as many as then."""
        found = self.disk.at(self.at)
        return self.disk.first if found is None else found

    @property
    def up(self) -> float:
        """Seconds since its start."""
        return self.node.ledger.at(self.at).up_s

    @property
    def busy(self) -> float:
        """Core seconds since its start."""
        return self.node.ledger.at(self.at).busy_s

    @property
    def network(self) -> tuple[float, float]:
        """Bytes received and sent since its start."""
        received, sent = self.node.ledger.network(self.at)
        return received + SYSTEM_RECEIVED * self.up, sent + SYSTEM_SENT * self.up


Measure = Callable[[Moment], float]
MEASURES: dict[str, Measure] = {
    "load1": lambda m: round(m.node.ledger.at(m.at).loads[0], 2),
    "load5": lambda m: round(m.node.ledger.at(m.at).loads[1], 2),
    "load15": lambda m: round(m.node.ledger.at(m.at).loads[2], 2),
    "booted": lambda m: float(int(m.node.ledger.booted)),
    "time": lambda m: m.at,
    "running": lambda m: float(round(m.node.ledger.at(m.at).loads[0]) + 1),
    "oom": lambda m: _killed(m),
    "received": lambda m: float(int(m.network[0])),
    "sent": lambda m: float(int(m.network[1])),
    "received_packets": lambda m: float(int(m.network[0] / PACKET)),
    "sent_packets": lambda m: float(int(m.network[1] / PACKET)),
}
Line = tuple[Family, Labels, Measure]


def _killed(moment: Moment) -> float:
    """Return how many processes the kernel's log knows that were killed for want of memory."""
    log, at = moment.node.gpus.board.log, moment.at
    return float(sum("out of memory: Killed" in r.text and log.at(r).timestamp() <= at for r in log.records()))


def _cpus(node: Node, name: str, help_: str) -> Iterator[Line]:
    family = Family(name, "counter", help_)
    vitals = node.ledger.at(node.ledger.booted)
    for number in range(vitals.cpus):
        for mode in sorted(vitals.times()):
            yield family, {"cpu": str(number), "mode": mode}, _of_mode(mode, vitals.cpus)


@cache
def _of_mode(mode: str, cpus: int) -> Measure:
    return lambda m: round(m.node.ledger.at(m.at).times()[mode] / cpus, 2)


def _memory(node: Node, name: str, help_: str) -> Iterator[Line]:
    for field in node.ledger.at(node.ledger.booted).meminfo():
        plain = field.replace("(", "_").replace(")", "")
        shown = plain if plain.startswith("HugePages") else f"{plain}_bytes"
        yield Family(f"{name}_{shown}", "gauge", help_.format(shown)), {}, _of_field(field)


@cache
def _of_field(field: str) -> Measure:
    return lambda m: float(m.node.ledger.at(m.at).meminfo()[field] // 1024 * 1024)


def _disk(value: Callable[[Disk, int], float]) -> Rows:
    """Return the row of the node's disk; ``value`` is of the disk, and of the bytes that were used of it."""

    def rows(node: Node, name: str, help_: str) -> Iterator[Line]:
        yield Family(name, "gauge", help_), ROOT, lambda m: float(value(m.node.disk.room, m.filled))

    return rows


def _uname(node: Node, name: str, help_: str) -> Iterator[Line]:
    labels = {"domainname": "(none)", "machine": "x86_64", "nodename": node.name, "release": KERNEL}
    more = {"sysname": "Linux", "version": BUILD}
    yield Family(name, "gauge", help_), {**labels, **more}, lambda m: 1.0


def _interfaces(node: Node, name: str, help_: str) -> Iterator[Line]:
    address = "42:01:" + ":".join(f"{int(part):02x}" for part in node.ip.split(".") if part.isdecimal())
    rest = {"adminstate": "up", "broadcast": "ff:ff:ff:ff:ff:ff", "duplex": "full", "ifalias": "", "operstate": "up"}
    yield Family(name, "gauge", help_), {"address": address, "device": "eth0", **rest}, lambda m: 1.0


Rows = Callable[[Node, str, str], Iterator[Line]]
ROWS: Mapping[str, Rows] = {
    "cpu*": _cpus,
    "memory*": _memory,
    "disk_size*": _disk(lambda disk, used: disk.limit),
    "disk_free*": _disk(lambda disk, used: max(disk.limit - used, 0)),
    "disk_files*": _disk(lambda disk, used: disk.inodes),
    "disk_files_free*": _disk(lambda disk, used: max(disk.inodes - disk.entries, 0)),
    "disk_zero*": _disk(lambda disk, used: 0),
    "uname*": _uname,
    "interface*": _interfaces,
}


def family(name: str) -> Family | None:
    """Return what is told of a metric; None for one that is not a node's."""
    for row, kind, help_, value, *_ in _table():
        if row == name:
            return Family(name, kind, help_)
        if value == "memory*" and name.startswith(row):
            return Family(name, kind, help_.format(name.removeprefix(f"{row}_")))
    return None


def _lines(node: Node, wanted: str) -> Iterator[Line]:
    """Yield what is told of a node under one name ("" for all)."""
    for name, kind, help_, value, *labels in _table():
        if wanted and wanted != name and not (value == "memory*" and wanted.startswith(name)):
            continue
        if isinstance(value, str) and value in ROWS:
            yield from (line for line in ROWS[value](node, name, help_) if wanted in ("", line[0].name))
        else:
            measure = MEASURES[value] if isinstance(value, str) else _figure(value)
            for found in _each(labels[0] if labels else {}):
                yield Family(name, kind, help_), found, measure


def _each(labels: Mapping[str, Any]) -> Iterator[Labels]:
    """Yield the labels of a row, once for each value of a list among them."""
    name = next((name for name, value in labels.items() if isinstance(value, list)), "")
    for value in labels[name] if name else ("",):
        yield {**labels, name: value} if name else labels


def _figure(value: float | Mapping[str, float]) -> Measure:
    """Return the measure of a number, or of one that grows with the node's time and its work."""
    if not isinstance(value, dict):
        return lambda m: float(value)  # type: ignore[arg-type]
    up, busy, digits = value["up"], value.get("busy", 0), value.get("digits")
    if digits is None:
        return lambda m: float(int(m.up * up + m.busy * busy))
    return lambda m: round(m.up * up + m.busy * busy, int(digits))


class NodeExporter:
    """The exporter of one node. It remembers how full the disk was when it was asked."""

    def __init__(self, node: Node, now: float) -> None:
        self.node = node
        self._disk = Timeline(now, node.disk.room.look())
        self._looked = now

    def look(self, now: float) -> None:
        """Come up to now: what has changed did so as soon as somebody had looked the last time."""
        self.node.ledger.look(now)
        self._disk.set(self._looked, self.node.disk.room.look())
        self._looked = now

    def series(self, name: str, now: float) -> Iterator[Function]:
        """Yield the series of one metric ("" for all)."""
        if name and not name.startswith("node_"):
            return
        self.look(now)
        for family, labels, measure in _lines(self.node, name):
            yield Function({NAME: family.name, **labels}, self._since(measure))

    def _since(self, measure: Measure) -> Callable[[float], float | None]:
        """Return a measure as it is known since the node was started."""
        node, disk = self.node, self._disk

        def call(moment: float) -> float | None:
            return measure(Moment(node, moment, disk)) if moment >= node.ledger.booted else None

        return call

    def exposed(self, now: float) -> Iterator[Exposed]:
        """Yield the lines of its page."""
        self.look(now)
        for family, labels, measure in _lines(self.node, ""):
            yield Exposed(family, labels, measure(Moment(self.node, now, self._disk)))
