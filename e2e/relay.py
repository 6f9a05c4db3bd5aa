"""A TCP relay that can turn into a black hole: connections stay open, and nothing arrives any more."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Relay:
    """Forwards connections to one address until ``swallow`` is set; then it drops whatever comes, silently."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server = socket.create_server((host, 0))
        self.port = self._server.getsockname()[1]
        self.swallow = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nobody any more."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            back = threading.Thread(target=self._forward, args=(server, client), daemon=True)
            back.start()
            self._forward(client, server)
            back.join()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.swallow.is_set():
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
