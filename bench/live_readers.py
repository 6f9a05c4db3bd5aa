"""Readers of many streams at once that note when each change arrived: viewers, a bare watch, and ``kubectl get -w``.

One thread waits for all of them and looks at bytes alone, so that what is measured is the way to a browser and not a
hundred clients in one interpreter.
"""

from __future__ import annotations

import base64
import os
import re
import selectors
import socket
import ssl
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

STAMP = re.compile(rb"stamp-(\d+)")
MAX_READ = 256 * 1024
LOOK_S = 0.1
HEAD_END = b"\r\n\r\n"
Arrivals = dict[int, list[int]]
"""For each stamp, which is the time of its change in ns, when it arrived at each reader."""


class Readers:
    """Streams of several kinds, read by one thread until ``close``."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="readers", daemon=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.arrivals: dict[str, Arrivals] = {}

    def start(self) -> None:
        """Begin to read, and forget what came so far."""
        self._thread.start()

    def forget(self) -> None:
        """Count from here on."""
        for found in self.arrivals.values():
            found.clear()

    def close(self) -> None:
        """Stop reading and end every stream."""
        self._closed.set()
        self._thread.join()
        for process in self._processes:
            process.terminate()
            process.wait()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def add_viewers(self, address: str, session: str, cookies: Iterator[str]) -> None:
        """Open the WebSocket of a live page for every cookie."""
        host, _, port = address.partition(":")
        for cookie in cookies:
            connection = socket.create_connection((host, int(port)))
            key = base64.b64encode(os.urandom(16)).decode()
            _ask(
                connection,
                f"GET /ws/sessions/{session}/ HTTP/1.1",
                {"Host": address, "Origin": f"http://{address}", "Cookie": f"sessionid={cookie}"}
                | {"Upgrade": "websocket", "Connection": "Upgrade"}
                | {"Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13"},
            )
            while not (head := connection.recv(MAX_READ, socket.MSG_PEEK)).partition(HEAD_END)[1]:
                time.sleep(0.001)
            if not head.startswith(b"HTTP/1.1 101 "):
                raise RuntimeError(f"a viewer was refused: {head.decode(errors='replace')}")
            self._add("viewers", connection, connection.recv)

    def add_watch(self, server: str, path: str, trust: ssl.SSLContext, headers: dict[str, str]) -> None:
        """Open a watch as ``kubectl get --raw`` does, and read what comes off the connection."""
        address = server.removeprefix("https://")
        host, _, port = address.partition(":")
        connection = trust.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
        _ask(connection, f"GET {path}?watch=1 HTTP/1.1", {"Host": address, **headers})
        self._add("watch", connection, connection.recv)

    def add_kubectl(self, kubeconfig: Path, kind: str) -> None:
        """Run ``kubectl get -w``, and read what it prints."""
        command = ["kubectl", f"--kubeconfig={kubeconfig}", "get", kind, "--watch"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        self._processes.append(process)
        self._add("kubectl", process.stdout, lambda size: os.read(descriptor, size))

    def median_ms(self, name: str) -> float:
        """Return the median over all readers of a kind and all changes."""
        return statistics.median((at - stamp) / 1e6 for stamp, ats in self.arrivals[name].items() for at in ats)

    def count(self, name: str) -> int:
        """Return how often readers of a kind saw a change."""
        return sum(map(len, self.arrivals[name].values()))

    def _add(self, name: str, stream: Any, read: Callable[[int], bytes]) -> None:
        os.set_blocking(stream.fileno(), False)
        if isinstance(stream, ssl.SSLSocket):
            stream.setblocking(False)
        self._selector.register(stream, selectors.EVENT_READ, (self.arrivals.setdefault(name, {}), read))

    def _run(self) -> None:
        while not self._closed.is_set():
            for key, _ in self._selector.select(LOOK_S):
                arrivals, read = key.data
                with suppress(BlockingIOError, ssl.SSLWantReadError):
                    while data := read(MAX_READ):
                        at = time.monotonic_ns()
                        for stamp in STAMP.findall(data):
                            arrivals.setdefault(int(stamp), []).append(at)
                    self._selector.unregister(key.fileobj)  # its end


def write_kubeconfig(folder: Path, scene: dict[str, Any]) -> Path:
    """Write a kubeconfig of the cluster's administrator, with the session's namespace."""
    authority = base64.b64encode(scene["ca"].encode()).decode()
    user = {"token": scene["token"]} if scene["token"] else {}
    for name in ("certificate", "key") if scene["certificate"] else ():
        user[f"client-{name}-data"] = base64.b64encode(scene[name].encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": scene["server"], "certificate-authority-data": authority}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": scene["namespace"]}}],
        "current-context": "a",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


def _ask(connection: socket.socket, line: str, headers: dict[str, str]) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"{line}\r\n{head}\r\n".encode())
