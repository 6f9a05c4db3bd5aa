"""Sockets of Python programs in containers: clients, servers, and what they cannot do."""

import asyncio

import pytest

from kubesim.tests import shell_world
from kubesim.tests.containers import log, run
from kubesim.tests.test_python_sandbox import ran
from kubesim.tests.world import container, pod, world

SLIM = "python:3.9-slim"
SERVER = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404 if self.path == "/none" else 200)
        self.end_headers()
        self.wfile.write(b"hello " + self.path.encode())
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()
        self.wfile.write(body[::-1])
HTTPServer(("", 8080), Handler).serve_forever()
"""
ECHO = """
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
socketserver.ThreadingTCPServer(("0.0.0.0", 9000), Handler).serve_forever()
"""
TRY = """
import http.client, socket, urllib.request
def tried(function):
    try:
        print(function())
    except Exception as error:
        print(repr(error))
"""


@pytest.fixture
async def w():
    async with world(1) as made:
        await made.create("pods", pod("looker", container(SLIM, "sleep", "3600")))
        await made.tick(5)
        yield made


async def started(w, source, **more):
    await w.create("pods", pod("web", container(SLIM, "python3", "-u", "-c", source, **more)))
    await w.tick(5)
    return (await w.pod("web"))["status"]["podIP"]


async def says(w, source, address=""):
    """Return what a program prints in another pod, while time goes on."""
    words = ("python3", "-c", TRY + source.replace("ADDRESS", address))
    task = asyncio.ensure_future(run(w, "looker", *words))
    while not task.done():
        await w.tick(1)
    status, out, err = task.result()
    assert (status, err) == (0, "")
    return out.splitlines()


class Forwarded:
    """A forwarded port as its kubelet has it: to be read and written, and no more."""

    def __init__(self, sent):
        self.sent, self.answer = [sent], b""

    async def read(self, size=-1):
        return self.sent.pop() if self.sent else await asyncio.Event().wait()

    async def write(self, data):
        self.answer += data


async def test_a_forwarded_port_leads_to_a_server_of_ten_lines(w):
    await started(w, SERVER)
    forward = w.kubelets.containers.forward(await w.pod("web"))
    for _ in range(2):  # the server outlives its clients
        connection = Forwarded(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        await asyncio.wait_for(forward(8080, connection), 10)
        assert connection.answer.startswith(b"HTTP/1.0 201 Created\r\n")
        assert connection.answer.endswith(b"cba")


async def test_urllib_asks_a_server_of_ten_lines_in_another_pod(w):
    address = await started(w, SERVER)
    source = """
url = "http://ADDRESS:8080"
tried(lambda: urllib.request.urlopen(url + "/a?b").read())
tried(lambda: urllib.request.urlopen(url + "/none"))
tried(lambda: urllib.request.urlopen(url + "/p", data=b"abc").read())
"""
    assert await says(w, source, address) == ["b'hello /a?b'", "<HTTPError 404: 'Not Found'>", "b'cba'"]
    assert '"POST /p HTTP/1.1" 201 -' in log(w, "web")


async def test_a_python_server_is_found_by_the_name_of_its_service(w):
    await started(w, SERVER)
    service = {"metadata": {"name": "shop"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 8080}]}}
    await w.create("services", service)
    await w.tick(5)
    source = "tried(lambda: urllib.request.urlopen('http://shop.default:8080/').status)"
    assert await says(w, source) == ["200"]


async def test_probes_and_other_tools_reach_a_python_server(w):
    probe = {"httpGet": {"path": "/none", "port": 8080}}
    address = await started(w, SERVER, readinessProbe=probe)
    ready = [each["status"] for each in (await w.pod("web"))["status"]["conditions"] if each["type"] == "Ready"]
    assert ready == ["False"]
    await w.create("pods", pod("busy", container("busybox:1.36", "sleep", "3600")))
    await w.tick(5)
    assert (await run(w, "busy", "wget", "-qO-", f"http://{address}:8080/x"))[1] == "hello /x"


async def test_bytes_go_both_ways_through_a_socket_and_its_file(w):
    address = await started(w, ECHO)
    source = """
with socket.create_connection(("ADDRESS", 9000)) as made:
    made.sendall(b"one\\n")
    print(made.recv(64), made.getpeername()[1])
    made.sendall(b"x" * 200_000 + b"\\n")
    with made.makefile("rb") as file:
        print(len(file.readline()))
        made.shutdown(socket.SHUT_WR)
        print(file.read(), made.fileno() > 2)
print(made.fileno())
"""
    assert await says(w, source, address) == ["b'ONE\\n' 9000", "200001", "b'' True", "-1"]


async def test_what_cannot_be_reached_fails_in_cpythons_words(w):
    source = """
tried(lambda: socket.create_connection(("10.64.0.2", 81)))
tried(lambda: socket.create_connection(("nosuch.default", 80)))
tried(lambda: socket.create_connection(("10.99.1.1", 80), timeout=3))
tried(lambda: socket.create_connection(("10.99.1.1", 80)))
tried(lambda: socket.socket().connect_ex(("10.64.0.2", 81)))
tried(lambda: socket.socket().recv(1))
tried(lambda: socket.socket().connect(("10.64.0.2", 70000)))
"""
    assert await says(w, source) == [
        "ConnectionRefusedError(111, 'Connection refused')",
        "gaierror(-2, 'Name or service not known')",
        "TimeoutError('timed out')",
        "TimeoutError(110, 'Connection timed out')",
        "111",
        "OSError(107, 'Transport endpoint is not connected')",
        "OverflowError('connect(): port must be 0-65535.')",
    ]


async def test_https_is_asked_as_http_and_checked_in_openssls_words(w):
    address = await started(w, SERVER.replace("8080", "8443"))
    source = """
import ssl
tried(lambda: urllib.request.urlopen("https://pypi.org/simple/").status)
tried(lambda: http.client.HTTPSConnection("pypi.org").request("GET", "/"))
tried(lambda: urllib.request.urlopen("https://nosuch.example/"))
tried(lambda: urllib.request.urlopen("https://ADDRESS:8443/"))
def named(name, context):
    with socket.create_connection(("pypi.org", 443)) as made:
        return context.wrap_socket(made, server_hostname=name).version()
tried(lambda: named("pypi.org", ssl.create_default_context()))
tried(lambda: named("wrong.example", ssl.create_default_context()))
tried(lambda: named("wrong.example", ssl._create_unverified_context()))
tried(lambda: named("pypi.org", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)))
"""
    failed = "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
    assert await says(w, source, address) == [
        "200",
        "None",
        "URLError(gaierror(-2, 'Name or service not known'))",
        "URLError(SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)'))",
        "TLSv1.3",
        f"{failed}Hostname mismatch, certificate is not valid for 'wrong.example'. (_ssl.c:1006)\")".replace(
            "(1, '[", '(1, "['
        ),
        "TLSv1.3",
        f"{failed}unable to get local issuer certificate (_ssl.c:1006)')",
    ]


async def test_a_read_times_out_on_the_machines_clock(w):
    address = await started(w, ECHO)
    source = """
import time
made = socket.create_connection(("ADDRESS", 9000), timeout=600)
begun = time.monotonic()
tried(lambda: made.recv(1))
print(600 <= time.monotonic() - begun < 700)
made.setblocking(False)
tried(lambda: made.recv(1))
"""
    words = [
        "TimeoutError('timed out')", "True", "BlockingIOError(11, 'Resource temporarily unavailable')",
    ]  # fmt: skip
    assert await says(w, source, address) == words


async def test_a_program_accepts_its_own_connections_and_selects_them(w):
    source = """
import select
server = socket.create_server(("127.0.0.1", 7000))
tried(lambda: socket.socket().bind(("", 7000)))
print(select.select([server], [], [], 0)[0] == [])
client = socket.create_connection(server.getsockname())
print(select.select([server], [client], [], 5) == ([server], [client], []))
accepted, (host, port) = server.accept()
accepted.sendall(b"hi")
accepted.close()
print(host, client.recv(9), client.recv(9))
tried(lambda: client.send(b"x"))
"""
    assert await says(w, source) == [
        "OSError(98, 'Address already in use')",
        "True",
        "True",
        "127.0.0.1 b'hi' b''",
        "BrokenPipeError(32, 'Broken pipe')",
    ]


async def test_a_port_closes_with_the_process_that_listened(w):
    address = await started(w, "import socket\nsocket.create_server(('', 8080))")
    source = "tried(lambda: socket.create_connection(('ADDRESS', 8080)))"
    assert await says(w, source, address) == ["ConnectionRefusedError(111, 'Connection refused')"]


async def test_the_own_address_is_told_by_a_datagram_socket(w):
    source = """
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
made.connect(("8.8.8.8", 80))
print(made.getsockname()[0])
"""
    assert await says(w, source) == [(await w.pod("looker"))["status"]["podIP"]]


async def test_a_thousand_sockets_end_in_too_many_open_files():
    source = "import socket\nkept = []\nwhile True:\n    kept.append(socket.socket())"
    out, err, status = await ran(shell_world.machine("toolbox"), source)
    assert (out, status) == ("", 1)
    assert err.endswith("OSError: [Errno 24] Too many open files\n")


async def test_sockets_do_not_reach_the_machine_that_we_run_on(w):
    met = []

    async def answer(reader, writer):
        met.append(writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    source = f"""
for host in ("127.0.0.1", "0.0.0.0", "localhost"):
    made = socket.socket()
    made.settimeout(5)
    tried(lambda: made.connect((host, {port})))
"""
    reached = await says(w, source)
    server.close()
    assert (reached, met) == (["ConnectionRefusedError(111, 'Connection refused')"] * 3, [])


async def test_asyncio_serves_and_asks_in_the_pods_network(w):
    source = """
import asyncio
async def answer(reader, writer):
    while line := await reader.readline():
        await asyncio.sleep(1)
        writer.write(line.upper())
    writer.close()
async def main():
    async with await asyncio.start_server(answer, "0.0.0.0", 9000) as server:
        await server.serve_forever()
asyncio.run(main())
"""
    address = await started(w, source)
    source = """
import asyncio
async def ask(word):
    reader, writer = await asyncio.open_connection("ADDRESS", 9000)
    writer.write(word)
    writer.write_eof()
    return await reader.read()
async def main():
    loop = asyncio.get_running_loop()
    begun = loop.time()
    print(await asyncio.gather(*(ask(b"%d: a\\n" % i) for i in range(5))))
    print(loop.time() - begun < 5, (await loop.getaddrinfo("localhost", 80))[0][4])
    try:
        await asyncio.open_connection("ADDRESS", 9001)
    except OSError as error:
        print(error.errno)
asyncio.run(main())
"""
    lines = await says(w, source, address)
    assert lines == [str([b"%d: A\n" % i for i in range(5)]), "True ('127.0.0.1', 80)", "111"]


async def test_a_server_of_tls_without_a_certificate_fails_in_openssls_words(w):
    source = (
        "import ssl\n"
        "tried(lambda: ssl.create_default_context().wrap_socket(socket.socket(), server_side=True))\n"
        "tried(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(socket.socket(), server_side=True))\n"
    )
    client, server = await says(w, source)
    assert "Cannot create a server socket with a PROTOCOL_TLS_CLIENT context" in client
    assert "[SSL: NO_SHARED_CIPHER] no shared cipher" in server
