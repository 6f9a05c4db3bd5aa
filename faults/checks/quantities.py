"""Quantities as Kubernetes writes them: 500m, 32Gi, 1e3."""

from __future__ import annotations

import re

_FORM = re.compile(r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))(?:([eE][+-]?\d{1,2})|([A-Za-z]{1,2}))?")
_DECIMAL = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{letter}i": float(1 << (10 * power)) for power, letter in enumerate("KMGTPE", start=1)}
_FACTORS = {"": 1.0, **_DECIMAL, **_BINARY}


def parse_quantity(text: str) -> float | None:
    """Return the number of a quantity; None for what is none."""
    found = _FORM.fullmatch(text)
    if found is None or (found[3] or "") not in _FACTORS:
        return None
    return float(found[1] + (found[2] or "")) * _FACTORS[found[3] or ""]
