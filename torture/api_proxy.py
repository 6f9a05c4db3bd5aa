"""A TLS proxy before a cluster's API that answers badly now and then: what load balancers do on a bad day."""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from faults.kube.config import Access
from torture.held_calls import HeldCall, Moment, no_call
from torture.tunnels import tunnel

KINDS = ("429", "500", "503", "html", "truncated", "lost", "hung", "reset")
HANG_S = 7.0  # longer than our client waits
TOKEN = "crash-rounds-own-identity"
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "host", "content-encoding"}


class ApiProxy:
    """Forwards to one cluster. ``rate`` of the requests, from 0 to 1, are answered in one of the bad ways."""

    def __init__(self, upstream: Access, folder: Path, rng: random.Random) -> None:
        self.rate = 0.0
        self.answered: dict[str, int] = {}
        self.held = no_call()
        self.refused = ""
        """Pattern of the paths, of requests that pass, which are answered with 403."""
        self._upstream = upstream
        self._folder = folder
        self._rng = rng
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self.kubeconfig = ""

    def __enter__(self) -> ApiProxy:
        """Start serving in a thread."""
        threading.Thread(target=self._run, name="api proxy", daemon=True).start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop serving."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def hold(self, moment: Moment) -> HeldCall:
        """Hold the next request of a moment."""
        self.held = HeldCall(moment)
        return self.held

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        certificate = write_certificate(self._folder)
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(certificate)
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, handle_signals=False, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=served)
        await site.start()
        port = runner.addresses[0][1]
        self.kubeconfig = _kubeconfig(f"https://127.0.0.1:{port}", certificate.read_text())
        timeout = aiohttp.ClientTimeout(total=None)
        self._ours = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context(own=True)), timeout=timeout, auto_decompress=False
        )
        self._theirs = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context(own=False)), timeout=timeout, auto_decompress=False
        )

    def _context(self, own: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._upstream.ca_pem)
        if own and self._upstream.client_certificate_pem:
            path = self._folder / "upstream.pem"
            path.touch(mode=0o600)
            path.write_text(self._upstream.client_certificate_pem + "\n" + self._upstream.client_key_pem)
            context.load_cert_chain(path)
        return context

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        trouble = self._rng.choice(KINDS) if self._rng.random() < self.rate else ""
        self.answered[trouble or "well"] = self.answered.get(trouble or "well", 0) + 1
        match trouble:
            case "429" | "503":
                return web.json_response(_status(int(trouble)), status=int(trouble), headers={"Retry-After": "1"})
            case "500":
                return web.json_response(_status(500), status=500)
            case "html":
                return web.Response(text="<html><body>Bad gateway</body></html>", content_type="text/html")
            case "hung":
                await asyncio.sleep(HANG_S)
                return _cut(request)
            case "reset":
                return _cut(request)
        return await self._forward(request, trouble)

    async def _forward(self, request: web.Request, trouble: str) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP_BY_HOP}
        own = headers.get("Authorization") == f"Bearer {TOKEN}"
        if own:
            del headers["Authorization"]
            if self._upstream.token:
                headers["Authorization"] = f"Bearer {self._upstream.token}"
        session = self._ours if own else self._theirs
        url = self._upstream.server + request.raw_path
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await tunnel(request, session, url, headers, self)
        held = self.held if self.held.wants(request.method, request.path) else None
        body = await request.read()
        if held is not None and not held.moment.is_back and not await held.hold():
            return _cut(request)
        try:
            ask = session.request(
                request.method, url, headers=headers, data=body or None, skip_auto_headers=("Content-Type",)
            )
            async with ask as found:
                if trouble == "lost":  # done, and nobody hears of it
                    await found.read()
                    return _cut(request)
                if held is not None and held.moment.is_back and not await held.hold():
                    return _cut(request)
                return await _pass_on(request, found, trouble)
        except aiohttp.ClientError:
            return _cut(request)


async def _pass_on(request: web.Request, found: aiohttp.ClientResponse, trouble: str) -> web.StreamResponse:
    headers = {key: value for key, value in found.headers.items() if key.lower() not in HOP_BY_HOP}
    answer = web.StreamResponse(status=found.status, headers=headers)
    await answer.prepare(request)
    async for chunk in found.content.iter_any():
        if trouble == "truncated":
            await answer.write(chunk[: len(chunk) // 2])
            return _cut(request)
        await answer.write(chunk)
    await answer.write_eof()
    return answer


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _status(code: int) -> dict[str, object]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": f"trouble {code}"}


def _kubeconfig(server: str, ca_pem: str) -> str:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def write_certificate(folder: Path) -> Path:
    """Write a certificate of our own for loopback, with its key, and return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api proxy")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "proxy.pem"
    path.touch(mode=0o600)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return path
