"""The agent of real nodes in this process: a clock that tests move, GPUs in a folder, a file as the kernel log."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from pathlib import Path
from typing import Any

from faults.agent import kernel_log
from faults.agent.api import AgentApi
from faults.agent.clocks import NodeClock
from faults.agent.cuda_control import CudaControl
from faults.agent.http_server import HttpServer
from faults.agent.kernel_log import KernelLog
from faults.agent.node_faults import NodeFaults
from faults.agent.state import StateFile

BASE = "/k3f9"
INFORMATION = """Model: \t\t {model}
IRQ:   \t\t 42
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
Bus Location: \t {address}
Device Minor: \t {minor}
GPU Excluded:\t No
"""


def write_gpus(folder: Path, count: int = 8, model: str = "NVIDIA H100 80GB HBM3") -> Path:
    """Write a folder as the driver's ``/proc/driver/nvidia/gpus``."""
    for index in range(count):
        address = f"0000:{0x1B + 16 * index:02x}:00.0"
        (folder / address).mkdir(parents=True)
        values = {"model": model, "uuid": uuid_of(index), "address": address, "minor": index}
        (folder / address / "information").write_text(INFORMATION.format(**values), encoding="utf-8")
    return folder


def uuid_of(index: int) -> str:
    """Return the UUID that such a GPU has."""
    return f"GPU-0c1d2e3f-4a5b-6c7d-8e9f-00000000000{index}"


class MovedClock(NodeClock):
    """A node's clock that a test moves on, and that ends its boot."""

    moved = 0.0

    def seconds(self) -> float:
        """Return the seconds since boot."""
        return super().seconds() + self.moved

    def wait_until(self, due_ns: int) -> None:
        """Leave out the microseconds between lines."""


class RealAgent:
    """One agent behind its HTTP server, in a thread of its own."""

    def __init__(self, folder: Path, *, base: str = BASE, gpus: int = 8, cuda: CudaControl | None = None) -> None:
        self.cuda = cuda
        self.folder, self.base, self.clock = folder, base, MovedClock()
        self.kmsg, self.module = folder / "kmsg", kernel_log.MODULE
        self.kmsg.touch()
        (folder / "state").mkdir(exist_ok=True)
        if not (folder / "gpus").exists():
            write_gpus(folder / "gpus", gpus)
        self.start()

    def start(self) -> None:
        """Start, as after a crash: with what is in the files alone."""
        self.log = KernelLog(self.clock, self.kmsg, module=self.module)
        self.faults = NodeFaults(
            self.clock, self.log, StateFile(self.folder / "state"), self.folder / "gpus", self.cuda
        )
        self._loop = asyncio.new_event_loop()
        self.api = AgentApi("gpu-1", self.base, self.clock, self.faults)
        self._server = self._loop.run_until_complete(HttpServer(self.api.respond).start("127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def stop(self) -> None:
        """Leave everything as it is."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.run_until_complete(self._server.wait_closed())
        self._loop.close()
        self.log.close()

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def wait(self, seconds: float) -> None:
        """Let so much time pass."""
        self.clock.moved += seconds

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Send a request below the base path; return status and document."""
        sent = b"" if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, f"{self.base}{path}", sent)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def lines(self) -> list[str]:
        """Return what is in the kernel log."""
        return self.kmsg.read_text(encoding="utf-8").splitlines()
