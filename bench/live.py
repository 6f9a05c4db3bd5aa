"""From a change in a cluster to the browsers that watch: latency, bytes, a reconnect storm, and an idle installation.

Latency stands beside ``kubectl get -w`` and a bare watch in the same run: one change at a time, since what follows
within 100 ms of another is sent with it. One thread reads all of them (``live_readers``). Every figure is taken from
a whole installation on loopback, with its clients on the same machine.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, TCPConnector
from websockets.asyncio.client import ClientConnection, connect

from bench.figures import Figure, report
from bench.installation import Installation, installed
from bench.live_readers import Readers, write_kubeconfig

STARTS = 3
SETTLE_S = 3.0
IDLE_S = 15.0
MAX_WARM_UP_S, AT_REST = 30, 0.02
CHANGES, PAUSE_S = 25, 0.25
BUSY_CHANGES, BUSY_RATE = 100, 20.0
STORM, JITTER_S = 200, 2.0
OPENED_AT_ONCE = 20


@dataclass
class Viewer:
    """One browser, and what it has received."""

    url: str
    cookie: str
    seq: int = 0
    received: int = 0
    live: asyncio.Event = field(default_factory=asyncio.Event)
    socket: ClientConnection | None = None

    async def open(self) -> None:
        """Connect, telling what the page shows."""
        host = self.url.partition("://")[2].partition("/")[0]
        self.live.clear()
        self.socket = await connect(
            f"{self.url}?seq={self.seq}",
            origin=f"http://{host}",  # type: ignore[arg-type]
            additional_headers={"Cookie": f"sessionid={self.cookie}"},
            compression=None,
            open_timeout=30,
        )

    async def watch(self) -> None:
        """Take every message until the socket is closed."""
        assert self.socket is not None
        with suppress(Exception):
            async for text in self.socket:
                assert isinstance(text, str)
                self.live.set()
                self.received += len(text)
                self.seq = json.loads(text).get("seq", self.seq)


@asynccontextmanager
async def cluster(scene: dict[str, Any]) -> AsyncIterator[ClientSession]:
    """Yield a session with the cluster's API, as its administrator."""
    headers = {"Authorization": f"Bearer {scene['token']}"} if scene["token"] else {}
    async with ClientSession(connector=TCPConnector(ssl=trust_of(scene), limit=0), headers=headers) as client:
        yield client


def trust_of(scene: dict[str, Any]) -> ssl.SSLContext:
    """Return what trusts the cluster, with the administrator's certificate where there is one."""
    trust = ssl.create_default_context(cadata=scene["ca"])
    if scene["certificate"]:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(scene["certificate"] + "\n" + scene["key"])
            file.flush()
            trust.load_cert_chain(file.name)
    return trust


class Changes:
    """Writes stamped events into the session's namespace."""

    def __init__(self, client: ClientSession, scene: dict[str, Any]) -> None:
        self._client = client
        self._path = scene["server"] + events_path(scene)
        self._namespace = scene["namespace"]
        self.number = random.randrange(10**9)

    async def make(self) -> None:
        """Make one change."""
        self.number += 1
        meta = {"name": f"bench-{self.number}", "namespace": self._namespace}
        about = {"kind": "Pod", "name": "bench", "namespace": self._namespace}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": meta,
            "involvedObject": about,
            "reason": "Measured",
            "message": f"stamp-{time.monotonic_ns()}",
            "type": "Normal",
        }
        async with self._client.post(self._path, json=body) as answer:
            answer.raise_for_status()


def events_path(scene: dict[str, Any]) -> str:
    """Return the path of the events in the session's namespace."""
    return f"/api/v1/namespaces/{scene['namespace']}/events"


async def latency(installation: Installation, scene: dict[str, Any], count: int) -> tuple[float, float, int]:
    """Return the medians of ``kubectl get -w`` and of the viewers in ms, and how many changes they did not see."""
    readers = Readers()
    with tempfile.TemporaryDirectory(prefix="fl-bench-") as folder:
        async with cluster(scene) as client:
            readers.add_viewers(installation.address, scene["session"], islice(cycle(scene["cookies"]), count))
            headers = {"Authorization": f"Bearer {scene['token']}"} if scene["token"] else {}
            readers.add_watch(scene["server"], events_path(scene), trust_of(scene), headers)
            readers.add_kubectl(write_kubeconfig(Path(folder), scene), "events")
            readers.start()
            await asyncio.sleep(SETTLE_S)
            readers.forget()
            changes = Changes(client, scene)
            for _ in range(CHANGES):
                await changes.make()
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(1)
            readers.close()
    bare, kubectl, ours = map(readers.median_ms, ("watch", "kubectl", "viewers"))
    lost = count * CHANGES - readers.count("viewers")
    medians = f"bare watch {bare:.1f} ms, kubectl {kubectl:.1f} ms, browser {ours:.1f} ms"
    print(f"  {count} viewers: {medians}, {lost} of {count * CHANGES} not seen")
    return kubectl, ours, lost


async def busy(installation: Installation, scene: dict[str, Any]) -> float:
    """Return the kB a second that a viewer receives at 20 changes a second."""
    async with cluster(scene) as client:
        changes = Changes(client, scene)
        viewers, tasks = await _viewers(installation, scene, 5)
        await asyncio.sleep(SETTLE_S)
        for viewer in viewers:
            viewer.received = 0
        begun = _now()
        for number in range(BUSY_CHANGES):
            await asyncio.sleep(max(0.0, begun + number / BUSY_RATE - _now()))
            await changes.make()
        spent = _now() - begun
        await asyncio.sleep(0.3)
        await _close(viewers, tasks)
    return statistics.median(viewer.received for viewer in viewers) / spent / 1000


async def storm(installation: Installation, scene: dict[str, Any]) -> tuple[float, float]:
    """Drop 200 viewers at once; return the seconds until the last is live again, and the processor time of it."""
    viewers, tasks = await _viewers(installation, scene, STORM)
    await asyncio.sleep(SETTLE_S)
    await _close(viewers, tasks)
    await asyncio.sleep(1)
    for viewer in viewers[::2]:
        viewer.seq = 0  # half of them have missed something
    before = installation.seconds()
    begun = _now()
    tasks = [asyncio.create_task(_come_back(viewer)) for viewer in viewers]
    await asyncio.gather(*(asyncio.wait_for(viewer.live.wait(), 60) for viewer in viewers))
    spent, used = _now() - begun, installation.seconds() - before
    await _close(viewers, tasks)
    return spent, used


async def _come_back(viewer: Viewer) -> None:
    viewer.live.clear()
    await asyncio.sleep(random.uniform(0, JITTER_S))
    await viewer.open()
    await viewer.watch()


async def _viewers(
    installation: Installation, scene: dict[str, Any], count: int
) -> tuple[list[Viewer], list[asyncio.Task[None]]]:
    url = f"ws://{installation.address}/ws/sessions/{scene['session']}/"
    viewers = [Viewer(url, scene["cookies"][number % len(scene["cookies"])]) for number in range(count)]
    for begin in range(0, count, OPENED_AT_ONCE):
        await asyncio.gather(*(viewer.open() for viewer in viewers[begin : begin + OPENED_AT_ONCE]))
    tasks = [asyncio.create_task(viewer.watch()) for viewer in viewers]
    await asyncio.gather(*(asyncio.wait_for(viewer.live.wait(), 60) for viewer in viewers))
    return viewers, tasks


async def _close(viewers: list[Viewer], tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*(viewer.socket.close() for viewer in viewers if viewer.socket))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def watched(installation: Installation, scene: dict[str, Any]) -> list[Figure]:
    """Measure what people see."""
    figures = []
    for count, goal in ((20, 2.0), (100, 3.0)):
        kubectl, ours, lost = await latency(installation, scene, count)
        figures.append(Figure(f"watch to browser, {count} viewers", ours / kubectl, "x kubectl", goal, kubectl))
        figures.append(Figure(f"changes not seen, {count} viewers", lost, "", 0))
    figures.append(Figure("a viewer at 20 changes/s", await busy(installation, scene), "kB/s", 20))
    back, used = await storm(installation, scene)
    figures.append(Figure("200 viewers are back", back, "s", 5))
    figures.append(Figure("200 viewers are back, CPU", used, "s", 1))
    return figures


def ready_s() -> float:
    """Return the median seconds until a fresh installation is ready.

    The first one compiles what has changed since the last run, as after an upgrade, and does not count.
    """
    times = []
    for _ in range(1 + STARTS):
        with tempfile.TemporaryDirectory(prefix="fl-bench-") as folder, installed(Path(folder)) as installation:
            times.append(installation.ready_s)
    print(f"  ready after {', '.join(f'{seconds:.2f}' for seconds in times)} s")
    return statistics.median(times[1:])


def idle(installation: Installation) -> list[Figure]:
    """Measure an installation in which nothing happens."""
    _come_to_rest(installation)
    before = installation.seconds()
    time.sleep(IDLE_S)
    share = 100 * (installation.seconds() - before) / IDLE_S
    return [Figure("idle memory", installation.memory(), "MB PSS", 300), Figure("idle CPU", share, "%", 1)]


def _come_to_rest(installation: Installation) -> None:
    """Wait until what a start leaves for later, as warming practice clusters up, is done."""
    for _ in range(MAX_WARM_UP_S):
        before = installation.seconds()
        time.sleep(1)
        if installation.seconds() - before <= AT_REST:
            return


def main() -> int:
    """Measure everything once and return how many goals were missed."""
    ready = Figure("ready", ready_s(), "s", 3)
    with tempfile.TemporaryDirectory(prefix="fl-bench-") as folder, installed(Path(folder)) as installation:
        figures = [ready, *idle(installation)]
        figures += asyncio.run(watched(installation, json.loads(installation.run("live_scene"))))
    return report("live", figures, peer="kubectl get -w, ms")


def _now() -> float:
    return time.monotonic()
