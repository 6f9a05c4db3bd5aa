"""The programs of containers, by theme. ``TOOLS`` names them; which of them an image has, ``rootfs`` says."""

from __future__ import annotations

from kubesim.shell.machine import Tool
from kubesim.shell.tools import basics

TOOLS: dict[str, Tool] = {**basics.TOOLS}
