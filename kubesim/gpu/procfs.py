"""Files of the driver below /proc/driver/nvidia: its version, its parameters, and the devices."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device
from kubesim.gpu.products import driver

VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  "
    "(dvs-builder@U22-I3-B03-07-5)  Tue Sep 23 09:55:41 UTC 2025\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)
PARAMS = {
    "ResmanDebugLevel": 4294967295, "RmLogonRC": 1, "ModifyDeviceFiles": 1, "DeviceFileUID": 0, "DeviceFileGID": 0,
    "DeviceFileMode": 438, "InitializeSystemMemoryAllocations": 1, "UsePageAttributeTable": 4294967295,
    "EnableMSI": 1, "EnablePCIeGen3": 0, "MemoryPoolSize": 0, "KMallocHeapMaxSize": 0, "VMallocHeapMaxSize": 0,
    "IgnoreMMIOCheck": 0, "EnableStreamMemOPs": 0, "EnableUserNUMAManagement": 1, "NvLinkDisable": 0,
    "RmProfilingAdminOnly": 1, "PreserveVideoMemoryAllocations": 0, "EnableS0ixPowerManagement": 0,
    "S0ixPowerManagementVideoMemoryThreshold": 256, "DynamicPowerManagement": 3,
    "DynamicPowerManagementVideoMemoryThreshold": 200, "RegisterPCIDriver": 1, "EnablePCIERelaxedOrderingMode": 0,
    "EnableResizableBar": 0, "EnableGpuFirmware": 18, "EnableGpuFirmwareLogs": 2, "EnableDbgBreakpoint": 0,
    "OpenRmEnableUnsupportedGpus": 1, "DmaRemapPeerMmio": 1, "RegistryDwords": '""', "RegistryDwordsPerDevice": '""',
    "RmMsg": '""', "GpuBlacklist": '""', "TemporaryFilePath": '""', "ExcludedGpus": '""',
}  # fmt: skip
"""Source: nvidia/nv-reg.h of open-gpu-kernel-modules, in its order, with its defaults."""


def driver_files(board: Board, devices: Iterable[Device]) -> dict[str, str]:
    """Return the files by their paths; none where the driver is not in the kernel."""
    if not board.devices or not board.loaded:
        return {}
    found = {
        "driver/nvidia/version": VERSION.format(version=driver().version),
        "driver/nvidia/params": "".join(f"{name}: {value}\n" for name, value in PARAMS.items()),
        "driver/nvidia/registry": 'Binary: ""\n',
    }
    for each in devices:
        place = each.pci_address[4:].lower()
        found[f"driver/nvidia/gpus/{place}/information"] = _information(each, place)
    return found


def _information(device: Device, place: str) -> str:
    product = device.product
    rows = {
        "Model": f"\t\t {product.name}", "IRQ": f"  \t\t {150 + device.minor}", "GPU UUID": f"\t {device.uuid}",
        "Video BIOS": f"\t {product.vbios.lower()}", "Bus Type": "\t PCIe", "DMA Size": "\t 52 bits",
        "DMA Mask": "\t 0xfffffffffffff", "Bus Location": f"\t {place}", "Device Minor": f"\t {device.minor}",
        "GPU Firmware": f"\t {driver().version}", "GPU Excluded": "\t No",
    }  # fmt: skip
    return "".join(f"{name}: {value}\n" for name, value in rows.items())
