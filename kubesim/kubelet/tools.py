"""Programs of known images as tools of a container's shell: they print what they print as its own process."""

from __future__ import annotations

from kubesim.kubelet import behaviours
from kubesim.kubelet.images import Image
from kubesim.kubelet.programs import FOREVER_S, SCAN_LIMIT, Exit
from kubesim.shell.machine import Process, Tool


def workload(image: Image, architecture: str, seed: str) -> Tool:
    """Return the tool that plays what a command line does in an image."""

    async def play(process: Process) -> int:
        program = behaviours.program(image, tuple(process.argv), (), architecture, seed=seed)
        if program.start_error:
            return await process.fail("not found", 127)
        since = process.machine.now()
        for out in program.run(FOREVER_S, SCAN_LIMIT):
            await process.sleep(max(since + out.at - process.machine.now(), 0.0))
            if isinstance(out, Exit):
                return out.code
            if out.stream == "stderr":
                await process.error(out.text + "\n")
            else:
                await process.write(out.text + "\n")
        while True:
            await process.sleep(FOREVER_S)

    return play
