"""``nvidia-smi dmon`` and ``pmon``: a line for each device or process, every second."""

from __future__ import annotations

from kubesim.gpu.smi.view import View

_DEVICES = (
    ("gpu", "Idx"), ("pwr", "W"), ("gtemp", "C"), ("mtemp", "C"), ("sm", "%"), ("mem", "%"), ("enc", "%"),
    ("dec", "%"), ("jpg", "%"), ("ofa", "%"), ("mclk", "MHz"), ("pclk", "MHz"),
)  # fmt: skip


def devices(view: View, call: object) -> tuple[str, int]:
    """Return the heading and one line for each device."""
    lines = ["# " + " ".join(f"{words[row]:>6}" for words in _DEVICES)[2:] for row in (0, 1)]
    for seen in view.present():
        now = seen.reading
        sensors = (seen.number, round(now.power), now.temperature, now.memory_temperature or "-")
        values = (*sensors, now.util, now.memory_util, 0, 0, 0, 0, now.mem_clock, now.sm_clock)
        lines.append(" ".join(f"{value:>6}" for value in values))
    return "\n".join(lines) + "\n", 0


def processes(view: View, call: object) -> tuple[str, int]:
    """Return the heading and one line for each process, a line of dashes for a device without any."""
    lines = [
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command ",
        "# Idx           #    C/G      %      %      %      %      %      %    name ",
    ]
    for seen in view.present():
        busy, memory = str(seen.reading.util), str(seen.reading.memory_util)
        rows = [(str(t.pid), "C", busy, memory, t.name) for t in view.tasks(seen)]
        for words in rows or [("-",) * 5]:
            pid, kind, sm, mem, name = words
            cells = f"{seen.number:>5} {pid:>11} {kind:>6} {sm:>6} {mem:>6}"
            lines.append(f"{cells} {'-':>6} {'-':>6} {'-':>6} {'-':>6}    {name:<15}")
    return "\n".join(lines) + "\n", 0
