"""The health paths: livez, readyz, healthz, and each check of theirs by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from kubesim import data
from kubesim.api.answers import text_response

_TABLE = data.read(Path(__file__).with_suffix(".yaml"))
CHECKS: dict[str, list[str]] = {path: [*first, *_TABLE["hooks"]] for path, first in _TABLE["first"].items()}
CHECKS["readyz"].append("shutdown")
"""The checks of each path; a cluster that answers has passed them all."""


def indicators() -> str:
    """Return the series of /metrics/slis: each check with its last result."""
    name, help_text = "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck."
    series = [f'{name}{{name="{check}",type="{path}"}} 1' for path in sorted(CHECKS) for check in CHECKS[path]]
    return "\n".join([f"# HELP {name} {help_text}", f"# TYPE {name} gauge", *sorted(series)]) + "\n"


def answer(path: str, check: str, *, verbose: bool, exclude: Sequence[str]) -> web.Response | None:
    """Answer a health path, or one check of it; None where there is no such check."""
    checks = CHECKS[path]
    if check:
        return text_response("ok") if check in checks else None
    if not verbose:
        return text_response("ok")
    lines = [f"[+]{name} {'excluded: ' if name in exclude else ''}ok" for name in checks]
    unknown = ", ".join(f'"{name}"' for name in sorted(set(exclude) - set(checks)))
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    return text_response("\n".join([*lines, f"{path} check passed"]) + "\n")
