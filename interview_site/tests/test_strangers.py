"""Strangers against the web process as the installation starts it: real sockets, real log."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from conftest import ROOT, free_port, stop, wait_until
from interview_site import processes
from interview_site.http_protocol import MAX_CONNECTIONS, MAX_WAITING_PER_ADDRESS, MIN_WAIT_S, raise_open_files
from sessions import disk_space

TOKEN = "q3Jx-0aZk_Vb9TtYw2LmN8sRdE5uC7hGfP1oIiXy4Kc"


@dataclass
class Web:
    """A running web process."""

    port: int
    process: subprocess.Popen
    log: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def alive(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=60) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, request: str) -> bytes:
        """Send a request and return the first part of the answer."""
        with self.connect() as client:
            client.sendall(request.replace("\n", "\r\n").encode())
            return client.recv(65536)


def free_port_of(command: list[str], port: int) -> list[str]:
    command[command.index("--port") + 1] = str(port)
    return command


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("web"), free_port()
    log = folder / "log"
    command = next(each for each in processes.commands() if each.name == "web")
    with log.open("w") as output:
        process = subprocess.Popen(
            free_port_of(command.argv, port),
            cwd=ROOT,
            env={**os.environ, "DATA_DIR": str(folder), "PORT": str(port), "TMPDIR": str(folder)},
            stdout=output,
            stderr=output,
        )
    site = Web(port, process, log)
    wait_until(site.alive, process)
    reserve = folder / disk_space.FILE_NAME  # written by a thread once the first request has come
    wait_until(lambda: reserve.exists() and reserve.stat().st_size == disk_space.RESERVE_BYTES, process)
    yield site
    stop(process)


def written(web: Web) -> int:
    """Return the bytes that the process has handed to files and sockets."""
    return int(re.search(r"wchar: (\d+)", Path(f"/proc/{web.process.pid}/io").read_text()).group(1))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts bytes in /proc")
def test_600_mebibytes_for_the_sign_in_page_cost_nothing(web):
    wait_until(lambda: written(web) >= disk_space.RESERVE_BYTES, web.process)  # a write counts once it has returned
    size, before = 600 * 2**20, written(web)
    for head in (f"Content-Length: {size}", "Transfer-Encoding: chunked"):
        with web.connect() as client:
            client.sendall(f"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n".encode())
            sent, block = 0, b"10000\r\n" + b"x" * 65536 + b"\r\n"
            while sent < size and not select.select([client], [], [], 0)[0]:
                sent += client.send(block)
            assert client.recv(4096).startswith(b"HTTP/1.1 413")
        assert sent < 32 * 2**20
    assert written(web) - before < 65536


def test_1500_half_open_requests_starve_nobody(web):
    assert raise_open_files() == MAX_CONNECTIONS
    crowd = []
    for number in range(1500):
        client = web.connect()
        client.sendall(b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + str(number).encode())
        crowd.append(client)
    assert web.alive()
    crowd[-1].setblocking(False)
    with pytest.raises(BlockingIOError):  # it has not waited until the crowd was late
        crowd[-1].recv(1)
    crowd[-1].setblocking(True)
    time.sleep(MIN_WAIT_S + 0.2)  # nobody is made to leave sooner
    assert web.alive()  # whose connection makes the oldest leave
    for client in crowd[:-MAX_WAITING_PER_ADDRESS]:
        assert not client.recv(4096).startswith(b"HTTP/1.1 200")
    for client in crowd:
        client.close()


def test_a_refused_link_is_not_in_the_log(web):
    for request in (
        f"POST /join/{TOKEN}/ HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 0\n\n",
        f"PUT /join/{TOKEN}/ HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 0\n\n",
        f"GET /Join/{TOKEN}/?x=/join/{TOKEN} HTTP/1.1\nHost: 127.0.0.1\n\n",
        f"GET /ws/{TOKEN}/ HTTP/1.1\nHost: 127.0.0.1\nUpgrade: websocket\nConnection: Upgrade\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\nOrigin: http://127.0.0.1:{web.port}\n\n",
    ):
        assert web.ask(request)
    assert web.alive()
    log = web.log.read_text()
    assert "Forbidden (CSRF cookie not set.): /join/[hidden]" in log
    assert TOKEN not in log


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:{other}",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}.evil.example",
        "http://127.0.0.1:999999",
        "null",
        "",
        None,
    ],
)
def test_no_socket_opens_for_a_page_that_is_not_ours(web, origin):
    line = "" if origin is None else "Origin: " + origin.format(port=web.port, other=web.port + 1) + "\n"
    before = web.log.read_text()
    answer = web.ask(
        f"GET /ws/sessions/{uuid4()}/ HTTP/1.1\nHost: 127.0.0.1\nUpgrade: websocket\nConnection: Upgrade\n{line}"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n\n"
    )
    assert answer.startswith(b"HTTP/1.1 403")
    assert "/ws/" not in web.log.read_text()[len(before) :]


def test_a_socket_of_no_page_is_refused_without_a_word_in_the_log(web):
    before = web.log.read_text()
    answer = web.ask(
        f"GET /ws/x/ HTTP/1.1\nHost: 127.0.0.1\nUpgrade: websocket\nConnection: Upgrade\n"
        f"Origin: http://127.0.0.1:{web.port}\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n\n"
    )
    assert answer.startswith(b"HTTP/1.1 403")
    assert "No route found" not in web.log.read_text()[len(before) :]


def multipart(part: bytes, count: int) -> bytes:
    return b"".join(b"--b\r\n" + part + b"\r\n\r\n\r\n" for _ in range(count)) + b"--b--\r\n"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "body",
    [
        multipart(b'Content-Disposition: form-data; name="a"', 60_000),
        multipart(b'Content-Disposition: form-data; name="a"; filename="f"', 40_000),
        multipart(b'Content-Disposition: form-data; name="a"\r\n' + b"X: y\r\n" * 20_000, 30),
        b"--b\r\n" * 500_000,
        b"&".join(b"a=b" for _ in range(200_000)),
    ],
    ids=["fields", "files", "headers", "boundaries", "urlencoded"],
)
def test_a_form_of_many_thousand_parts_is_refused_quickly(admin_client, body):
    kind = "application/x-www-form-urlencoded" if b"&" in body else "multipart/form-data; boundary=b"
    began = time.process_time()
    answer = admin_client.post("/sessions/new/", body, content_type=kind)
    assert answer.status_code in (400, 422)
    assert time.process_time() - began < 1
