"""nvcc: the CUDA compiler of images that people build in, on a machine where nothing can be compiled."""

from __future__ import annotations

from typing import Any

from kubesim import data
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

_table: data.Reader[dict[str, Any]] = data.beside(__file__, "packages.yaml")


async def nvcc(process: Process) -> int:
    """Tell the version of the CUDA compiler; there is nothing that it could compile for."""
    words = process.argv[1:]
    if {"--version", "-V"} & {*words}:
        cuda = process.machine.env.get("CUDA_VERSION") or process.machine.libraries.get("cuda", "12.8")
        release = ".".join(cuda.split(".")[:2])
        known = _table()["compilers"]
        year, built, version, build = known.get(release, (25, known["12.8"][1], f"{release}.61", 35404655))
        told = kit.told("packages_nvcc", year=year, built=built, release=release, version=version, build=build)
        await process.write(told)
        return 0
    files = [word for word in words if not word.startswith("-")]
    missing = next((name for name in files if process.view.find(name) is None), None)
    text = "No input files specified; use option --help for more information"
    if missing:
        text = f"Don't know what to do with '{missing}'"
    elif files:
        await process.error("gcc: No such file or directory\n")
        text = "Failed to preprocess host compiler properties."
    await process.error(f"nvcc fatal   : {text}\n")
    return 1


TOOLS: dict[str, Tool] = {"nvcc": nvcc}
