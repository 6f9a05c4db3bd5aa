"""One pod of a job of several: it meets the others over the cluster's network, and works, hangs and fails with them.

The first rank keeps a store at the master's port. Who reaches it by name, service and policy is in; once all are, all
connect to the next, as in the ring of NCCL, and look now and then whether that way is still open.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubesim.gpu import collectives
from kubesim.gpu.collectives import Membership, glog, membership, text
from kubesim.gpu.nccl import Communicator, Member
from kubesim.kubelet.duties import Post
from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.network.policy import Gate
from kubesim.shell.errors import NetworkError
from kubesim.streaming.seam import Duplex

WORKING, HANGING = "rank-steps", "rank-hang"
IMPORTS_S, LOOK_S, CLOSED_S = 2.0, 5.0, 2.0
"""Until a script has imported torch; between two looks at the ring; until a closed connection is noticed."""
SYN_S, LONGEST_WAIT_S = 127.0, 60.0
"""How long the kernel knocks where nothing answers; the most that PyTorch waits between two tries."""
RESUMED_S = 30.0
"""How long the ranks of a job take to find each other again after a restart of the kubelets, which says nothing."""
RETRIES = 34
ABORTED, FAILED = 134, 1
WHY = {"timeout": "Connection timed out", "refused": "Connection refused", "unreachable": "No route to host"}
KINDS = {"nxdomain": "unresolved", "again": "unsure", "timeout": "timeout", "unreachable": "unreachable"}
WARNED = ("WARN", *collectives.TALKATIVE, "VERSION")


class Over(Exception):
    """The process ends, with its last words and its exit code."""

    def __init__(self, words: str, code: int = FAILED) -> None:
        super().__init__(words)
        self.code = code


@dataclass
class Store(HttpServer):
    """PyTorch's TCPStore: who has come. ``begun``: all had met, and nobody else gets in."""

    size: int
    members: dict[int, Rank] = field(default_factory=dict)
    begun: bool = False
    closed: bool = False
    starts: datetime | None = None
    """The moment at which all make their first step."""
    cut: set[int] = field(default_factory=set)
    """Places whose way to the next one is not open, or whose device does not answer."""
    silent: bool = False
    """Whether somebody is gone without a word."""
    gone: str = ""
    """The address of somebody who has closed the connections."""

    async def respond(self, request: Request) -> Response:
        """Close the connection: this is no HTTP."""
        raise NetworkError("reset")

    async def converse(self, connection: Duplex, source: str) -> None:
        """Close the connection at the first word that is none of the store's own."""
        await connection.read(1)

    @property
    def hangs(self) -> bool:
        """Whether collectives do not end."""
        return self.silent or bool(self.cut)

    def join(self, rank: Rank) -> int | None:
        """Let somebody in; returns the place, None for one who comes too late."""
        if self.begun or self.closed:
            return None
        place = rank.own.place
        if place < 0:
            place = next((number for number in range(self.size) if number not in self.members), -1)
        self.members[place] = rank
        self.begun = sum(number < self.size for number in self.members) == self.size
        return place

    def leave(self, rank: Rank, *, silently: bool) -> None:
        """Let somebody go."""
        for place in [place for place, member in self.members.items() if member is rank]:
            if not self.begun:
                del self.members[place]
            elif silently:
                self.silent = True
            else:
                self.gone = self.gone or rank.post.address


class Rank:
    """The processes of one pod."""

    def __init__(self, post: Post, own: Membership) -> None:
        self.post = post
        self.own = own
        self.place = own.place
        self.ready = False
        """Whether NCCL's communicator is made."""
        self.interface = collectives.interface(post.env.get("NCCL_SOCKET_IFNAME", ""))
        self.port = 32768 + zlib.crc32(post.owner.encode()) % 28000
        self._debug = post.env.get("NCCL_DEBUG", "").upper()
        self._began = post.clock.now()
        self._doing = post.doing
        self._since: datetime | None = None
        self._works = False
        self._own: Store | None = None
        self._store: Store | None = None
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        """End; a pod whose device or machine has failed closes no connection."""
        self._works = False
        self._task.cancel()
        if self._store is not None:
            self._store.leave(self, silently=self._is_silent())
        if self._own is not None:
            self._own.closed = True
            self.post.fabric.close(self.post.address, self.own.port, self._own)

    def _is_silent(self) -> bool:
        try:
            board = self.post.machines.gpus(self.post.node).board
        except KeyError:
            return True
        return any(not device.usable or device.trouble.stalled for device in board.visible(self.post.owner))

    async def _run(self) -> None:
        try:
            await self.post.clock.sleep(IMPORTS_S)
            if self.own.missing:
                raise Over(text("unset", variable=self.own.missing))
            self._store = store = await self._meet()
            await self._connect(store)
            await self._work(store)
        except Over as over:
            self._works = False
            self._die(str(over), over.code)

    def _die(self, words: str, code: int) -> None:
        """End the process; torchrun tells of it and ends with 1."""
        if self.own.launched:
            signal = ABORTED - 128 if code == ABORTED else 0
            words += "\n" + collectives.ended(
                0, self._rank, collectives.CHILD_PID, signal, self.own.script, self._host, self.post.clock.now(), code
            )
            code = FAILED
        self.post.die(words, code)

    # Meeting.

    async def _meet(self) -> Store:
        """Return the store, once everybody has come to it. Raises ``Over``."""
        own, clock = self.own, self.post.clock
        if own.place == 0 or (own.place < 0 and await self._is_host()):
            self._own = Store(own.size)
            self.post.listen(own.port, self._own)
        store = await self._reach()
        place = store.join(self)
        self.place = own.place if place is None else place
        self._store = store
        while not store.begun or place is None:
            late = (clock.now() - self._began).total_seconds() >= own.timeout
            if store.closed or (late and store is not self._own):
                why = text("reset") if store.closed else text("waited", ms=round(own.timeout * 1000))
                raise Over(text("store", rank=self._rank, why=why))
            if late:
                joined = len(store.members) * own.each
                raise Over(text("alone", over=round(own.timeout) + 1, joined=joined, size=own.size * own.each))
            await clock.sleep(1.0)
        return store

    async def _is_host(self) -> bool:
        """Whether the place to meet is here, as torchrun finds out for itself."""
        try:
            return self.post.address in await self.post.network.resolve(self.own.master)
        except NetworkError:
            return self.own.master in (self._host, "localhost")

    async def _reach(self) -> Store:
        """Return the store, once the master is reached. Raises ``Over`` when the time is up."""
        own, clock, wait = self.own, self.post.clock, 1.0
        values = {"master": own.master, "port": own.port}
        while True:
            kind = "refused"
            try:
                found = await self.post.network.find(own.master, own.port)
                if isinstance(found, Store):
                    return found
            except NetworkError as error:
                kind = KINDS.get(error.kind, "refused")
            if kind == "timeout":
                await clock.sleep(SYN_S)
            if not self.post.resumed or (clock.now() - self._began).total_seconds() > RESUMED_S:
                self.post.say(text(kind, at=glog(clock.now()), **values))
            left = own.timeout - (clock.now() - self._began).total_seconds()
            if left <= 0:
                ms = round(own.timeout * 1000)
                raise Over(text("unjoined", at=glog(clock.now()), ms=ms, **values))
            await clock.sleep(min(wait, left))
            wait = min(wait * 2, LONGEST_WAIT_S)

    # NCCL.

    @property
    def _rank(self) -> int:
        return max(self.place, 0) * self.own.each

    @property
    def _host(self) -> str:
        return str(self.post.pod["spec"].get("hostname") or self.post.pod["metadata"]["name"])

    def _tell(self, name: str, **values: object) -> None:
        """Print what NCCL says where it is told to talk."""
        head = f"{self._host}:{self._pid}:{self._pid + 97} [0]"
        wanted = WARNED if name in ("none", "exceeded", "lost") else collectives.TALKATIVE
        if self._debug in wanted:
            self.post.say(text(name, head=head, rank=self._rank, **values))

    def _describe(self, store: Store, when: str) -> None:
        """Print what NCCL says of the job; before a restart of the kubelet it was printed already."""
        if self._debug in collectives.TALKATIVE and not self.post.resumed:
            own, places = self.own, sorted(store.members)
            members = [each for place in places for each in processes(store.members[place].post, own.each, self._pid)]
            for line in describe(members, range(self._rank, self._rank + own.each), when):
                self.post.say(line)

    @property
    def _pid(self) -> int:
        return collectives.CHILD_PID if self.own.launched else self.post.pid

    async def _connect(self, store: Store) -> None:
        """Make the communicator: find an interface, and a way to the next. Raises ``Over``."""
        if not self.interface:
            self._tell("none")
            raise Over(text("interface", rank=self._rank))
        self._describe(store, "bootstrap")
        following = store.members[(self.place + 1) % self.own.size]
        if following.interface == "lo":
            await self._knock("127.0.0.1", following.port, "refused")
        while not await self._opens(following):
            self._check(store, self._began)
            await self._knock(following.post.address, following.port, "timeout")
        self.ready = True
        since = self.post.clock.now()
        while not all(member.ready for member in store.members.values()):
            self._check(store, since)
            await self.post.clock.sleep(1.0)
        store.starts = store.starts or self.post.clock.now() + timedelta(seconds=1)
        self._describe(store, "init")
        await self.post.clock.sleep(max((store.starts - self.post.clock.now()).total_seconds(), 0.0))

    async def _knock(self, address: str, port: int, kind: str) -> None:
        """Try to connect where nobody answers. Raises ``Over`` where somebody refuses to the end."""
        values = {"peer": address, "peer_port": port, "why": WHY[kind]}
        if kind == "timeout":
            await self.post.clock.sleep(SYN_S)
            self._tell("retrying", n=1, **values)
            return
        for number in range(1, RETRIES + 1):
            self._tell("retrying", n=number, **values)
            await self.post.clock.sleep(number / 10)
        self._tell("exceeded", **values)
        raise Over(text("remote", rank=self._rank, **values))

    async def _opens(self, following: Rank) -> bool:
        """Whether the way to the next pod is open."""
        gate = Gate(self.post.client, self.post.fabric, self.post.address)
        return await gate.opens(following.post.address, following.port)

    # Working.

    async def _work(self, store: Store) -> None:
        """Compute with the others until something ends it. Raises ``Over``."""
        clock, self._works = self.post.clock, True
        following = store.members[(self.place + 1) % self.own.size]
        while True:
            moves = await self._opens(following) and not self._is_silent()
            (store.cut.discard if moves else store.cut.add)(self.place)
            if store.gone:
                await clock.sleep(CLOSED_S)
            self._check(store, self._since or clock.now())
            for member in store.members.values():
                member.follow(store)
            await clock.sleep(LOOK_S)

    def follow(self, store: Store) -> None:
        """Work or hang as all do: nobody gets past a collective that somebody has not joined."""
        wanted = HANGING if store.hangs else WORKING
        if self._works and wanted != self._doing:
            self._doing = wanted
            self.post.go_on(wanted)
            self._since = self.post.clock.now() if wanted == HANGING else None

    def _check(self, store: Store, since: datetime) -> None:
        """Raise ``Over`` where a peer has closed its connections, or nothing has moved for too long."""
        now = self.post.clock.now()
        if store.gone:
            values = {"peer": store.gone, "peer_port": self.port}
            self._tell("lost", **values)
            raise Over(text("closed", rank=self._rank, at=glog(now), **values), ABORTED)
        ran = (now - since).total_seconds()
        if ran < self.own.timeout:
            return
        sequence = 1 + int((since - self._began).total_seconds() * 4)
        raise Over(collectives.watchdog(self._rank, now, self.own.timeout, ran, sequence), ABORTED)


def processes(post: Post, count: int, pid: int) -> list[Member]:
    """Return the ranks of a pod as NCCL knows them."""
    board, local = post.machines.gpus(post.node).board, post.env.get("LOCAL_RANK", "0")
    first, host = int(local[:4]) if local.isdecimal() else 0, post.pod["spec"].get("hostname")
    devices = board.visible(post.owner) or board.devices
    return [
        Member(
            str(host or post.pod["metadata"]["name"]), pid + at, post.address, first + at,
            devices[(first + at) % len(devices)], post.env, post.nccl,
        )
        for at in range(count)
    ]  # fmt: skip


def describe(members: list[Member], ranks: Iterable[int], *when: str) -> list[str]:
    """Return the lines of NCCL_DEBUG at points of a job's life, of some ranks."""
    comm = Communicator(members)
    return [line for point in when for rank in ranks for line in comm.lines(rank, point)]


def alone(post: Post) -> list[str]:
    """Return NCCL's lines of a job of this pod alone, if it is to talk."""
    if post.env.get("NCCL_DEBUG", "").upper() not in collectives.TALKATIVE:
        return []
    count = collectives.processes(post.argv, post.env, 1)
    pid = collectives.CHILD_PID if collectives.is_launcher(post.argv) else post.pid
    return describe(processes(post, count, pid), range(count), "bootstrap", "init")


class Alone:
    """A training program of one pod, which lets NCCL talk when its ranks meet."""

    def __init__(self, post: Post, lines: list[str]) -> None:
        self._task = asyncio.ensure_future(self._run(post, lines))

    def stop(self) -> None:
        """End at once."""
        self._task.cancel()

    async def _run(self, post: Post, lines: list[str]) -> None:
        await post.clock.sleep(IMPORTS_S)
        for line in lines:
            post.say(line)


def begin_alone(post: Post) -> Alone | None:
    """Begin a program of one pod."""
    lines = [] if post.resumed else alone(post)
    return Alone(post, lines) if lines else None


def begin(post: Post) -> Rank | None:
    """Begin to take part in a job."""
    try:
        devices = len(post.machines.gpus(post.node).board.visible(post.owner))
    except KeyError:
        devices = 0
    own = membership(post.argv, post.env, max(devices, 1))
    return Rank(post, own) if own is not None else None
