"""A way to a server that can be cut and mended, for tests."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kubesim.clock import settle


class Relay:
    """A way to a server that can be cut and mended."""

    def __init__(self, port):
        self._target = port
        self._serving = set()
        self._server = None
        self.port = 0

    async def mend(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self):
        self._server.close()
        await settle(20)  # who has just come in is served, and so can be cut off
        for task in [*self._serving]:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await settle(20)

    async def _serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        try:
            there, back = await self._opened()
            try:
                with suppress(ConnectionError, asyncio.CancelledError):
                    await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
            finally:
                back.transport.abort()
        finally:
            writer.transport.abort()
            self._serving.discard(asyncio.current_task())

    async def _opened(self):
        opening = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", self._target))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            (await opening)[1].transport.abort()  # a connection that comes too late would be nobody's
            raise

    async def _copy(self, reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
