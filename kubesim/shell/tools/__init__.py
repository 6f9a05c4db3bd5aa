"""The programs of containers, by theme. ``TOOLS`` names them; which of them an image has, ``rootfs`` says."""

from __future__ import annotations

from kubesim.shell import sh
from kubesim.shell.machine import Tool
from kubesim.shell.tools import filetools, ls, order, paths, processes, text

TOOLS: dict[str, Tool] = {
    **sh.TOOLS,
    **filetools.TOOLS,
    **ls.TOOLS,
    **order.TOOLS,
    **paths.TOOLS,
    **processes.TOOLS,
    **text.TOOLS,
}
