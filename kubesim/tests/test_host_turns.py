"""Many new clusters at once: started in turn, and one that hangs at its start holds up no other."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager

import orjson

from kubesim import host as hosts
from kubesim.clock import RealClock
from kubesim.host import Host
from kubesim.processes import Processes

DESCRIBED = {
    "server": "",
    "kubeconfig": "",
    "createdAt": None,
    "deadline": None,
    "nodes": 1,
    "gpus": 0,
    "removed": None,
}


class ForkServer:
    """The other end of a host's channel: hears what is to be forked, and lets that be ready."""

    def __init__(self, folder, reader, writer):
        self.numbers = []
        self._folder = folder
        self._reader = reader
        self._writer = writer

    async def next(self):
        """Return the name of the cluster that is to be forked next."""
        asked = orjson.loads(await self._reader.readline())
        self.numbers.append(asked["fork"])
        return asked["job"]["name"]

    async def answer(self, number):
        async def describe(reader, writer):
            await reader.readline()
            writer.write(orjson.dumps({"answer": {**DESCRIBED, "keyId": str(number)}}) + b"\n")
            writer.close()

        server = await asyncio.start_unix_server(describe, str(self._folder / f"{number}.control"))
        self.tell({"forked": number, "pid": os.getpid()})
        return server

    async def close(self):
        self._writer.close()
        await self._writer.wait_closed()

    def tell(self, message):
        self._writer.write(orjson.dumps(message) + b"\n")


@asynccontextmanager
async def asking(folder, monkeypatch, turn_s, count=5):
    """Ask a host with two processors for some clusters at once; yields its fork server."""
    monkeypatch.setattr(hosts.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(hosts, "TURN_S", turn_s)
    ours, theirs = socket.socketpair()
    processes = Processes(folder)
    reader, writer = await asyncio.open_connection(sock=ours)
    await processes.connect(reader, writer)
    server = ForkServer(folder, *await asyncio.open_connection(sock=theirs))
    host = Host(folder, RealClock(), processes, "https://127.0.0.1:1")
    asked = [asyncio.create_task(host.create(f"c{number}", None, {})) for number in range(count)]
    try:
        yield server
    finally:
        host.stopping = True
        for number in server.numbers:
            server.tell({"ended": number, "status": 0})
        await host.stop()
        await asyncio.gather(*asked, return_exceptions=True)
        await server.close()
        writer.close()
        await writer.wait_closed()


async def test_as_many_are_started_at_a_time_as_there_are_processors(tmp_path, monkeypatch):
    async with asking(tmp_path, monkeypatch, turn_s=600.0) as server:
        assert [await server.next(), await server.next()] == ["c0", "c1"]
        waiting = asyncio.create_task(server.next())
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        listener = await server.answer(server.numbers[0])
        assert await waiting == "c2"
        listener.close()


async def test_one_that_hangs_at_its_start_holds_up_no_other(tmp_path, monkeypatch):
    async with asking(tmp_path, monkeypatch, turn_s=0.01) as server:
        assert [await server.next() for _ in range(5)] == ["c0", "c1", "c2", "c3", "c4"]
