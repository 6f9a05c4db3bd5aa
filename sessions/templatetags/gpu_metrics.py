"""The heat map of a node's GPUs, and how their readings are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from faults.metrics import GpuReading

register = template.Library()
SHADES, FILLS = 5, 8
BUSY_PERCENT = 1.0
HOT_C = 85.0  # NVIDIA's data-centre GPUs slow down between 87 and 92 degrees
_MIB_PER_GIB = 1024
MAX_CELLS = 16
_NOTHING = "–"


@register.simple_tag
def gpu_heat(readings: Sequence[GpuReading], gpus: int) -> SafeString:
    """Return one cell for each GPU: shaded by utilisation, filled by memory, marked where it is hot or had an Xid.

    A GPU that the node has and Prometheus does not know is a dashed cell.
    """
    cells = format_html_join(
        "", '<i class="{}" title="{}"></i>', ((cell_class(gpu), in_words(gpu)) for gpu in readings)
    )
    missing = SafeString(
        '<i class="gone" title="No metrics of this GPU"></i>' * (min(gpus, MAX_CELLS) - len(readings))
    )
    return format_html('<span class="heat" role="img" aria-label="{}">{}{}</span>', summary(readings), cells, missing)


@register.filter
def model(product: str) -> str:
    """Return the model of a product label: ``H100`` of ``NVIDIA-H100-80GB-HBM3``."""
    return _named(product).partition("-")[0]


@register.filter
def make(product: str) -> str:
    """Return what tells boards of a model apart: ``80GB-HBM3`` of ``NVIDIA-H100-80GB-HBM3``."""
    return _named(product).partition("-")[2]


@register.filter
def percent(value: float | None) -> str:
    """Return a share in per cent."""
    return _NOTHING if value is None else f"{value:.0f} %"


@register.filter
def gib(mib: float | None) -> str:
    """Return MiB as GiB, without the unit."""
    return _NOTHING if mib is None else f"{mib / _MIB_PER_GIB:.1f}"


@register.filter
def celsius(value: float | None) -> str:
    """Return a temperature."""
    return _NOTHING if value is None else f"{value:.0f} °C"


@register.filter
def is_hot(value: float | None) -> bool:
    """Return whether a GPU is about to slow itself down."""
    return value is not None and value >= HOT_C


def cell_class(gpu: GpuReading) -> str:
    """Return the classes of a cell: shade 0 to 5, fill 0 to 8, and what is wrong."""
    if gpu.util is None and gpu.used_mib is None:
        return "gone"
    parts = [
        f"u{_step(gpu.util or 0.0, 100.0, SHADES)}",
        f"m{_step(gpu.used_mib or 0.0, gpu.total_mib or 0.0, FILLS)}",
    ]
    marks = [("hot", is_hot(gpu.temperature)), ("xid", bool(gpu.xid)), ("held", bool(gpu.pod))]
    return " ".join([*parts, *(name for name, applies in marks if applies)])


def in_words(gpu: GpuReading) -> str:
    """Return one GPU's readings in a line."""
    memory = f"{gib(gpu.used_mib)} of {gib(gpu.total_mib)} GiB" if gpu.used_mib is not None else ""
    busy = f"{percent(gpu.util)} busy" if gpu.util is not None else ""
    heat = celsius(gpu.temperature) if gpu.temperature is not None else ""
    xid = f"Xid {gpu.xid:.0f}" if gpu.xid else ""
    return f"GPU {gpu.gpu}: " + (
        ", ".join(part for part in (busy, memory, heat, xid, gpu.pod) if part) or "no metrics"
    )


def summary(readings: Iterable[GpuReading]) -> str:
    """Return a node's GPUs in a sentence, for those who do not see the cells."""
    known = list(readings)
    busy = [gpu.util for gpu in known if gpu.util is not None]
    hottest = max((gpu.temperature for gpu in known if gpu.temperature is not None), default=None)
    working = sum(util >= BUSY_PERCENT for util in busy)
    parts = [
        f"{len(known)} {'GPU' if len(known) == 1 else 'GPUs'}",
        f"{working} at work" + (f", {sum(busy) / len(busy):.0f} % on average" if busy else ""),
    ]
    parts += [f"{celsius(hottest)} at most"] if hottest is not None else []
    parts += [f"Xid {gpu.xid:.0f} on GPU {gpu.gpu}" for gpu in known if gpu.xid]
    return "; ".join(parts)


def _named(product: str) -> str:
    return product.removeprefix("NVIDIA-").removeprefix("Tesla-")


def _step(value: float, whole: float, steps: int) -> int:
    """Return which of so many equal steps a value has reached; 0 is nothing at all."""
    if whole <= 0 or value < whole / 100:
        return 0
    return min(max(math.ceil(steps * value / whole), 1), steps)
