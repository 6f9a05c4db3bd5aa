"""What a node is set to and what is installed on it: sysctl, dpkg."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from kubesim.gpu.products import driver
from kubesim.shell.hostside import settings
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of


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


async def dpkg(process: Process) -> int:
    """Show what is installed (``-l``), of a node."""
    side = host_of(process)
    opts = await kit.options(process)
    found: dict[str, str] = dict(settings("packages")) if side is not None else {}
    if side is not None and side.devices.board.devices:
        found |= {name: text.format(driver=driver().version) for name, text in settings("driver").items()}
    chosen = {
        name: version
        for name, version in sorted(found.items())
        if not opts.args or any(fnmatchcase(name, each) for each in opts.args)
    }
    if "l" not in opts or not chosen:
        name = opts.args[0] if opts.args else ""
        return await process.fail(f"no packages found matching {name}")
    await process.write(
        f"{kit.told('settings_legend')}||/ {'Name':<30} {'Version':<24} {'Architecture':<12} Description\n"
    )
    await process.write(f"+++-{'=' * 30}-{'=' * 24}-{'=' * 12}-{'=' * 33}\n")
    for name, version in chosen.items():
        await process.write(f"ii  {name:<30} {version:<24} {'amd64':<12} {name}\n")
    return 0


TOOLS: dict[str, Tool] = {"sysctl": sysctl({}), "dpkg": dpkg}
