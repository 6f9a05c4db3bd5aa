"""What a computed process prints while somebody is attached to it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kubesim.kubelet import timings
from kubesim.kubelet.records import Container
from kubesim.kubelet.stamps import stamped
from kubesim.shell.machine import Stdio

if TYPE_CHECKING:
    from kubesim.kubelet.pod import PodWorker


async def show(worker: PodWorker, container: Container, stdio: Stdio) -> None:
    """Show what a process prints from now on, until it ends."""
    instance, clock, seen = container.instance, worker.sandbox.host.clock, worker.now
    while container.running and container.instance is instance and not worker.gone and instance is not None:
        await clock.sleep(timings.PLEG_S)
        since, until = ((at - instance.started_at).total_seconds() for at in (seen, worker.now))
        seen = worker.now
        program = worker.program(container)
        for line in program.lines(until):
            writer = stdio.stdout if line.stream == "stdout" else stdio.stderr
            if line.at > since and writer is not None:
                at = instance.started_at + timedelta(seconds=line.at)
                text = stamped(line.text, at) if program.stamped else line.text
                await writer.write(text.encode() + b"\n")
