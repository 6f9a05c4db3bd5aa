"""``dcgmi stats``: what devices did while a job ran, or a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.gpu.dcgm.engine import Job
from kubesim.gpu.dcgm.verdicts import troubles, worst
from kubesim.gpu.devices import Task, energy_mj
from kubesim.gpu.readings import Reading, read
from kubesim.gpu.smi.view import Seen

SAMPLES = 40
NOT_SUPPORTED = "Not Supported"
_RULE = "+------------------------------------+-----------------------------------------+"
_HEADS = {
    "execution": "|-----  Execution Stats  ------------+-----------------------------------------|",
    "performance": "+-----  Performance Stats  ----------+-----------------------------------------+",
    "events": "+-----  Event Stats  ----------------+-----------------------------------------+",
    "slowdown": "+-----  Slowdown Stats  -------------+-----------------------------------------+",
    "processes": "+--  Compute Process Utilization  ---+-----------------------------------------+",
    "health": "+-----  Overall Health  -------------+-----------------------------------------+",
}
Rows = list[tuple[str, object]]


@dataclass(frozen=True, slots=True)
class Span:
    """Devices in a span of time."""

    seen: list[Seen]
    start: datetime
    stop: datetime

    def samples(self, item: Seen) -> list[Reading]:
        """Return readings spread over the span."""
        step = (self.stop - self.start).total_seconds() / max(SAMPLES - 1, 1)
        return [read(item.device, self.start + timedelta(seconds=step * number)) for number in range(SAMPLES)]

    def joules(self) -> int:
        """Return the energy of all devices."""
        return sum(round((_energy(item, self.stop) - _energy(item, self.start)) / 1000) for item in self.seen)

    def tasks(self, item: Seen) -> list[Task]:
        """Return the processes that a device had."""
        states = item.device.states(self.start, self.stop)
        return list({task.pid: task for state in states for task in state.tasks}.values())

    def summary(self, get: Callable[[Reading], float]) -> str:
        """Return mean, most and least of something over devices and time."""
        values = [get(reading) for item in self.seen for reading in self.samples(item)] or [0.0]
        return f"Avg: {sum(values) / len(values):.0f}, Max: {max(values):.0f}, Min: {min(values):.0f}"


def job(job: Job, seen: list[Seen], now: datetime, *, verbose: bool) -> str:
    """Return the tables of a job: one for all devices, or with ``verbose`` one for each."""
    parts = [(f"GPU ID: {item.number}", [item]) for item in seen] if verbose else [("Summary", seen)]
    spans = [(head, Span(items, job.start, job.stop or now)) for head, items in parts]
    return "".join(_table(head, span, running=job.stop is None, verbose=verbose) for head, span in spans)


def process(task: Task, seen: list[Seen], now: datetime, *, verbose: bool) -> str:
    """Return the tables of a process that runs."""
    parts = [(f"GPU ID: {item.number}", [item]) for item in seen] if verbose else [("Summary", seen)]
    return "".join(_table(head, Span(items, task.since, now), running=True, verbose=verbose) for head, items in parts)


def _table(head: str, span: Span, *, running: bool, verbose: bool) -> str:
    parts: list[tuple[str, Rows]] = [
        ("execution", _execution(span, running=running)),
        ("performance", _performance(span, verbose=verbose)),
        ("events", _events(span)),
        ("slowdown", _slowdown(span)),
        *([("processes", _processes(span))] if verbose else []),
        ("health", [("Overall Health", worst([t for item in span.seen for t in troubles(item)]))]),
    ]
    lines = [f"+{'-' * 78}+", f"| {head:<77}|", _RULE.replace("-", "=")]
    for name, rows in parts:
        lines += [_HEADS[name], *(f"| {label:<34} | {value!s:<39} |" for label, value in rows)]
    return "\n".join([*lines, _RULE]) + "\n\n"


def _execution(span: Span, *, running: bool) -> Rows:
    form = "%a %b %e %H:%M:%S %Y"
    return [
        ("Start Time", span.start.strftime(form)),
        ("End Time", "Still Running" if running else span.stop.strftime(form)),
        (
            "Total Execution Time (sec)",
            "Still Running" if running else f"{(span.stop - span.start).total_seconds():.2f}",
        ),
        ("No. of Processes", len({task.pid for item in span.seen for task in span.tasks(item)})),
    ]


def _performance(span: Span, *, verbose: bool) -> Rows:
    most = max((reading.used for item in span.seen for reading in span.samples(item)), default=0)
    rows: Rows = [
        ("Energy Consumed (Joules)", span.joules()),
        ("Power Usage (Watts)", span.summary(lambda reading: reading.power)),
        ("Max GPU Memory Used (bytes)", most * 1024 * 1024),
    ]
    if not verbose:
        return [*rows, ("Clocks and PCIe Performance", "Available per GPU in verbose mode")]
    return [
        *rows,
        ("SM Clock (MHz)", span.summary(lambda reading: reading.sm_clock)),
        ("Memory Clock (MHz)", span.summary(lambda reading: reading.mem_clock)),
        ("SM Utilization (%)", span.summary(lambda reading: reading.util)),
        ("Memory Utilization (%)", span.summary(lambda reading: reading.memory_util)),
        ("PCIe Rx Bandwidth (megabytes)", span.summary(lambda reading: reading.pcie_rx / 1e6)),
        ("PCIe Tx Bandwidth (megabytes)", span.summary(lambda reading: reading.pcie_tx / 1e6)),
    ]


def _events(span: Span) -> Rows:
    ends = [(item.device.state_at(span.start), item.device.state_at(span.stop)) for item in span.seen]
    return [
        ("Single Bit ECC Errors", sum(b.ecc.corrected[1] - a.ecc.corrected[1] for a, b in ends)),
        ("Double Bit ECC Errors", sum(b.ecc.uncorrected[1] - a.ecc.uncorrected[1] for a, b in ends)),
        ("PCIe Replay Warnings", sum(max(b.replays - a.replays, 0) for a, b in ends)),
        ("Critical XID Errors", sum(_xids(item, span) for item in span.seen)),
    ]


def _xids(item: Seen, span: Span) -> int:
    states = item.device.states(span.start, span.stop)
    return sum(bool(after.xid) and after.xid != before.xid for before, after in zip(states, states[1:], strict=False))


def _slowdown(span: Span) -> Rows:
    readings = [reading for item in span.seen for reading in span.samples(item)]

    def share(reason: str) -> int:
        return round(100 * sum(reason in reading.throttle for reading in readings) / max(len(readings), 1))

    return [
        ("Due to - Power (%)", share("sw_power_cap")),
        ("       - Thermal (%)", share("hw_thermal_slowdown")),
        ("       - Reliability (%)", NOT_SUPPORTED),
        ("       - Board Limit (%)", NOT_SUPPORTED),
        ("       - Low Utilization (%)", NOT_SUPPORTED),
        ("       - Sync Boost (%)", 0),
    ]


def _processes(span: Span) -> Rows:
    rows: Rows = []
    for item in span.seen:
        readings = span.samples(item)
        for task in span.tasks(item):
            rows += [
                ("PID", task.pid),
                ("    Avg SM Utilization (%)", round(sum(r.util for r in readings) / len(readings))),
                ("    Avg Memory Utilization (%)", round(sum(r.memory_util for r in readings) / len(readings))),
            ]
    return rows


def _energy(item: Seen, at: datetime) -> float:
    return energy_mj(item.device.product, item.device.state_at(at), at)
