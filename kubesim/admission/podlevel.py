"""What the containers of a pod ask for together, and what a pod asks for as a whole where it says only some of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kubesim.api.quantity import parse, write
from kubesim.errors import Obj

HUGE = "hugepages-"
OVERCOMMITTED = ("cpu", "memory")


def fill(spec: Obj) -> None:
    """Complete what a pod asks for as a whole from what its containers ask for."""
    whole = spec.get("resources") or {}
    if not whole.get("limits") and not whole.get("requests"):
        return
    limits, requests = dict(whole.get("limits") or {}), dict(whole.get("requests") or {})
    pages = {name: value for name, value in together(spec, "limits").items() if name.startswith(HUGE)}
    limits = {**{name: value for name, value in pages.items() if name not in requests}, **limits}
    if limits:
        asked = {name: value for name, value in together(spec, "requests").items() if name in OVERCOMMITTED}
        own = {name: value for name, value in limits.items() if name in OVERCOMMITTED or name.startswith(HUGE)}
        requests = {**own, **asked, **requests}
    for part, quantities in (("limits", limits), ("requests", requests)):
        if quantities:
            whole[part] = dict(sorted(quantities.items()))


def together(spec: Obj, part: str) -> dict[str, str]:
    """Return what the containers have at once at most: before the pod has begun, or after."""
    running: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    texts: dict[str, str] = {}
    for name, value, kind in _parts(spec, part):
        texts.setdefault(name, value)
        if kind != "init":
            running[name] = running.get(name, Fraction()) + parse(value)
        beside = parse(value) if kind == "init" else Fraction()
        most[name] = max(most.get(name, Fraction()), running.get(name, Fraction()) + beside)
    return {name: write(total, "binary" if texts[name][-1:] == "i" else "decimal") for name, total in most.items()}


def _parts(spec: Obj, part: str) -> Iterator[tuple[str, str, str]]:
    for entry in spec.get("initContainers") or ():
        kind = "sidecar" if entry.get("restartPolicy") == "Always" else "init"
        yield from ((*item, kind) for item in ((entry.get("resources") or {}).get(part) or {}).items())
    for entry in spec.get("containers") or ():
        yield from ((*item, "main") for item in ((entry.get("resources") or {}).get(part) or {}).items())
