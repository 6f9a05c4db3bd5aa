"""A container from inside: its processes and everything that their programs see.

``spawn.spawn`` starts a program as the container runtime does. A program is a tool: an async function of its process.
Time passes on the machine's clock; a process that only computes yields to the event loop and, after a while, gets
only a share of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubesim.clock import Clock
from kubesim.gpu.access import Access
from kubesim.gpu.board import KERNEL
from kubesim.gpu.preload import preloaded
from kubesim.shell.errors import BrokenPipe, FileError, Leave, StartError
from kubesim.shell.files import Files, View
from kubesim.shell.handles import CHUNK, Handle, OpenFile, Stdio
from kubesim.shell.hostside import HostSide
from kubesim.shell.meter import LARGE, Holder, Meter, Use
from kubesim.shell.programs import Program, find
from kubesim.shell.share import Pacer, Share, Steps
from kubesim.shell.signals import HARMLESS, NUMBERS, STOPPING
from kubesim.shell.terminal import Terminal
from kubesim.shell.vitals import Vitals, usual
from kubesim.shell.wayout import KubeAccess, Network, Wires, of_pod

if TYPE_CHECKING:
    from kubesim.kubelet.images import Catalogue

MOST_PROCESSES = 256
MANY = 64  # processes more in one container may matter to its node
USUALLY_UP_S = 3 * 86400.0 + 8040.0
OUTPUT_BUFFER = 8192
SLICE_S = 0.005  # a process yields to the event loop after this long
STALL_S = 1.0  # a gap without a wait is computing if it is shorter: others had the event loop
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Tool = Callable[["Process"], Awaitable[int]]


@dataclass(eq=False)
class Machine:
    """Everything that the programs of one container share."""

    clock: Clock
    files: Files
    tools: Mapping[str, Tool]
    hostname: str = "localhost"
    env: dict[str, str] = field(default_factory=dict)
    uid: int = 0
    gid: int = 0
    cpus: int = 2
    memory: int = 4 << 30  # bytes
    memory_limit: int = 0  # bytes that all processes may hold together; 0: no limit
    first: int = 0
    """The number of its first process, with which all end."""
    numbering: Callable[[int], int] = field(default=lambda count: count)
    """The number of its process made as such-and-such: it has its own (from 1), or its node's (hostPID)."""
    on_node: Callable[[int], int] = field(default=lambda pid: pid)
    """The number by which its node knows a process."""
    muster: Callable[[], None] = field(default=lambda: None)
    """Called before somebody looks at the processes: those that are computed come and go."""
    outside: Callable[[], Mapping[int, Any]] = field(default=dict)
    """The processes beside its own that are seen from inside."""
    on_full: Callable[[], None] = field(default=lambda: None)
    """Called when they hold more: then the kernel kills them all (memory.oom.group)."""
    on_growth: Callable[[], None] = field(default=lambda: None)
    """Called when one of them holds much more than before."""
    on_crowd: Callable[[], None] = field(default=lambda: None)
    """Called when there are many more of them."""
    info: Mapping[str, str] = field(default_factory=dict)
    """Its node's nodeInfo: kernel, machine, boot."""
    address: str = "10.0.0.2"
    network: Network | None = None
    wires: Callable[[], Wires] = field(default=lambda: of_pod("10.0.0.2"))
    """Its interfaces, routes and sockets."""
    kube: KubeAccess | None = None
    devices: Access | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)
    """The versions of what its image is for: python, torch, cuda (``kubelet/libraries.py``)."""
    host: HostSide | None = None
    bound: dict[str, str] = field(default_factory=dict)
    """Files of its node that are mounted into it, with the options of their mounts."""
    catalogue: Catalogue | None = None
    """Images of the registries that it reaches; None: those of the public ones."""
    session: Callable[[Any], Awaitable[int]] = field(default=lambda shell: no_session(shell))
    processes: dict[int, Process] = field(default_factory=dict)
    next_pid: int = 1
    share: Share = field(default_factory=Share)
    """What it shares with the other containers of its cluster."""
    seen: float = 0.0

    def __post_init__(self) -> None:
        self.join(self.share)
        self.booted = self.clock.now()
        self.up_since = self.now() - USUALLY_UP_S
        self.vitals: Callable[[], Vitals] = lambda: usual(self.memory, self.cpus, self.now() - self.up_since)
        self.meter = Meter(self.now())
        self.paced = self.now()
        self.rested = True
        self._filled = 0

    @property
    def kernel(self) -> str:
        """The release of its kernel."""
        return self.info.get("kernelVersion", KERNEL)

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return self.clock.now().timestamp()

    def kill(self, pid: int, name: str) -> None:
        """Signal a process, or with a negative ``pid`` a group, from inside; raises KeyError where there is none."""
        if pid > 0:
            self.all()[pid].signal(name, inside=True)
            return
        members = [process for process in self.processes.values() if process.group == -pid or pid == -1]
        if not members:
            raise KeyError(pid)
        for process in members:
            process.signal(name, inside=True)

    def all(self) -> dict[int, Any]:
        """Return the processes that are seen from inside, by number: its own, and those it shares a view with."""
        self.muster()
        return {**self.outside(), **self.processes}

    def stop(self) -> None:
        """Kill every process, as the kernel does when the first one ends."""
        for process in list(self.processes.values()):
            process.fate = None
            process.signal("KILL")

    def join(self, share: Share) -> None:
        """Be one of the containers of a cluster."""
        self.share = share
        self.computing, self.memory_kept = share.of_container()
        self.files.shared = share.disk

    def discard(self) -> None:
        """Stop, and let go of all files."""
        self.stop()
        self.files.discard()

    @property
    def held(self) -> int:
        """The bytes of memory that its processes have claimed, or filled with files."""
        return sum(process.held for process in self.processes.values()) + self.files.in_memory

    def check_memory(self) -> None:
        """End everything where more is held than may be."""
        if self.memory_limit and self.held > self.memory_limit:
            self.on_full()
            self.stop()
        elif (filled := self.files.in_memory // LARGE) > self._filled:
            self._filled = filled
            self.on_growth()


class Process(Holder):
    """One process. ``status`` is None until it has ended; 128 plus the signal's number if one has ended it."""

    def __init__(
        self,
        machine: Machine,
        program: Program,
        env: Mapping[str, str],
        view: View,
        fds: Mapping[int, Handle],
        pid: int = 0,
    ) -> None:
        if len(machine.processes) >= MOST_PROCESSES:
            raise FileError("EAGAIN")
        self.machine = machine
        self.program = program
        self.argv = list(program.argv)
        self.env = dict(env)
        self.view = view
        self.fds = {number: handle.share() for number, handle in fds.items()}
        self.pid = pid or machine.numbering(machine.next_pid)
        machine.next_pid += not pid
        machine.first = machine.first or self.pid
        self.parent = 0
        self.group = self.pid
        self.terminal: Terminal | None = None
        self.started: datetime = machine.clock.now()
        self.handlers: dict[str, Callable[[str], None] | None] = {}
        self.status: int | None = None
        self.ended = asyncio.Event()
        self.stopped: asyncio.Event | None = None
        self.on_stop: Callable[[], None] | None = None
        self.use: Callable[[], Use] = Use
        self.fate: Callable[[str], None] | None = None
        """Told of the signal that ends it, where its course is computed."""
        self.steps = 0
        self.held = 0
        self.kept = 0
        self._pacer = Pacer(machine.computing)
        self._fatal = ""
        self._out = bytearray()
        self._task: asyncio.Task[None] | None = None
        machine.processes[self.pid] = self
        if len(machine.processes) % MANY == 0:
            machine.on_crowd()

    @property
    def name(self) -> str:
        """The name under which error messages speak."""
        return self.argv[0].rsplit("/", 1)[-1] if self.argv else ""

    @property
    def cwd(self) -> str:
        """The working directory."""
        return self.view.cwd

    def start(self, main: Tool) -> Process:
        """Run ``main`` as this process."""
        self._task = asyncio.get_running_loop().create_task(Steps(self._live(main), self._pacer))
        self._task.add_done_callback(self._unborn)
        return self

    def _unborn(self, task: asyncio.Task[None]) -> None:
        """End a process whose task was cancelled before its first step."""
        if self.status is None:
            self._end(128 + NUMBERS[self._fatal or "KILL"])

    async def wait(self) -> int:
        """Return the status when the process has ended."""
        await self.ended.wait()
        return self.status or 0

    def signal(self, name: str, *, inside: bool = False) -> None:
        """Send a signal. The first process of a container takes only what it has a handler for, unless from outside
        and KILL."""
        if self.status is not None or self.pid == 1 and inside and name in ("KILL", "STOP"):
            return
        if name == "CONT" or name == "KILL":
            self._continue()
        if name in self.handlers and name not in ("KILL", "STOP"):
            handler = self.handlers[name]
            if handler:
                handler(name)
        elif name in HARMLESS or self.pid == 1 and name != "KILL":
            return
        elif name in STOPPING:
            self.stopped = self.stopped or asyncio.Event()
            if self.on_stop:
                self.on_stop()
        else:
            self.die(name)

    def die(self, name: str) -> None:
        """End this process by a signal."""
        self._fatal = self._fatal or name
        self._continue()
        if self._task:
            self._task.cancel()
        elif self.fate:
            self.fate(name)

    def vanish(self) -> None:
        """Be gone: one that only stood here."""
        self._end(128 + NUMBERS["KILL"])

    def _continue(self) -> None:
        if self.stopped:
            self.stopped.set()
            self.stopped = None

    def keep(self, size: int) -> bool:
        """Count bytes that this program really keeps (gives up, if negative); False where they are too many."""
        size = max(size, -self.kept)
        if not self.machine.memory_kept.take(size):
            return False
        self.kept += size
        return True

    async def _live(self, main: Tool) -> None:
        status = 139
        try:
            status = await self._guard(main)
        finally:
            self._end(status)

    async def _guard(self, main: Tool) -> int:
        try:
            try:
                if self._pacer.late():
                    await self._pacer.rest()
                status = await self.execute(main)
            except Leave as leave:
                status = leave.status
            await self.flush()
            return status & 255
        except BrokenPipe:
            return 128 + NUMBERS["PIPE"]
        except FileError as error:
            return await self._lost(error)
        except (RecursionError, MemoryError):
            return 128 + NUMBERS["SEGV"]
        except asyncio.CancelledError:
            if not self._fatal:
                raise
            return 128 + NUMBERS[self._fatal]

    async def execute(self, main: Tool) -> int:
        """Run a program in this process, once the dynamic linker has said which libraries it cannot preload."""
        if "LD_PRELOAD" in self.env and main is self.machine.tools.get(self.program.tool):
            for line in preloaded(self.env, self.view.content)[1]:
                await self.error(line + "\n")
        return await main(self)

    async def _lost(self, error: FileError) -> int:
        try:
            await self.fds[2].write(f"{self.name}: write error: {error.text}\n".encode())
        except (FileError, BrokenPipe, KeyError):
            return 1
        return 1

    def _end(self, status: int) -> None:
        self.status = status
        for handle in self.fds.values():
            handle.release()
        self.fds.clear()
        self.keep(-self.kept)
        self.machine.processes.pop(self.pid, None)
        parent = self.machine.processes.get(self.parent)
        for child in self.machine.processes.values():
            if child.parent == self.pid:
                child.parent = 1
        self.ended.set()
        if parent:
            parent.signal("CHLD")
        if self.pid == self.machine.first:
            self.machine.stop()

    async def tick(self, steps: int = 1) -> None:
        """Count work; yields to the event loop, and waits where this machine has had more than its share."""
        self.steps += steps
        if self.stopped:
            await self.stopped.wait()
        if self.steps < 32:
            return
        self.steps = 0
        await self._pace()

    async def _pace(self) -> None:
        """Yield when the current slice is over; a machine that computes on and on sleeps between its slices."""
        machine = self.machine
        loop = asyncio.get_running_loop()
        used = loop.time() - machine.seen
        if used < SLICE_S and not self._pacer.late():
            return
        clock = machine.now()
        if used < 4 * SLICE_S or not machine.rested and used < STALL_S:  # a longer gap was no computing
            machine.meter.note(clock, max(clock - machine.paced, 0.0))
        machine.paced, machine.rested = clock, False
        await self._pacer.rest()
        machine.seen = loop.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the clock."""
        await self.flush()
        self.machine.rested = True
        await self.machine.clock.sleep(seconds)
        if self.stopped:
            await self.stopped.wait()

    async def read(self, count: int = CHUNK, fd: int = 0) -> bytes:
        """Return at most ``count`` bytes of a descriptor, ``b""`` at the end."""
        await self.flush()
        self.machine.rested = True
        if self.stopped:
            await self.stopped.wait()
        if fd not in self.fds:
            raise FileError("EBADF")
        return await self.fds[fd].read_for(self, count)

    async def write(self, data: str | bytes) -> None:
        """Write to standard output, which is buffered until the next read, sleep or 8 KiB."""
        self._out += data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        if len(self._out) >= OUTPUT_BUFFER:
            await self.flush()
        await self.tick()

    async def flush(self) -> None:
        """Send what ``write`` has buffered."""
        if self._out:
            data, self._out = bytes(self._out), bytearray()
            if 1 not in self.fds:
                raise FileError("EBADF")
            await self.fds[1].write(data)

    def forget(self) -> None:
        """Drop what ``write`` has buffered."""
        self._out.clear()

    @property
    def fatal(self) -> str:
        """The signal that has ended this process, or ""."""
        return self._fatal if self.status is not None else ""

    @property
    def dying(self) -> bool:
        """Whether a signal has been sent that ends this process."""
        return bool(self._fatal)

    async def error(self, text: str) -> None:
        """Write text to standard error as it stands."""
        await self.flush()
        if 2 in self.fds:
            await self.fds[2].write(text.encode("utf-8", "surrogateescape"))
        await self.tick()

    async def fail(self, text: str, status: int = 1) -> int:
        """Write ``name: text`` to standard error and return ``status``."""
        await self.error(f"{self.name}: {text}\n")
        return status

    def tty(self, fd: int) -> Terminal | None:
        """Return the terminal that a descriptor is, if it is one."""
        handle = self.fds.get(fd)
        return handle if isinstance(handle, Terminal) else None

    def open(self, path: str, mode: str = "r") -> Handle:
        """Open a file: ``r``, ``w`` (emptied), ``a`` (at its end), ``x`` (must be new) or ``+`` (both ways)."""
        special = self._special(path, mode)
        if special:
            return special
        if mode in ("r", "+") and not (mode == "+" and self.view.place(path).node is None):
            node = self.view.node(path)
            if not self.view.may(node, 4):
                raise FileError("EACCES", path)
        if mode != "r":
            node = self.view.file(path, append=mode in ("a", "+"), exclusive=mode == "x")
        return OpenFile(self.view, node, path, readable=mode in ("r", "+"), writable=mode != "r", append=mode == "a")

    def _special(self, path: str, mode: str) -> Handle | None:
        numbers = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
        if path == "/dev/tty":
            if self.terminal is None:
                raise FileError("ENOENT", path)
            return self.terminal
        number = numbers.get(path)
        for folder in ("/dev/fd/", "/proc/self/fd/", f"/proc/{self.pid}/fd/", "/proc/1/fd/"):
            if path.startswith(folder) and path[len(folder) :].isdecimal():
                if folder.startswith("/proc/1/") and (first := self.machine.processes.get(1)):
                    return first.fds.get(int(path[len(folder) :]))
                number = int(path[len(folder) :])
        if number is None:
            return None
        if number not in self.fds:
            raise FileError("ENOENT", path)
        return self.fds[number]

    def child(
        self, program: Program, *, env: Mapping[str, str] | None = None, fds: Mapping[int, Handle] | None = None
    ) -> Process:
        """Make a process below this one with its files, terminal, group and ignored signals; start it yourself."""
        process = Process(
            self.machine,
            program,
            self.env if env is None else env,
            replace(self.view),
            self.fds if fds is None else fds,
        )
        process.parent, process.group, process.terminal = self.pid, self.group, self.terminal
        process.handlers = {name: None for name, handler in self.handlers.items() if handler is None}
        return process

    def run(
        self, argv: list[str], *, env: Mapping[str, str] | None = None, fds: Mapping[int, Handle] | None = None
    ) -> Process:
        """Start a program by its name; raises StartError, or FileError where there are too many processes."""
        known = self.env if env is None else env
        program = find(self.view, argv, known.get("PATH", DEFAULT_PATH))
        return self.child(program, env=env, fds=fds).start(self.machine.tools[program.tool])


async def no_session(shell: Any) -> int:
    """Stand in where there are no interactive sessions."""
    return 0


__all__ = ["Machine", "Process", "StartError", "Stdio", "Tool"]
