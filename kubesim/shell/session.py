"""Interactive shells."""

from __future__ import annotations

from kubesim.shell.interp import Shell


async def run(shell: Shell) -> int:
    """Read commands from the terminal and run them until the end of input or exit."""
    shell.interactive = True
    while True:
        await shell.process.error("$ ")
        line = await shell.process.read()
        if not line:
            return shell.status
        await shell.script(line.decode("utf-8", "surrogateescape"))
