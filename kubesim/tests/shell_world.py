"""A container to run scripts in, for the tests of the emulated shell."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from kubesim.clock import RealClock
from kubesim.shell import rootfs
from kubesim.shell.files import Directory
from kubesim.shell.machine import Stdio
from kubesim.shell.spawn import spawn

KINDS = {"bash": "toolbox", "dash": "toolbox", "ash": "busybox"}
FOLDER = "/tmp/w"


class Screen:
    """Collects what is written, up to a megabyte."""

    def __init__(self):
        self.data = bytearray()
        self.grown = asyncio.Event()

    async def write(self, data):
        if len(self.data) < 1 << 20:
            self.data += data
        self.grown.set()

    @property
    def text(self):
        return self.data.decode("utf-8", "replace")

    async def shows(self, text, start=0):
        """Wait until some text is on the screen after ``start``."""
        async with asyncio.timeout(60):
            while text not in self.text[start:]:
                self.grown.clear()
                await self.grown.wait()


class Keys:
    """What somebody types."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def read(self, count):
        return await self.queue.get()

    def type(self, text):
        self.queue.put_nowait(text.encode())


class Terminal:
    """A terminal with a shell: ``keys``, ``screen`` and the ``machine``."""

    async def does(self, keys, shows):
        start = len(self.screen.text)
        self.keys.type(keys)
        await self.screen.shows(shows, start)
        return self.screen.text[start:]


@asynccontextmanager
async def begun(terminal):
    """Wait for the first prompt; stop the machine at the end."""
    await terminal.screen.shows("# ")
    yield terminal
    terminal.machine.stop()
    await asyncio.sleep(0)


def machine(kind, clock=None):
    made = rootfs.machine(kind, clock or RealClock(), hostname="web-0")
    made.files.walk("/tmp").node.put("w", Directory())
    return made


async def run(script, dialect="bash", *, made=None, timeout=60.0):
    """Return what a script prints, output and errors together, and its status; None if it still runs."""
    made = made or machine(KINDS[dialect])
    screen = Screen()
    shell = "bash" if dialect == "bash" else "sh"
    process = spawn(made, [shell, "-c", script], cwd=FOLDER, env={"HOME": "/root"}, stdio=Stdio(None, screen, screen))
    try:
        status = await asyncio.wait_for(process.wait(), timeout)
    except TimeoutError:
        process.signal("KILL")
        status = None
    return screen.text, status
