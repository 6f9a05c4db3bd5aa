"""Programs of known images as tools of a container's shell: they print what they print as its own process."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kubesim.errors import Obj
from kubesim.gpu.access import look
from kubesim.gpu.collectives import is_launcher, script_at
from kubesim.gpu.cuda import CudaDevice
from kubesim.kubelet import behaviours, computed, failures, ranks, torchrun, usage
from kubesim.kubelet.duties import Post
from kubesim.kubelet.gpus import User
from kubesim.kubelet.host import Host
from kubesim.kubelet.images import Image
from kubesim.kubelet.logfile import stamped
from kubesim.kubelet.programs import FOREVER_S, SCAN_LIMIT, Exit, Line, Program
from kubesim.kubelet.torchrun import Member, crew, shown
from kubesim.mpi import job as mpi
from kubesim.shell.errors import NetworkError
from kubesim.shell.files import File
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import TOOLS, settings

LOOK_S = 2.5
"""How often a long-running program is asked what it has printed."""


def nnp(context: Obj) -> Tool:
    """Return a set-uid program that prints whom it runs as: root, unless privileges may not grow."""

    async def run(process: Process) -> int:
        uid = process.machine.uid if context.get("allowPrivilegeEscalation") is False else 0
        await process.write(f"Effective uid: {uid}\n")
        return 0

    return run


def sysctl(spec: Obj) -> Tool:
    """Return ``sysctl``, which reads the kernel parameters that a pod has set, too."""
    asked = (spec.get("securityContext") or {}).get("sysctls") or ()
    return settings.sysctl({item["name"].replace("/", "."): item["value"] for item in asked})


@dataclass(frozen=True, slots=True)
class Work:
    """The known programs of a container's image, as tools of its shell: they use the container's GPUs."""

    host: Host
    owner: str
    image: Image
    seed: str
    post: Callable[[], Post]
    """Makes the place where a program stands that takes part in a job."""

    scripts: Mapping[str, str]
    """The scripts that the image is taken to have, by path; empty where their text is not known."""

    async def python(self, process: Process) -> int:
        """Interpret a program, unless it is known what it does: the image's own, as long as nobody has changed it."""
        words = [word for word in process.argv[1:] if word not in ("-u", "-B", "-O")]
        if words[:1] == ["-m"] and is_launcher(words):
            return await self.torchrun(process)
        if behaviours.plays_module(self.image, words) or (words and self._is_known(process, words[0])):
            return await self.play(process)
        return await TOOLS["python3"](process)

    async def torchrun(self, process: Process) -> int:
        """Start the ranks of a script; what the image's own do, as long as nobody has changed it, is known."""
        argv = process.argv
        script = (*argv, "")[script_at(argv)]
        if script and self._is_known(process, script):
            return await self.play(process)
        machine = process.machine
        seen = look(machine.devices, process.env, machine.clock.now())[1] if machine.devices is not None else ()
        return await torchrun.torchrun(process, crew(argv, process.env, len(seen), process.pid))

    def _is_known(self, process: Process, path: str) -> bool:
        """Tell whether a script is the image's own, unchanged, wherever it lies."""
        node = process.view.find(path)
        if isinstance(node, File):
            return bytes(node.data).decode("utf-8", "replace") in filter(None, self.scripts.values())
        return self.scripts.get(posixpath.join(process.cwd, path)) == ""

    async def play(self, process: Process) -> int:
        """Do what a command line does in the image, until it ends or a GPU ends it."""
        argv, env, gpus, now = tuple(process.argv), process.env, self.host.node.gpus, self.host.clock.now()
        try:
            env |= await mpi.environment(process)
        except NetworkError:
            return await process.fail("MPI_Init failed: mpirun cannot be reached")
        most = process.machine.meter.most
        assert process.machine.devices is not None
        found, devices = look(process.machine.devices, env, now, most)
        program = behaviours.program(
            self.image, argv, tuple(env.items()), self.host.node.architecture, seed=self.seed, found=found
        )
        libraries = failures.of(self.image, argv)
        if program.start_error:
            return await process.fail("not found", 127)
        if program.load == "rank":
            return await self._take_part(process, program, devices)
        dead: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def die(text: str) -> None:
            if not dead.done():
                dead.set_result(text)

        users = self._users(process, len(devices))
        used = gpus.start(self.owner, program, users, now, lambda error: die(libraries.cuda(error)), devices)
        short = gpus.shortage(program, libraries, argv, env, devices, users) if used else ""
        if short:
            program = failures.cut(program, failures.MEMORY_AT_S, short)
        post = replace(self.post(), argv=argv, env=env, pid=process.pid)
        for line in ranks.alone(post) if used and program.load == "training" else ():
            await process.error(line + "\n")
        try:
            with self._using(process, program.load), self._ranks(process, len(devices), die):
                return await _played(process, program, dead)
        finally:
            gpus.stop(used, self.host.clock.now())

    def _users(self, process: Process, seen: int) -> list[User]:
        """Return the processes of a command line that use the GPUs that it sees, as the node numbers them."""
        number, argv = process.machine.on_node, process.argv
        ranks = crew(argv, process.env, seen, process.pid)
        found = [User(number(each.pid), each.argv[0], each.device) for each in ranks if each.device != -1]
        local = process.env.get(mpi.LOCAL_RANK)
        return found or [
            User(number(process.pid), shown(argv)[0], int(local) if local and local.isdecimal() else None)
        ]

    @contextmanager
    def _ranks(self, process: Process, seen: int, die: Callable[[str], None]) -> Iterator[None]:
        """Let the ranks stand beside the process that has started them; where one is killed, all end."""
        machine, clock = process.machine, self.host.clock
        found = crew(process.argv, process.env, seen, process.pid)

        def lose(member: Member, name: str) -> None:
            die(computed.last_words(member, machine.hostname, clock.now(), name))

        made = [computed.stand(process, each, partial(lose, each)) for each in found]
        whole = process.use
        for each in made:
            each.use = lambda: whole().part(len(made))
        if made:
            process.use = lambda: computed.LAUNCHER
        try:
            yield
        finally:
            for each in made:
                each.vanish()

    @contextmanager
    def _using(self, process: Process, load: str) -> Iterator[None]:
        """Let a process use what such work uses of CPU and memory, as ps and the kubelet's measurements show it."""
        machine = process.machine
        most = machine.meter.most if machine.meter.most < float("inf") else 0.0
        used = usage.usage(load, self.seed, cpu_limit=most, memory_limit=machine.memory_limit)
        since = machine.now()
        process.use = lambda: used.at(machine.now() - since)
        process.held = int(used.memory(FOREVER_S))
        machine.on_growth()
        machine.meter.occupy(since, used.mean)
        try:
            yield
        finally:
            machine.meter.occupy(machine.now(), -used.mean)

    async def _take_part(self, process: Process, program: Program, devices: Sequence[CudaDevice]) -> int:
        """Be one of several pods' processes, until something ends it."""
        gpus, clock, argv = self.host.node.gpus, self.host.clock, tuple(process.argv)
        since, told, course = clock.now(), asyncio.Event(), [(0.0, "rank")]
        said: list[Line] = []
        last: list[tuple[str, int]] = []

        def note(text: str) -> None:
            said.append(Line(0.0, text, "stderr"))
            told.set()

        def die(text: str, code: int = failures.KILLED_CODE) -> None:
            last.append((text, code))
            told.set()

        def go_on(behaviour: str) -> None:
            course.append(((clock.now() - since).total_seconds(), behaviour))
            gpus.turn(self.owner, behaviours.workload(behaviour, "").load, clock.now())
            told.set()

        libraries = failures.of(self.image, argv)
        users = self._users(process, len(devices))
        used = gpus.start(self.owner, program, users, since, lambda error: die(libraries.cuda(error)), devices)
        post = replace(
            self.post(),
            argv=argv,
            work="rank",
            env=dict(process.env),
            die=die,
            say=note,
            go_on=go_on,
            doing="",
            pid=process.pid,
        )
        duty, using = ranks.begin(post), ExitStack()
        using.enter_context(self._using(process, "training"))
        using.enter_context(self._ranks(process, len(devices), die))
        try:
            shown = -1.0
            while not last:
                at = (clock.now() - since).total_seconds()
                for line in [*behaviours.following(program, course, self.seed).lines(at)]:
                    if line.at > shown and (process.env.get(mpi.RANK, "0") == "0"):
                        await process.write(line.text + "\n")
                shown, fresh, said = at, said[:], []
                for line in fresh:
                    await process.error(line.text + "\n")
                told.clear()
                waiting = asyncio.ensure_future(told.wait())
                try:
                    await _wait(process, LOOK_S, waiting)
                finally:
                    waiting.cancel()
            await process.error(last[0][0] + "\n")
            if last[0][1] == ranks.ABORTED:
                process.die("ABRT")
                await asyncio.sleep(0)
            return last[0][1]
        finally:
            using.close()
            if duty is not None:
                duty.stop()
            gpus.stop(used, clock.now())


async def _played(process: Process, program: Program, dead: asyncio.Future[str]) -> int:
    since = process.machine.now()
    for out in program.run(FOREVER_S, SCAN_LIMIT):
        if await _wait(process, since + out.at - process.machine.now(), dead):
            break
        if isinstance(out, Exit):
            return out.code
        text = stamped(out.text, process.machine.clock.now()) if program.stamped else out.text
        if out.stream == "stderr":
            await process.error(text + "\n")
        else:
            await process.write(text + "\n")
    while not dead.done():
        await _wait(process, FOREVER_S, dead)
    await process.error(dead.result())
    return failures.KILLED_CODE


async def _wait(process: Process, seconds: float, dead: asyncio.Future[Any]) -> bool:
    """Let time pass, or until a future is done; True where it is."""
    sleeping = asyncio.ensure_future(process.sleep(max(seconds, 0.0)))
    either: list[asyncio.Future[Any]] = [sleeping, dead]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
    return dead.done()
