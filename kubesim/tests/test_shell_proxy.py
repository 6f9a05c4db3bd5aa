"""kubectl proxy: the API server on a port of the container, and whom it answers."""

from __future__ import annotations

import asyncio
import json

import pytest

from kubesim.network.fabric import Request
from kubesim.shell.files import Directory, File
from kubesim.shell.machine import Stdio
from kubesim.shell.spawn import spawn
from kubesim.tests import shell_world
from kubesim.tests.shell_world import Screen


class Kube:
    """The API server, which keeps what it was asked."""

    server, token, namespace = "https://kubernetes.default.svc", "t", "default"

    def __init__(self):
        self.asked = []

    async def request(self, method, path, *, body=b"", headers=None):
        self.asked.append((method, path, body, headers.get("Authorization")))
        return 200, {"Content-Type": "application/json"}, json.dumps({"path": path}).encode()


class Ports:
    """The container's network: only its own ports."""

    def __init__(self):
        self.servers = {}
        self.opened = asyncio.Event()

    def listen(self, port, server):
        self.servers[port] = server
        self.opened.set()

    def close(self, port, server):
        self.servers.pop(port, None)

    def ports(self):
        return [*self.servers]


class Proxied:
    """A container in which kubectl proxy runs."""

    def __init__(self, *words):
        self.machine = shell_world.machine("toolbox")
        self.machine.kube, self.machine.network = Kube(), Ports()
        self.screen = Screen()
        folder = self.machine.files.walk("/tmp/w").node
        folder.put("www", Directory())
        folder.get("www").put("a.txt", File(data=b"hi\n"))
        argv = ["kubectl", "--token=mine", "proxy", *words]
        self.process = spawn(self.machine, argv, cwd="/tmp/w", stdio=Stdio(None, self.screen, self.screen))

    async def asks(self, port, target, method="GET", host="localhost:8001"):
        """Return status and body of an answer on a local port."""
        await asyncio.wait_for(self.machine.network.opened.wait(), 20)
        answer = await self.machine.network.servers[port].respond(Request(method, target, {"host": host}))
        return answer.status, answer.body.decode()


@pytest.fixture
async def started():
    made = []

    def start(*words):
        made.append(Proxied(*words))
        return made[-1]

    yield start
    for each in made:
        each.machine.stop()
    await asyncio.sleep(0)


async def test_it_answers_with_the_rights_of_whoever_has_started_it(started):
    proxied = started()
    assert await proxied.asks(8001, "/api/v1/pods?limit=1") == (200, '{"path": "/api/v1/pods?limit=1"}')
    assert proxied.machine.kube.asked == [("GET", "/api/v1/pods?limit=1", b"", "Bearer mine")]
    await proxied.screen.shows("Starting to serve on 127.0.0.1:8001\n")


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("/api/v1/namespaces/default/pods/a/exec?command=ls", "localhost:8001"),
        ("/api/v1/namespaces/default/pods/a/attach", "localhost:8001"),
        ("/version", "evil.example.com"),
        ("/version", "localhost.example.com:8001"),
    ],
)
async def test_it_refuses_what_could_harm_somebody_with_a_browser(started, target, host):
    proxied = started()
    assert await proxied.asks(8001, target, host=host) == (403, "Forbidden\n")
    assert proxied.machine.kube.asked == []


async def test_it_serves_files_and_another_prefix_where_that_is_asked(started):
    proxied = started("--port=8003", "--www=www", "--api-prefix=/k8s")
    assert await proxied.asks(8003, "/static/a.txt") == (200, "hi\n")
    assert await proxied.asks(8003, "/static/../../../etc/passwd") == (404, "404 page not found\n")
    assert await proxied.asks(8003, "/k8s/version") == (200, '{"path": "/version"}')
    assert await proxied.asks(8003, "/version") == (404, "404 page not found\n")


async def test_a_port_that_is_taken_is_not_taken_over(started):
    proxied = started()
    await proxied.asks(8001, "/version")
    out = Screen()
    other = spawn(proxied.machine, ["kubectl", "proxy"], stdio=Stdio(None, out, out))
    assert await asyncio.wait_for(other.wait(), 20) == 1
    assert out.text == "error: listen tcp 127.0.0.1:8001: bind: address already in use\n"


async def test_its_port_is_closed_when_it_ends(started):
    proxied = started()
    await proxied.asks(8001, "/version")
    proxied.process.signal("KILL")
    await asyncio.wait_for(proxied.process.wait(), 20)
    assert proxied.machine.network.servers == {}
