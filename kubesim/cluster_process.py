"""One cluster of a host, in a process of its own: its API on one Unix socket, and what the host asks on another."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from kubesim import garbage
from kubesim.api.durations import parse_time
from kubesim.changelog import ChangeLog, ChangeLogError, Saver, State
from kubesim.clock import Clock, RealClock, SkippingClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.current_unit import CURRENT, REQUEST
from kubesim.errors import ApiError, Obj
from kubesim.forkserver import GIVEN_UP, go_on_as_copy
from kubesim.forwarded import ForwardedRunner
from kubesim.garbage import Sweeper
from kubesim.heartbeat import Heartbeat
from kubesim.image import Image, image_of
from kubesim.listener import Listener
from kubesim.located import FileError
from kubesim.pki import CertificateAuthority
from kubesim.processes import HostError
from kubesim.python.engine import running_programs
from kubesim.removal import find, with_family
from kubesim.saved import with_images
from kubesim.serve import listening
from kubesim.streaming.remote import RUNNING
from kubesim.times import micro

Images = Sequence[Image]
"""What new clusters may begin with."""
MAX_LINE, MAX_NOTED = 1 << 20, 500
LEGACY_PATH = "/clusters/{name}"
"""Where clusters were found before their tokens told them from one another."""


def run(authority: CertificateAuthority, images: Images, job: Obj, api: Listener, control: Listener) -> None:
    """Run the cluster that ``job`` describes until SIGTERM."""
    asyncio.run(ClusterProcess(authority, images, job).serve(api, control))


class ClusterProcess:
    """Makes or restores a cluster, serves it, and answers the host."""

    def __init__(self, authority: CertificateAuthority, images: Images, job: Obj) -> None:
        self._authority = authority
        self._images = images
        self._job = job
        self._name: str = job["name"]
        self._folder = Path(job["folder"])
        self._saver: Saver | None = None
        self._removed: Obj | None = None
        self._copies = 0
        self._clock: Clock
        self._made: asyncio.Future[Cluster]
        self._api: Listener
        self._threads: ThreadPoolExecutor

    async def serve(self, api: Listener, control: Listener) -> None:
        """Serve until a signal; a cluster that cannot be made is only told of."""
        loop = asyncio.get_running_loop()
        self._clock = SkippingClock() if self._job.get("skips") else RealClock()
        self._made, self._api = loop.create_future(), api
        self._begin_threads()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        garbage.spare_the_old()
        async with AsyncExitStack() as stack:
            stack.callback(Heartbeat(Path(self._job["page"]), running_programs).start())
            server = await asyncio.start_unix_server(self._answer, sock=control, limit=MAX_LINE)
            stack.callback(server.close)
            try:
                cluster = await self._make()
            except HostError as error:
                self._made.set_exception(error)
                self._made.exception()
            else:
                stack.push_async_callback(self._end, cluster)
                cluster.nodes.fabric.guide = self._job.get("create", {}).get("guide", "")
                cluster.nodes.door.socket = str(api.getsockname())
                await stack.enter_async_context(listening(self._handle, api, None, ForwardedRunner))
                stack.callback(cluster.guard.stop)
                stack.callback(Sweeper(self._clock).stop)
                self._made.set_result(cluster)
            await stop.wait()

    async def _end(self, cluster: Cluster) -> None:
        await cluster.stop()
        if self._saver is not None:
            await self._saver.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for the cluster: at the root, or below the path that clusters once had."""
        cluster = self._made.result()
        CURRENT.set((REQUEST, f"{request.method} {request.path[:MAX_NOTED]}"))
        prefix, path = LEGACY_PATH.format(name=self._name), request.path
        if path == prefix or path.startswith(prefix + "/"):
            path = path.removeprefix(prefix) or "/"
        response = await cluster.api.handle(request, path)
        if response.status == 401:
            # Its next token may be another cluster's, to which only a new connection leads.
            response.force_close()
        return response

    async def _make(self) -> Cluster:
        """Return the cluster, restored where it was kept. Raises HostError."""
        try:
            file = ChangeLog(self._folder)
            saved = None if self._job.get("fresh") else await asyncio.to_thread(file.load)
            if saved is not None:
                if unit := self._job.get("remove"):
                    self._removed = await asyncio.to_thread(self._remove, file, saved, (unit[0], unit[1]))
                return await self._adopt(await self._restored(saved), file)
            return await self._adopt(await self._created(), file)
        except (ChangeLogError, ApiError) as error:
            raise HostError(500, f"the cluster in {self._folder} cannot be restored: {error}") from error
        except FileError as error:
            raise HostError(422, error.message) from error
        except OSError as error:
            raise HostError(507, f"{error.filename}: {error.strerror}; free some space for it.") from error

    def _remove(self, file: ChangeLog, saved: State, unit: tuple[str, str]) -> Obj | None:
        """Take out of what was kept the object over which the cluster hung, for good; returns which, if any."""
        place = find(saved, unit)
        if place is None:
            return None
        (table, namespace, name), lines = with_family(saved, place)
        for line in lines:
            del saved[line]
        file.append(dict.fromkeys(lines, b""), self._clock.now())
        return {"at": micro(self._clock.now()), "resource": table, "namespace": namespace, "name": name}

    async def _created(self) -> Cluster:
        asked = self._job["create"]
        spec = ClusterSpec(self._name, self._clock.now(), asked["nodes"], asked["gpus"])
        spec.deadline, spec.images = parse_time(self._job["deadline"]), asked.get("images", [])
        plain = {name: asked[name] for name in ("nodes", "gpus", "addons", "file") if name in asked}
        image = next((found for found in self._images if found.asked == plain), None)
        if image is None:
            image = await asyncio.to_thread(image_of, plain, self._authority)
        state = with_images(image.state_of(spec, self._job["issuer"]), asked.get("present", []))
        cluster = await self._restored(state, settled=True)
        cluster.changes.give_back(state)  # none of it is on the disk
        return cluster

    async def _restored(self, saved: State, *, settled: bool = False) -> Cluster:
        """Return a cluster as it was kept, with the deadline that it has by now."""
        server, path = self._job["server"], LEGACY_PATH.format(name=self._name)
        cluster = await Cluster.restore(saved, self._clock, server, self._authority, settled=settled, path=path)
        cluster.spec.name = self._name
        if "deadline" in self._job:
            cluster.set_deadline(parse_time(self._job["deadline"]))
        return cluster

    async def _adopt(self, cluster: Cluster, file: ChangeLog) -> Cluster:
        """Keep a cluster from now on."""
        self._saver = Saver(file, cluster.changes, self._clock)
        try:
            await self._saver.start()
        except OSError:
            await cluster.stop()
            raise
        return cluster

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question of the host."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = orjson.loads(await reader.readline())
            try:
                answer = {"answer": await self._calls()[asked["call"]](*asked["arguments"])}
            except HostError as error:
                answer = {"error": [error.code, error.message]}
            writer.write(orjson.dumps(answer) + b"\n")
            await writer.drain()
        writer.close()

    def _calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        calls = (self._describe, self._deadline, self._skip, self._checkpoint, self._rollback)
        return {call.__name__[1:]: call for call in calls}

    async def _describe(self) -> Obj:
        """Return what the control API tells of the cluster, once it is ready. Raises HostError."""
        cluster = await asyncio.shield(self._made)
        spec, signer = cluster.spec, cluster.signer
        return {
            "server": cluster.server,
            "kubeconfig": cluster.admin_kubeconfig(),
            "createdAt": micro(spec.created_at),
            "deadline": micro(spec.deadline) if spec.deadline else None,
            "nodes": spec.nodes,
            "gpus": spec.gpus,
            "keyId": signer.key_id,
            "removed": self._removed,
        }

    async def _skip(self, seconds: float, commands: bool) -> Obj:
        """Move the cluster's time on, perhaps only while a remote command runs; return it and what was skipped."""
        clock = await self._skipping()
        skipped = await clock.advance(seconds, goes_on=lambda: bool(RUNNING) or not commands)
        return {"skipped": skipped, "now": micro(clock.now())}

    async def _skipping(self) -> SkippingClock:
        await asyncio.shield(self._made)
        if not isinstance(self._clock, SkippingClock):
            raise HostError(409, f"{self._name} keeps the machine's time; make a cluster with skips: true.")
        return self._clock

    async def _checkpoint(self) -> None:
        """Go on as a copy without connections, which keeps nothing on the disk. Raises HostError."""
        await self._skipping()
        await self._api.connections.end()
        if running_programs():
            raise HostError(409, f"A program runs in a container of {self._name}, and threads cannot be copied.")
        self._threads.shutdown()
        self._begin_threads()
        if not go_on_as_copy():
            raise ConnectionAbortedError  # the copy has answered
        self._copies += 1
        if self._saver is not None:
            self._saver.leave()

    async def _rollback(self) -> None:
        """Let the cluster be again what it was at the last checkpoint. Raises HostError."""
        if not self._copies:
            raise HostError(409, f"{self._name} has no checkpoint.")
        asyncio.get_running_loop().call_soon(os._exit, GIVEN_UP)  # once this is answered

    def _begin_threads(self) -> None:
        self._threads = ThreadPoolExecutor()
        asyncio.get_running_loop().set_default_executor(self._threads)

    async def _deadline(self, deadline: str | None) -> None:
        (await asyncio.shield(self._made)).set_deadline(parse_time(deadline))
