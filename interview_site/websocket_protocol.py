"""WebSockets to which a frame that many browsers get can be written as it is.

Through ASGI a frame costs each browser a turn of a task, a message and an encoder: 0.2 ms. A live page's frame is the
same for all, so that it is encoded once and written to each connection that keeps up.
"""

from __future__ import annotations

from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from sessions.shared_frames import WRITE_ENCODED


class SharedFrameProtocol(WebSocketsSansIOProtocol):
    """One connection. Its scope's ``extensions`` hold ``write_encoded`` for the consumer."""

    async def run_asgi(self) -> None:
        """Run the application."""
        cast(Any, self.scope)["extensions"][WRITE_ENCODED] = self.write_encoded
        await super().run_asgi()

    def write_encoded(self, frame: bytes) -> bool:
        """Write an encoded frame at once; False where the browser reads too slowly, or the socket is not open."""
        if not self._takes_frames():
            return False
        self.transport.write(frame)
        return True

    def _takes_frames(self) -> bool:
        is_open = self.handshake_complete and self.conn.state is State.OPEN and not self.close_sent
        return is_open and self.writable.is_set() and not self.transport.is_closing()
