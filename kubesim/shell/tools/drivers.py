"""The driver's services as programs: what they print when somebody asks for their version."""

from __future__ import annotations

from kubesim.gpu.products import driver
from kubesim.shell.machine import Process, Tool


async def version(process: Process) -> int:
    """Tell the version of a service's program; it is started by systemd."""
    if process.name == "nv-fabricmanager":
        await process.write(f"Fabric Manager version is : {driver().version}\n")
    elif {"-v", "-V", "--version"} & {*process.argv}:
        await process.write(f"nvidia-persistenced:  version {driver().version}\n\nThe NVIDIA Persistence Daemon.\n")
    else:
        await process.error("nvidia-persistenced failed to initialize. Check syslog for more details.\n")
        return 1
    return 0


TOOLS: dict[str, Tool] = {"nvidia-persistenced": version, "nv-fabricmanager": version}
