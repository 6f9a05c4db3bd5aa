"""The Prometheus text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from kubesim.metrics.promql.values import NAME, Labels

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its name, what it counts, and its type (gauge, counter, histogram, untyped)."""

    name: str
    type: str
    help: str


@dataclass(frozen=True, slots=True)
class Exposed:
    """One line: labels without the name, and the value."""

    family: Family
    labels: Labels
    value: float
    suffix: str = ""


def render(lines: Iterable[Exposed]) -> str:
    """Return the page of an exporter; the lines of one family stand together, in the order of their first."""
    families: dict[Family, list[str]] = {}
    for line in lines:
        families.setdefault(line.family, []).append(_line(line))
    out: list[str] = []
    for family, found in families.items():
        out += [f"# HELP {family.name} {_help(family.help)}", f"# TYPE {family.name} {family.type}", *found]
    return "\n".join(out) + "\n" if out else ""


def written(value: float) -> str:
    """Return a number as exporters written in Go do (strconv's 'g'): with an exponent from a million on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return str(int(value)) if value == int(value) else repr(value)
    exact = Decimal(repr(value)).normalize()
    sign, digits, _ = exact.as_tuple()
    mantissa = "".join(map(str, digits))
    mantissa = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
    return f"{'-' * sign}{mantissa}e{exact.adjusted():+03d}"


def _line(line: Exposed) -> str:
    labels = ",".join(f'{name}="{value.translate(ESCAPES)}"' for name, value in line.labels.items() if name != NAME)
    return (
        f"{line.family.name}{line.suffix}{{{labels}}} {written(line.value)}"
        if labels
        else (f"{line.family.name}{line.suffix} {written(line.value)}")
    )


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
