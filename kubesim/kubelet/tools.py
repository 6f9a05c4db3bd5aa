"""Programs of known images as tools of a container's shell: they print what they print as its own process."""

from __future__ import annotations

from kubesim.errors import Obj
from kubesim.kubelet import behaviours
from kubesim.kubelet.images import Image
from kubesim.kubelet.programs import FOREVER_S, SCAN_LIMIT, Exit
from kubesim.shell.machine import Process, Tool


def nnp(context: Obj) -> Tool:
    """Return a set-uid program that prints whom it runs as: root, unless privileges may not grow."""

    async def run(process: Process) -> int:
        uid = process.machine.uid if context.get("allowPrivilegeEscalation") is False else 0
        await process.write(f"Effective uid: {uid}\n")
        return 0

    return run


def sysctl(spec: Obj) -> Tool:
    """Return ``sysctl``, which reads the kernel parameters that a pod has set."""
    asked = (spec.get("securityContext") or {}).get("sysctls") or ()
    known = {"kernel.shm_rmid_forced": "0"} | {item["name"].replace("/", "."): item["value"] for item in asked}

    async def run(process: Process) -> int:
        status = 0
        for name in process.argv[1:]:
            value = known.get(name.replace("/", "."))
            if value is None:
                status = await process.fail(f"error: '{name}' is an unknown key")
            else:
                await process.write(f"{name.replace('/', '.')} = {value}\n")
        return status

    return run


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
