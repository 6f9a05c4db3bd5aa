"""The devices that the container was given, as libraries ask the driver for them."""

from __future__ import annotations

from kubesim.python.calls.registry import call
from kubesim.shell.machine import Process


@call
async def cuda_devices(process: Process) -> dict[str, object]:
    """Return name and compute capability of every device, and whether CUDA can use them."""
    access = process.machine.devices
    present = access.view(process.machine.clock.now()).present() if access and access.has_driver else []
    devices = [[item.device.product.name, [*map(int, item.device.product.compute.split("."))]] for item in present]
    return {"devices": devices, "usable": not devices or access is not None and access.board.usable}
