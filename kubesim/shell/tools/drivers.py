"""The smaller programs of the driver and its toolkit: what they print when somebody looks whether all is there."""

from __future__ import annotations

from kubesim.gpu.access import Access
from kubesim.gpu.products import driver
from kubesim.gpu.smi.view import View
from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import host_of

REPORT = "nvidia-bug-report.log.gz"
TOOLKIT = "1.18.0"


def access_of(process: Process) -> Access | None:
    """Return the devices as a process may see them."""
    side = host_of(process)
    found = process.machine.devices if side is None else side.devices
    return found if found is not None and found.has_driver else None


def _trouble(access: Access | None) -> str:
    """Return why the driver's library cannot be used; empty where it can."""
    if access is None or not access.board.loaded:
        return "driver not loaded"
    return "driver/library version mismatch" if access.board.mismatched else ""


def _view(process: Process, access: Access) -> View:
    return access.view(process.machine.clock.now())


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


async def container_cli(process: Process) -> int:
    """``nvidia-container-cli info`` and ``list``: what the runtime's hook would give to a container."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    if not words:
        await process.write(f"cli-version: {TOOLKIT}\nlib-version: {TOOLKIT}\n")
        return 0
    access = access_of(process)
    if why := _trouble(access):
        await process.error(f"nvidia-container-cli: initialization error: nvml error: {why}\n")
        return 1
    assert access is not None
    view = _view(process, access)
    if words[0] == "list":
        devices = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"]
        rows = [*devices, *(f"/dev/nvidia{each.device.minor}" for each in view.present()), "/usr/bin/nvidia-smi"]
        libraries = "/usr/lib/x86_64-linux-gnu"
        rows += [
            f"{libraries}/lib{name}.so.{access.board.library}"
            for name in ("nvidia-ml", "cuda", "nvidia-ptxjitcompiler")
        ]
        await process.write("".join(f"{row}\n" for row in rows))
        return 0
    if view.lost():
        await process.error("nvidia-container-cli: detection error: nvml error: gpu is lost\n")
        return 1
    await process.write(f"NVRM version:   {driver().version}\nCUDA version:   {driver().cuda}\n")
    for each in view.present():
        await process.write(kit.told("nvidia_container_cli", number=each.number, device=each.device))
    return 0


async def bug_report(process: Process) -> int:
    """Collect what NVIDIA's support asks for into a file."""
    side = host_of(process)
    if side is None:
        await process.error("ERROR: Please run nvidia-bug-report.sh as root.\n")
        return 1
    try:
        process.view.write(f"{process.cwd.rstrip('/')}/{REPORT}", b"\x1f\x8b\x08\x00" + bytes(256))
    except FileError as error:
        await process.error(kit.told("nvidia_bug_report_refused", why=error.text))
        return 1
    await process.write("\nRunning nvidia-bug-report.sh... complete.\n\n")
    return 0


TOOLS: dict[str, Tool] = {
    "nvidia-persistenced": version,
    "nv-fabricmanager": version,
    "nvidia-container-cli": container_cli,
    "nvidia-bug-report.sh": bug_report,
}
