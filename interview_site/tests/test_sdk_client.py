"""The SDK's client where no fault injection API answers."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from fault_injection_client import FaultInjectionClient, FaultInjectionError

from conftest import free_port


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
    server = HTTPServer(("127.0.0.1", 0), Page)
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
