"""kubectl."""

from __future__ import annotations

from kubesim.shell.kubectl.verbs import run
from kubesim.shell.machine import Tool

TOOLS: dict[str, Tool] = {"kubectl": run}
