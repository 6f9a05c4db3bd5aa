"""NVIDIA's nccl-tests 2.13: collectives over the GPUs of a job, with a table of their time and bandwidth.

Ranks find each other by MPI where mpirun has started them; devices, links and network are the machines'.
Source: https://github.com/NVIDIA/nccl-tests (src/common.cu, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from kubesim.gpu.cuda import INSUFFICIENT_DRIVER, Cuda, CudaError
from kubesim.gpu.nccl import DATATYPES, WARNS, Communicator, Member
from kubesim.gpu.xids import CUDA_ERRORS
from kubesim.mpi.job import LOCAL_RANK, World, world
from kubesim.shell.errors import Leave, NetworkError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.meter import Use
from kubesim.shell.remote import Peer
from kubesim.shell.sockets import network
from kubesim.shell.tools import kit

CUDA_FAILED, NCCL_FAILED = 2, 3
"""The program's statuses (testCudaError, testNcclError)."""
IMPORT_S, INIT_S, LOOK_S, SYN_S = 0.6, 0.9, 5.0, 127.0
RETRIES = 34
SPARE, NCCL_BYTES, RANK_BYTES = 1 << 30, 390 << 20, 740 << 20
"""Memory of a device that tests leave alone; what a communicator takes of it; what a rank holds of its host's."""
SIZES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "float": 4, "half": 2, "bfloat16": 2}
OPERATIONS = ("sum", "prod", "max", "min", "avg")
FIRST_PORT, PORTS = 33000, 27000
WHY = {"timeout": "Connection timed out", "refused": "Connection refused", "unreachable": "No route to host"}
NUMBERS = {"g": "gpus", "f": "factor", "n": "iterations", "w": "warmup", "r": "root", "G": "graph"}
"""Options with whole numbers, and where they are kept."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One of the tests. ``factor``: from algorithm to bus bandwidth, by the number of ranks."""

    name: str
    title: str
    factor: Callable[[int], float]
    redop: str = ""
    """Shown instead of the operation."""
    rooted: bool = False
    shared: bool = False
    """Set where each rank has one part of the size."""
    checked_in_place: bool = True


def _ring(count: int) -> float:
    return (count - 1) / count


COLLECTIVES = {
    each.name: each
    for each in (
        Collective("all_reduce", "AllReduce", lambda count: 2 * (count - 1) / count),
        Collective("all_gather", "AllGather", _ring, "none", shared=True),
        Collective("reduce_scatter", "ReduceScatter", _ring, shared=True),
        Collective("broadcast", "Broadcast", lambda count: 1.0, "none", rooted=True),
        Collective("reduce", "Reduce", lambda count: 1.0, rooted=True),
        Collective("alltoall", "AlltoAll", _ring, "none", shared=True, checked_in_place=False),
        Collective("sendrecv", "SendRecv", lambda count: 1.0, checked_in_place=False),
    )
}


@dataclass
class Call:
    """A command line of a test."""

    gpus: int = 1
    least: int = 32 << 20
    most: int = 32 << 20
    step: int = 1 << 20
    factor: int = 1
    iterations: int = 20
    warmup: int = 5
    check: bool = True
    kinds: list[str] = field(default_factory=lambda: ["float"])
    operations: list[str] = field(default_factory=lambda: ["sum"])
    root: int = 0
    blocking: bool = False
    graph: int = 0

    def sizes(self) -> Iterator[int]:
        """Yield the sizes of the table's rows."""
        size = self.least
        while size <= self.most:
            yield size
            size = size * self.factor if self.factor > 1 else size + self.step


class _Failure(Exception):
    """The test ends: its status, and the words of its last line (file, line)."""

    def __init__(self, status: int, words: str, place: str) -> None:
        super().__init__(words)
        self.status = status
        self.place = place


async def perf(collective: Collective, process: Process) -> int:
    """Measure a collective."""
    call = await _parse(process)
    try:
        here = await world(process)
    except NetworkError:
        return await process.fail("MPI_Init failed: mpirun cannot be reached")
    test = _Test(process, call, collective, here)
    try:
        return await test.run()
    except _Failure as failure:
        name, pid = process.machine.hostname, process.pid
        await process.write(f"{name}: {failure}\n .. {name} pid {pid}: Test failure {failure.place}\n")
        return failure.status
    finally:
        test.close()


async def _parse(process: Process) -> Call:
    """Read the command line. Leaves the program for a wrong one."""
    long_names: dict[str, str] = kit.table()["nccl_tests"]["long"]
    flags, names = set(long_names.values()), {name.rstrip("=") for name in long_names}
    for word in process.argv[1:]:
        long, name = word.startswith("--"), word.lstrip("-").partition("=")[0]
        known = name in names if long else name[:1] in flags
        if name and word[0] == "-" and not name[0].isdecimal() and not known:
            why = f"unrecognized option '{word}'" if long else f"invalid option -- '{name[:1]}'"
            await process.error(f"{process.argv[0]}: {why}\n")
            await process.write(f"invalid option '?'\n{kit.told('nccl_tests_usage', name=process.name)}")
            raise Leave(1)
    opts = await kit.parsed(process, "".join(f if f == "h" else f"{f}:" for f in flags), long_names)
    if "h" in opts:
        await process.write(kit.told("nccl_tests_usage", name=process.name))
        raise Leave(0)
    call = Call()
    for flag, place, name in (("b", "least", "minbytes"), ("e", "most", "maxbytes"), ("i", "step", "stepBytes")):
        size = _size(opts.get(flag)) if flag in opts else getattr(call, place)
        if size is None:
            await process.error(f"invalid size specified for '{name}'\n")
            raise Leave(255)
        setattr(call, place, size)
    if call.least > call.most:
        await process.error(f"invalid sizes for 'minbytes' and 'maxbytes': {call.least} > {call.most}\n")
        raise Leave(255)
    for flag, place in NUMBERS.items():
        setattr(call, place, _number(opts.get(flag), getattr(call, place)))
    call.gpus = max(call.gpus * _number(opts.get("t"), 1), 1)
    call.check, call.blocking = _number(opts.get("c"), 1) > 0, _number(opts.get("z"), 0) > 0
    call.kinds = _chosen(opts.get("d", "float"), DATATYPES, "float")
    call.operations = _chosen(opts.get("o", "sum"), OPERATIONS, "sum")
    return call


def _chosen(word: str, known: tuple[str, ...], default: str) -> list[str]:
    """Return what an option names: all, one, or the default for one that there is not."""
    return [*known] if word == "all" else [word if word in known else default]


def _number(text: str, default: int) -> int:
    """Return a whole number as strtol reads it."""
    digits = text[: len(text) - len(text.lstrip("0123456789"))]
    return default if not text else int(digits[:9] or 0)


def _size(text: str) -> int | None:
    number, unit = text.rstrip("kKmMgG"), text[-1:].upper()
    try:
        return int(float(number) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(unit, 1))
    except (ValueError, OverflowError):
        return None


class _Test:
    """One process of a test: its part of the ranks."""

    def __init__(self, process: Process, call: Call, collective: Collective, here: World) -> None:
        self.process, self.call, self.collective, self.world = process, call, collective, here
        machine = process.machine
        self.since = machine.now()
        self.port = FIRST_PORT + (process.pid * 97 + zlib.crc32(machine.hostname.encode())) % PORTS
        self.server = Peer()
        self.cuda: Cuda | None = None
        self.comm = Communicator([])
        self.rows: list[float] = []
        self.busy = 0.0
        """The processors that it keeps busy."""

    @property
    def speaks(self) -> bool:
        """Return whether this process prints for all."""
        return self.world.rank == 0

    async def say(self, text: str) -> None:
        """Print a line for all ranks."""
        if self.speaks:
            await self.process.write(text + "\n")
            await self.process.flush()

    async def run(self) -> int:
        """Meet the other ranks, measure, and return the status. Raises ``_Failure``."""
        call, process = self.call, self.process
        await process.sleep(IMPORT_S)
        step = f"{call.factor}(factor)" if call.factor > 1 else f"{call.step}(bytes)"
        await self.say(
            f"# nThread 1 nGpus {call.gpus} minBytes {call.least} maxBytes {call.most} step: {step} warmup iters: "
            f"{call.warmup} iters: {call.iterations} agg iters: 1 validation: {int(call.check)} graph: {call.graph}"
        )
        await self.say("#")
        if call.blocking:
            await self.say("# Blocking Enabled: wait for completion and barrier after each collective ")
        await self.say("# Using devices")
        own = await self._devices()
        self._use_host()
        gathered = await self.world.gather("devices", own)
        members = [member for each in gathered for member in each]
        for rank, each in enumerate(members):
            bus, name = each.device.bus.split(":")[1], each.device.product.name
            place = f"#  Rank {rank:2d} Group  0 Pid {each.pid:6d} on {each.host:>10}"
            await self.say(f"{place} device {each.ordinal:2d} [0x{bus}] {name}")
        await self._limit(members)
        self.comm = Communicator(members)
        await self._connect()
        await self._table()
        for number in range(self.first, self.first + call.gpus):
            await self._tell(self.comm.lines(number, "destroy"))
        return 0

    @property
    def first(self) -> int:
        """The first of its ranks."""
        return self.world.rank * self.call.gpus

    async def _devices(self) -> list[Member]:
        """Return its ranks, each with a device. Raises ``_Failure``."""
        process, machine, found = self.process, self.process.machine, []
        place = "common.cu:891"
        try:
            if machine.devices is None:
                raise CudaError(INSUFFICIENT_DRIVER)
            self.cuda = machine.devices.cuda(
                process.env, machine.on_node(process.pid), process.name, machine.clock.now
            )
            local = _number(process.env.get(LOCAL_RANK, ""), 0) * self.call.gpus
            for number in range(local, local + self.call.gpus):
                device = self.cuda.open(number).device
                speed, host = self.cuda.speed(number), machine.hostname
                known = machine.env.get("NCCL_VERSION", "")
                found.append(
                    Member(host, process.pid, machine.address, number, device, process.env, known, speed, self.port)
                )
        except CudaError as error:
            await process.machine.clock.sleep(error.after_s)
            raise _Failure(CUDA_FAILED, f"Test CUDA failure common.cu:941 '{error}'", place) from error
        return found

    def _use_host(self) -> None:
        """Keep a processor busy for each device, and hold its host memory."""
        process, machine, count = self.process, self.process.machine, float(self.call.gpus)
        process.use = lambda: Use(count, max(machine.now() - self.since, 0.0), process.held)
        machine.meter.occupy(machine.now(), count)
        self.busy = count
        process.held = RANK_BYTES * self.call.gpus
        machine.check_memory()
        machine.on_growth()

    def _check_device(self) -> None:
        """Raise ``_Failure`` where a fault has struck."""
        if self.cuda is not None and self.cuda.error:
            words = f"Test CUDA failure common.cu:303 '{CUDA_ERRORS[self.cuda.error]}'"
            raise _Failure(CUDA_FAILED, words, "common.cu:408")

    async def _limit(self, members: list[Member]) -> None:
        """Take buffers, as large as the smallest device has room for."""
        assert self.cuda is not None
        buffers = 3 if self.call.check else 2
        least = min(each.device.product.memory - each.device.product.reserved for each in members) << 20
        if self.call.most * buffers > least - SPARE:
            self.call.most = (least - SPARE) // buffers
            await self.say(f"#\n# Reducing maxBytes to {self.call.most} due to memory limitation")
        try:
            for number in range(self.call.gpus):
                ordinal = members[self.first + number].ordinal
                self.cuda.allocate(ordinal, buffers * self.call.most + NCCL_BYTES)
        except CudaError as error:
            raise _Failure(CUDA_FAILED, f"Test CUDA failure common.cu:991 '{error}'", "common.cu:891") from error

    # Between the ranks.

    async def _tell(self, lines: list[str], *, warning: bool = False) -> None:
        """Print what NCCL says, into the file that NCCL_DEBUG_FILE names where it does."""
        for line in lines if not warning or self.process.env.get("NCCL_DEBUG", "").upper() in WARNS else ():
            path = self.process.env.get("NCCL_DEBUG_FILE", "")
            path = path.replace("%h", self.process.machine.hostname).replace("%p", str(self.process.pid))
            if path:
                await self.process.open(path, "a").write(line.encode() + b"\n")
            else:
                await self.process.write(line + "\n")

    async def _connect(self) -> None:
        """Make the communicator: reach the first rank, and the next of every ring. Raises ``_Failure``."""
        member, ranks = self.comm.members[self.first], range(self.first, self.first + self.call.gpus)
        if self.process.env.get("NCCL_DEBUG", "").upper() in ("VERSION", "WARN") and self.speaks:
            await self.process.write(f"NCCL version {member.version}\n")
        if not member.interface:
            words = [
                member.head().replace(
                    "NCCL INFO ", "bootstrap.cc:118 NCCL WARN Bootstrap : no socket interface found"
                )
            ]
            await self._tell(words, warning=True)
            raise _nccl("invalid usage (run with NCCL_DEBUG=WARN for details)")
        network(self.process).listen(self.port, self.server)
        for rank in ranks:
            await self._tell(self.comm.lines(rank, "bootstrap"))
        await self.world.gather("ncclGetUniqueId")
        await self._reach(member, self.comm.members[0])
        await self._reach(member, self.comm.members[(ranks[-1] + 1) % self.comm.size])
        await self.world.gather("ncclCommInitRank")
        await self.process.sleep(INIT_S)
        for rank in ranks:
            await self._tell(self.comm.lines(rank, "init"))
        await self.world.gather("MPI_Barrier")

    async def _reach(self, member: Member, other: Member) -> None:
        """Connect to another rank, as often as NCCL tries. Raises ``_Failure``."""
        for number in range(1, RETRIES + 2):
            kind = await self._failure(other)
            if not kind:
                return
            if kind == "timeout":
                await self.process.sleep(SYN_S)
            said = f"socketPollConnect: connect to {other.reached_at}<{other.port}> returned {WHY[kind]}, "
            if number > RETRIES:
                warned = f"misc/socket.cc:568 NCCL WARN {said}exceeded error retry count after {number} attempts"
                await self._tell([member.head().replace("NCCL INFO ", warned)], warning=True)
                raise _nccl("remote process exited or there was a network error")
            if member.tells("INIT"):
                text = f"{said}retrying ({number}/{RETRIES}) after sleep for {number}00 msec"
                await self._tell([member.head() + text])
            await self.process.sleep(number / 10)

    async def _failure(self, other: Member) -> str:
        """Return why another rank cannot be reached; empty where it can."""
        if other.host == self.process.machine.hostname:
            return ""
        try:
            await network(self.process).find(other.reached_at, other.port)
        except NetworkError as error:
            return error.kind if error.kind in WHY else "refused"
        return ""

    # The measurements.

    async def _table(self) -> None:
        await self.say(kit.told("nccl_tests_head"))
        none = bool(self.collective.redop)
        for kind in self.call.kinds:
            for operation in self.call.operations[: 1 if none else None]:
                for size in self.call.sizes():
                    await self._row(size, kind, self.collective.redop or operation)
        mean = sum(self.rows) / len(self.rows) if self.rows else 0.0
        await self.say(f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {mean:g} \n#\n")

    async def _row(self, size: int, kind: str, operation: str) -> None:
        """Measure one size, out of place and in place."""
        count, each = self.comm.size, SIZES.get(kind, 8)
        elements = size // each
        if self.collective.shared:  # parts of a rank begin at multiples of 16 bytes
            elements = (elements // count) & -(16 // each) if elements // count >= 16 // each else 0
        real = elements * each * (count if self.collective.shared else 1)
        root = self.call.root if self.collective.rooted else -1
        text = f"{real:12d}  {elements:12d}  {kind:>8}  {operation:>6}  {root:6d}"
        for in_place in (False, True):
            seconds = self._seconds(real, in_place)
            await self._call(seconds, elements, DATATYPES.index(kind))
            algorithm = real / seconds / 1e9
            bus = algorithm * self.collective.factor(count)
            self.rows.append(bus)
            micro = seconds * 1e6
            shown = f"{micro:7.0f}" if micro >= 10000 else f"{micro:7.1f}" if micro >= 100 else f"{micro:7.2f}"
            wrong = "0" if self.call.check and (self.collective.checked_in_place or not in_place) else "N/A"
            text += f"  {shown}  {algorithm:6.2f}  {bus:6.2f}  {wrong:>5}"
        await self.say(text)

    def _seconds(self, size: int, in_place: bool) -> float:
        """Return how long one call takes: what is alike for all ranks follows from the communicator."""
        seed = f"{self.comm.id}/{self.collective.name}/{size}/{in_place}"
        noise = zlib.crc32(seed.encode()) / 2**31 - 1
        moved = size * (self.collective.factor(self.comm.size) or 1.0)
        return self.comm.seconds(self.collective.name, int(moved), noise)

    async def _call(self, seconds: float, elements: int, datatype: int) -> None:
        """Let all ranks compute for as long as the warm-up and all iterations take. Raises ``_Failure``."""
        assert self.cuda is not None
        process, comm, following = self.process, self.comm, (self.first + self.call.gpus) % self.comm.size
        for rank in range(self.first, self.first + self.call.gpus):
            values = {"name": self.collective.title, "n": len(self.rows), "count": elements, "datatype": datatype}
            await self._tell(comm.lines(rank, "coll", **values))
        await self.world.gather("MPI_Barrier")
        self._check_device()
        try:
            for number in range(self.call.gpus):
                self.cuda.work(comm.members[self.first + number].ordinal, "collective")
        except CudaError as error:
            raise _Failure(CUDA_FAILED, f"Test CUDA failure common.cu:303 '{error}'", "common.cu:408") from error
        while await self._failure(comm.members[following]):
            await process.sleep(LOOK_S)  # NCCL waits for ever
        await process.sleep(seconds * (self.call.iterations + self.call.warmup))
        self._check_device()

    def close(self) -> None:
        """Give devices, processors and port back."""
        self.process.machine.meter.occupy(self.process.machine.now(), -self.busy)
        if self.cuda is not None:
            self.cuda.close()
        if self.process.machine.network is not None:
            self.process.machine.network.close(self.port, self.server)


def _nccl(error: str) -> _Failure:
    return _Failure(NCCL_FAILED, f"Test NCCL failure common.cu:1012 '{error} / '", "common.cu:891")


TOOLS: dict[str, Tool] = {f"{name}_perf": partial(perf, each) for name, each in COLLECTIVES.items()}
TOOLS |= {f"{name}_mpi": tool for name, tool in [*TOOLS.items()]}
