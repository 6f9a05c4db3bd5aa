"""sysctl: what a node's kernel is set to."""

from __future__ import annotations

from collections.abc import Mapping

from kubesim.shell.hostside import settings
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit


def sysctl(own: Mapping[str, str]) -> Tool:
    """Return ``sysctl``, which reads the kernel's parameters; ``own`` are those that a pod has set."""

    async def run(process: Process) -> int:
        opts = await kit.options(process)
        values = {"hostname": process.machine.hostname, "kernel": process.machine.kernel}
        known = {**{name: text.format(**values) for name, text in settings("sysctl").items()}, **own}
        names = sorted(known) if opts.any("aA") else [word.replace("/", ".") for word in opts.args]
        status = 0
        for name in names:
            if "=" in name:
                status = await process.fail(f'permission denied on key "{name.partition("=")[0].strip()}"')
            elif name not in known:
                status = await process.fail(
                    f"cannot stat /proc/sys/{name.replace('.', '/')}: No such file or directory"
                )
            else:
                await process.write(f"{known[name]}\n" if "n" in opts else f"{name} = {known[name]}\n")
        return status

    return run


TOOLS: dict[str, Tool] = {"sysctl": sysctl({})}
