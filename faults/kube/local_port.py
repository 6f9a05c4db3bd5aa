"""A port of this machine that leads to a pod behind a Service, as ``kubectl port-forward`` makes one.

Each connection asks for a ready pod anew, so that a pod that was replaced breaks no later one.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from typing import Protocol

from faults.errors import ClusterError
from faults.kube.port_forward import CHUNK_BYTES, ForwardedPort, ObjectReader, PodPort, find_port

log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"


class Forwarder(ObjectReader, Protocol):
    """The verbs of ``Kube`` that are needed here."""

    def forward(self, namespace: str, target: PodPort) -> ForwardedPort:
        """Return a connection to a port of a pod."""


class LocalPort:
    """Listens on loopback and carries each connection to the service. Raises OSError where the port is taken."""

    def __init__(self, cluster: Forwarder, namespace: str, service: str, remote: int, port: int) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._server = f"services/{service}:{remote}"
        self._listener = socket.create_server((LOOPBACK, port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="local port", daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with their programs."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            target = find_port(self._cluster, self._namespace, self._server)
            if target is None:
                raise ClusterError(f"{self._server} selects no pods")
            forwarded = self._cluster.forward(self._namespace, target)
        except ClusterError as exc:
            log.warning("%s: %s", self._server, exc.message)
            client.close()
            return
        back = threading.Thread(target=_pump, args=(forwarded.socket, client), daemon=True)
        back.start()
        _pump(client, forwarded.socket)
        back.join()
        forwarded.close()
        client.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way until the source ends, then say so to the target."""
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
