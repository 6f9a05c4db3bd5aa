"""NVIDIA's samples for CUDA (github.com/NVIDIA/cuda-samples): what people run to see whether a GPU works."""

from __future__ import annotations

from contextlib import closing

from kubesim.gpu.access import Access
from kubesim.gpu.cuda import INSUFFICIENT_DRIVER, Cuda, CudaError
from kubesim.gpu.products import driver
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

VECTOR_BYTES = 50_000 * 4
KERNEL_S = 0.4
"""Seconds of a context, three copies and a small kernel."""
CORES_PER_MULTIPROCESSOR = {7: 64, 8: 64, 9: 128, 10: 128, 12: 128}
RUNTIME = "12.5.0"


def _cuda(process: Process) -> Cuda:
    """Return the driver. Raises ``CudaError`` where no library of it is in the container."""
    access: Access | None = process.machine.devices
    if access is None:
        raise CudaError(INSUFFICIENT_DRIVER)
    return access.cuda(process.env, process.machine.on_node(process.pid), process.argv[0], process.machine.clock.now)


async def vector_add(process: Process) -> int:
    """Add two vectors on the first device (0_Introduction/vectorAdd)."""
    await process.write("[Vector addition of 50000 elements]\n")
    vector = "A"
    try:
        with closing(_cuda(process)) as cuda:
            cuda.allocate(0, VECTOR_BYTES)
            vector = "B"
            cuda.allocate(0, 2 * VECTOR_BYTES)
            await process.sleep(KERNEL_S)
    except CudaError as error:
        await process.sleep(error.after_s)
        await process.error(f"Failed to allocate device vector {vector} (error code {error})!\n")
        return 1
    await process.write(kit.told("vector_add"))
    return 0


async def device_query(process: Process) -> int:
    """Tell of the devices (1_Utilities/deviceQuery)."""
    await process.write(
        f"{process.argv[0]} Starting...\n\n CUDA Device Query (Runtime API) version (CUDART static linking)\n\n"
    )
    try:
        with closing(_cuda(process)) as cuda:
            text = _told(cuda, process.env.get("CUDA_VERSION", RUNTIME))
    except CudaError as error:
        await process.sleep(error.after_s)
        await process.write(f"cudaGetDeviceCount returned {error.code}\n-> {error}\nResult = FAIL\n")
        return 1
    await process.write(text)
    return 0


def _told(cuda: Cuda, version: str) -> str:
    found = cuda.devices()
    runtime = ".".join(version.split(".")[:2])
    text = f"Detected {len(found)} CUDA Capable device(s)\n"
    for each in found:
        major, minor = each.capability
        cores, processors = CORES_PER_MULTIPROCESSOR.get(major, 128), each.multiprocessors
        bus, slot = (int(part, 16) for part in each.device.pci_address.split(":")[1:2] + ["0"])
        values = {"bus": bus, "slot": slot, "major": major, "minor": minor, "mib": each.total >> 20}
        values |= {"cores": cores, "processors": processors, "all": cores * processors}
        text += kit.told("device_query", each=each, driver=driver().cuda, runtime=runtime, **values)
    return text + kit.told("device_query_end", driver=driver().cuda, runtime=runtime, count=len(found))


TOOLS: dict[str, Tool] = {"vectorAdd": vector_add, "deviceQuery": device_query}
