"""mpirun and orted of Open MPI 4.1.7: processes on this machine and, over ssh, on others. Sources: mpirun(1), orted.

mpirun starts ``ssh HOST orted ...`` for every other host; each orted connects back and starts its ranks, which are
processes of its own container. Nothing here knows of pods: names, keys and network policies decide.
"""

from __future__ import annotations

import asyncio
import math
import shlex
import zlib

from kubesim.mpi import options
from kubesim.mpi.job import LOCAL_RANK, RANK, SIZE, URI, Job, Loss, find, world
from kubesim.mpi.options import Call, Host, NotAllocated, TooFewSlots, TooMany, UsageError, show, usage
from kubesim.shell.errors import FileError, Leave, NetworkError, StartError
from kubesim.shell.files import Directory
from kubesim.shell.handles import Outside
from kubesim.shell.machine import Process, Tool
from kubesim.shell.signals import DEATHS, NUMBERS
from kubesim.shell.sockets import network

VERSION = "mpirun (Open MPI) 4.1.7\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
FIRST_PORT, PORTS = 32769, 28000
NOT_FOUND = 134
"""The status of an mpirun whose program is missing."""
START_S = 0.4
"""Seconds that a daemon takes to start."""
POINTS, POINTS_S = 10_000_000, 2.9
"""Of each rank of ``pi``, and how long they take."""
KILL_S = 1.0
"""Between SIGTERM and SIGKILL, when a job is ended."""


async def mpirun(process: Process) -> int:
    """Run a job to its end."""
    try:
        call = options.parse(process.argv[1:], process.env)
        if call.has("V", "version", "h", "help"):
            await process.write(VERSION if call.has("V", "version") else usage())
            return 0
        return await _Launch(process, call).run()
    except UsageError as error:
        await process.error(str(error))
        return 1


class _Launch:
    """One run of mpirun."""

    def __init__(self, process: Process, call: Call) -> None:
        self.process = process
        self.call = call
        family = zlib.crc32(f"{process.machine.hostname}/{process.pid}/{process.started}".encode()) % 65536
        env, folder = call.environment(process.env), call.given.get("wdir", process.cwd)
        self.job = Job(0, family, call.argv, env, folder, self._print, chosen_folder="wdir" in call.given)
        self.job.programs = call.programs
        self.port = FIRST_PORT + family % PORTS
        self.uri = f"{family << 16}.0;tcp://{process.machine.address}:{self.port}"
        self.event = asyncio.Event()
        self.job.changed = self.event.set
        self.sessions: dict[int, Process] = {}
        """Number of each daemon on another machine -> the ssh that has started it."""
        self._begun: dict[tuple[int, int], bool] = {}

    async def run(self) -> int:
        call, env = self.call, self.process.env
        allowed = env.get("OMPI_ALLOW_RUN_AS_ROOT") == env.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == "1"
        if self.process.view.uid == 0 and not call.has("allow-run-as-root") and not allowed:
            return await self._fail("root")
        if not call.argv:
            return await self._fail("nothing")
        try:
            found = options.choose(self._listed(), options.read_hosts(call.given.get("host", "")))
        except NotAllocated:
            return await self._fail("unallocated", program=call.argv[0], hosts=call.given["host"])
        except FileError as error:
            return await self._fail("hostfile", path=error.path)
        found = found or [Host(self.process.machine.hostname)]
        network(self.process).listen(self.port, self.job)
        self.process.handlers |= dict.fromkeys(("TERM", "INT"), self._stop)
        try:
            return await self._launch(found)
        finally:
            self.job.end()
            network(self.process).close(self.port, self.job)
            for session in self.sessions.values():
                session.signal("KILL")

    def _stop(self, name: str) -> None:
        self.job.loss = self.job.loss or Loss(-1, 0, "", 128 + NUMBERS[name])
        self.job.end()

    async def _fail(self, name: str, status: int = 1, **values: object) -> int:
        await self.process.error(show(name, **values))
        return status

    def _listed(self) -> list[Host]:
        """Return the hosts of the hostfile. Raises ``FileError``."""
        path = self.call.given.get("hostfile") or self.call.parameters.get("orte_default_hostfile", "")
        if not path:
            return []
        try:
            return options.read_hostfile(self.process.view.read(path).decode("utf-8", "replace"))
        except FileError as error:
            raise FileError(error.code, path) from error

    async def _launch(self, found: list[Host]) -> int:
        """Start the daemons, then the ranks, and wait for their end."""
        local = {"localhost", "127.0.0.1", self.process.machine.hostname, self.process.machine.address}
        for number, host in enumerate(found):
            if host.name in local or host.name.partition(".")[0] == self.process.machine.hostname:
                self.job.report(number, self.process)
            else:
                await self._start_daemon(number, host.name, len(found))
        while len(self.job.here) < len(found):
            if self._lost() is not None or self.job.over.is_set():
                return await self._fail("daemons")
            await self._wait()
        sized = [Host(each.name, each.slots or self.job.cores[number]) for number, each in enumerate(found)]
        try:
            placed = options.place(self.call, sized)
        except TooFewSlots as error:
            return await self._fail("slots", count=error.count, program=self.call.argv[0])
        except TooMany:
            return await self._fail("fork", rank=0, node=self.job.here[0])
        self.job.start(dict(enumerate(placed)))
        own = [number for number in self.job.here if number not in self.sessions]
        running = [asyncio.ensure_future(serve(self.process, self.job, number, self.uri)) for number in own]
        while not self.job.over.is_set():
            if (lost := self._lost()) is not None:
                there = self.job.here[lost]
                here = self.process.machine.hostname
                return await self._fail("lost", family=self.job.family, here=here, number=lost, there=there)
            await self._wait()
        await asyncio.gather(*running, *(session.wait() for session in self.sessions.values()))
        return await self._judge()

    async def _wait(self) -> None:
        await self.event.wait()
        self.event.clear()

    def _lost(self) -> int | None:
        """Return the number of a daemon whose ssh has ended though the job goes on."""
        return next((number for number, each in self.sessions.items() if each.status is not None), None)

    async def _start_daemon(self, number: int, host: str, count: int) -> None:
        """Start a daemon over ssh. Leaves mpirun where there is no ssh."""
        agent = self.call.parameters.get("plm_rsh_agent", "ssh : rsh")
        words = [*shlex.split(agent.partition(":")[0]), *self.call.parameters.get("plm_rsh_args", "").split()]
        folder = self.process.program.path.rpartition("/")[0] or "/usr/bin"
        given = {"ess_base_jobid": str(self.job.family << 16), "ess_base_vpid": str(number)}
        given |= {"ess_base_num_procs": str(count + 1), "orte_hnp_uri": self.uri, "plm": "rsh"}
        daemon = [f"{folder}/orted", "-mca", "ess", '"env"']
        for name, value in given.items():
            daemon += ["-mca", name, f'"{value}"']
        command = f"PATH={folder}:$PATH ; export PATH ; {' '.join(daemon)}"
        try:
            session = self.process.run([words[0], "-x", *words[1:], host, command])
        except StartError as error:
            await self._fail("agent", agent=agent)
            raise Leave(1) from error
        self.sessions[number] = session
        asyncio.ensure_future(session.wait()).add_done_callback(lambda task: self.event.set())

    async def _judge(self) -> int:
        """Say how the job has ended."""
        job, loss = self.job, self.job.loss
        if job.refusal:
            await self.process.error(f"{job.refusal}{job.size} total processes failed to start\n")
            return NOT_FOUND
        if loss is None or loss.rank < 0:
            return loss.status if loss is not None else 0
        await self.process.error(show("primary"))
        if loss.signal:
            words = f"{NUMBERS[loss.signal]} ({DEATHS.get(loss.signal) or loss.signal})"
            return await self._fail("signal", loss.status, rank=loss.rank, pid=loss.pid, node=loss.node, signal=words)
        return await self._fail("status", loss.status, family=job.family, rank=loss.rank, code=loss.status)

    async def _print(self, rank: int, fd: int, data: bytes) -> None:
        """Pass on what a rank prints, with what is asked for before each line, and keep it in the rank's own log."""
        if path := self.call.given.get("output-filename"):
            await self._keep(path, rank, fd, data)
        name = "stdout" if fd == 1 else "stderr"
        if self.call.has("tag-output", "timestamp-output"):
            stamp = f"{self.process.machine.clock.now():%a %b %d %H:%M:%S %Y}" * self.call.has("timestamp-output")
            tag = f"{stamp}[1,{rank}]<{name}>:".encode()
            fresh = self._begun.get((rank, fd), True)
            self._begun[rank, fd] = data.endswith(b"\n")
            body = data[:-1].replace(b"\n", b"\n" + tag) + data[-1:]
            data = (tag if fresh else b"") + body
        await self.process.fds[fd].write(data)

    async def _keep(self, folder: str, rank: int, fd: int, data: bytes) -> None:
        """Append to OUTPUT/1/rank.N/stdout or stderr."""
        view, path = self.process.view, ""
        place = f"{folder}/1/rank.{rank:0{len(str(self.job.size - 1))}}"
        for part in place.split("/"):
            path += f"{part}/"
            if view.find(path) is None:
                view.mkdir(path.rstrip("/"))
        await self.process.open(f"{place}/{'stdout' if fd == 1 else 'stderr'}", "a").write(data)


async def orted(process: Process) -> int:
    """Be the daemon of a host: report to mpirun, start the host's ranks, and end with them."""
    words = process.argv
    given = {name: value for flag, name, value in zip(words, words[1:], words[2:], strict=False) if flag == "-mca"}
    number = given.get("ess_base_vpid", "")
    if "orte_hnp_uri" not in given or not number.isdecimal():
        return await process.fail("cannot be started by hand: no address of mpirun was given")
    try:
        job = await find(process, given["orte_hnp_uri"])
    except NetworkError:
        return 1
    await process.sleep(START_S)
    job.report(int(number), process)
    await job.mapped.wait()
    return await serve(process, job, int(number), given["orte_hnp_uri"])


async def serve(process: Process, job: Job, number: int, uri: str) -> int:
    """Start the ranks of a host below a process, and wait until all have ended."""
    running: list[Process] = []
    waits = []
    for local, rank in enumerate(job.ranks.get(number, [])):
        child = _start_rank(process, job, (number, rank, local), uri)
        if child is None:
            break
        running.append(child)
        waits.append(asyncio.ensure_future(_follow(job, rank, child)))
    try:
        await job.over.wait()
        for name in ("TERM", "KILL"):
            alive = [child for child in running if child.status is None]
            for child in alive:
                child.signal(name)
            if alive and name == "TERM":
                await process.machine.clock.sleep(KILL_S)
        await asyncio.gather(*waits)
    finally:
        for wait in waits:
            wait.cancel()  # a daemon that is killed tells nobody
        for child in running:
            child.signal("KILL")
    return 0


async def _follow(job: Job, rank: int, child: Process) -> None:
    """Tell mpirun how a rank has ended."""
    status = await child.wait()
    job.ended(Loss(rank, child.pid, child.machine.hostname, status, child.fatal))


def _start_rank(process: Process, job: Job, place: tuple[int, int, int], uri: str) -> Process | None:
    """Start one rank; None where that cannot be, of which the job is told."""
    number, rank, local = place
    argv = job.program(rank)
    values = {
        SIZE: job.size,
        RANK: rank,
        LOCAL_RANK: local,
        "OMPI_COMM_WORLD_LOCAL_SIZE": len(job.ranks[number]),
        "OMPI_COMM_WORLD_NODE_RANK": local,
        "OMPI_UNIVERSE_SIZE": job.size,
        "OMPI_APP_CTX_NUM_PROCS": job.size,
        "OMPI_COMMAND": argv[0],
        "PMIX_RANK": rank,
        "PMIX_NAMESPACE": (job.family << 16) + 1,
        "PWD": job.folder,
        URI: uri,
    }
    env = {**process.env, **job.env, **{name: str(value) for name, value in values.items()}}
    seen = {"rank": rank, "node": process.machine.hostname}
    folder = job.folder
    if not isinstance(process.view.find(folder), Directory):
        if job.chosen_folder:
            job.refuse(show("folder", folder=folder, **seen))
            return None
        folder = process.cwd
    fds = {0: Outside(), **{fd: Outside(writer=_Output(job, rank, fd)) for fd in (1, 2)}}
    before, process.view.cwd = process.view.cwd, folder
    try:
        return process.run(argv, env=env, fds=fds)
    except StartError as error:
        job.refuse(show("executable" if error.code == 127 else "permission", program=argv[0], **seen))
        return None
    except FileError:
        job.refuse(show("fork", **seen))
        return None
    finally:
        process.view.cwd = before


class _Output:
    """The pipe that a rank prints into."""

    def __init__(self, job: Job, rank: int, fd: int) -> None:
        self._job, self._rank, self._fd = job, rank, fd

    async def write(self, data: bytes) -> None:
        """Send data to mpirun."""
        await self._job.output(self._rank, self._fd, data)


async def pi(process: Process) -> int:
    """Estimate pi with random points in every rank, as the program of mpi-operator's image mpi-pi does."""
    try:
        here = await world(process)
    except NetworkError:
        return 1
    if here.rank == 0:
        await process.write(f"Workers: {here.size}\n")
    await process.write(f"Rank {here.rank} on host {process.machine.hostname}\n")
    await process.sleep(POINTS_S)
    spread = math.sqrt(math.pi / 4 * (1 - math.pi / 4) * POINTS)
    noise = (zlib.crc32(f"minstd_rand({here.rank})".encode()) / 2**32 - 0.5) * 3
    counts = await here.gather("MPI_Reduce", round(math.pi / 4 * POINTS + spread * noise))
    if here.rank == 0:
        await process.write(f"pi is approximately {4 * sum(counts) / POINTS / here.size:.16f}\n")
    return 0


TOOLS: dict[str, Tool] = {"mpirun": mpirun, "mpiexec": mpirun, "orterun": mpirun, "orted": orted, "pi": pi}
