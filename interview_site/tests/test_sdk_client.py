"""The SDK's client where no fault injection API answers."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from fault_injection_client import FaultInjectionClient, FaultInjectionError

from conftest import free_port

BOOTING = {"detail": "NVSentinel boots the node a.", "code": "node_boots", "action": "Wait."}


class Booting(BaseHTTPRequestHandler):
    """The API while a node boots, for three requests."""

    def do_GET(self):
        self.server.asked += 1
        boots = self.server.asked <= 3
        problem = {**BOOTING, "code": self.server.code}
        self.send_response(503 if boots else 200)
        self.send_header("Retry-After", "5")
        self.end_headers()
        self.wfile.write(json.dumps(problem if boots else {"status": "healthy"}).encode())

    def log_message(self, *args):
        """Print nothing."""


class Page(BaseHTTPRequestHandler):
    """Some other program on the port."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Jenkins</html>")

    def log_message(self, *args):
        """Print nothing."""


@pytest.fixture
def other_program():
    with serving(Page) as url:
        yield url


@contextmanager
def serving(handler, code=BOOTING["code"]):
    server = HTTPServer(("127.0.0.1", 0), handler)
    server.asked, server.code = 0, code
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_an_api_the_client_says_how_to_come_to_one():
    with pytest.raises(
        FaultInjectionError, match="No fault injection API answers at http://127.0.0.1:.*port-forward"
    ):
        FaultInjectionClient(f"http://127.0.0.1:{free_port()}").health_check()


def test_another_program_on_the_port_is_told_from_the_api(other_program):
    with pytest.raises(OSError, match="is not the fault injection API") as caught:
        FaultInjectionClient(other_program).list_faults()
    assert caught.value.code == "no_api"


@pytest.mark.parametrize("code", ["node_boots", "agent_silent"])
def test_a_node_that_boots_is_waited_for_longer_than_an_answer(code):
    waited = []
    with serving(Booting, code) as url:
        client = FaultInjectionClient(url, timeout=1, wait=waited.append)
        assert client.health_check() == {"status": "healthy"}
    assert waited == [5.0] * 3
    with serving(Booting, code) as url, pytest.raises(FaultInjectionError, match="boots the node a. Wait."):
        FaultInjectionClient(url, patience=1, wait=waited.append).health_check()
