"""The way to a cluster, as kubectl finds it: a kubeconfig's context, or the account of the pod that we run in.

Certificates, tokens, files with tokens, names and passwords, and plugins that print credentials
(client.authentication.k8s.io/v1 and v1beta1). The file is the operator's own: unlike one that is uploaded to a
site, it may start its plugin and name files.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.overhttp import Anonymous, Credential, HttpClient
from kubesim.pki import write_private
from kubesim.times import parse

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_SECONDS = 60.0
REREAD_S = 60.0
"""A file with a token is read again after this long, as client libraries do."""


class AccessError(Exception):
    """There is no way to the cluster; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Access:
    """One user's way to one API server. ``ca`` is the authority of its certificate (PEM); empty: the system's."""

    server: str
    ca: bytes = b""
    verified: bool = True
    certificate: bytes = b""
    """The client's certificate and key (PEM)."""
    credential: Credential = field(default_factory=Anonymous)
    more: Mapping[str, Any] = field(default_factory=dict)
    """What requests need beside: another name in the server's certificate, a proxy."""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context. Raises AccessError for certificates that cannot be used."""
        try:
            context = ssl.create_default_context(cadata=self.ca.decode() or None)
            if not self.verified:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if self.certificate:
                load_chain(context, self.certificate)
        except (ssl.SSLError, ValueError) as error:
            raise AccessError(f"the certificates for {self.server} cannot be used: {error}") from error
        return context

    def client(self, clock: Clock, agent: str = "kubesim") -> HttpClient:
        """Return a client of this user."""
        return HttpClient(self.server, self.context(), clock, self.credential, agent, self.more)

    def as_holder(self, certificate: bytes) -> Access:
        """Return the way of another user, whom a certificate with its key (PEM) names."""
        return replace(self, certificate=certificate, credential=Anonymous())

    def as_bearer(self, credential: Credential) -> Access:
        """Return the way of another user, who has a token."""
        return replace(self, certificate=b"", credential=credential)


def load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """Give a context a certificate with its key; Python's ssl reads files only, so they lie in one for a moment."""
    with tempfile.TemporaryDirectory(prefix="kubesim-") as folder:
        path = Path(folder) / "own.pem"
        write_private(path, pem)
        context.load_cert_chain(path)


class Bearer:
    """A token that does not change."""

    def __init__(self, token: str, scheme: str = "Bearer") -> None:
        self._headers = {"Authorization": f"{scheme} {token}"}

    async def headers(self) -> Mapping[str, str]:
        """Return it."""
        return self._headers

    def refused(self) -> None:
        """Do nothing: there is no other."""


class TokenFile:
    """A token in a file that somebody renews."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read_at: datetime | None = None
        self._token = ""

    async def headers(self) -> Mapping[str, str]:
        """Return what the file holds. Raises AccessError."""
        now = self._clock.now()
        if self._read_at is None or (now - self._read_at).total_seconds() > REREAD_S:
            try:
                self._token, self._read_at = self._path.read_text().strip(), now
            except OSError as error:
                raise AccessError(f"{self._path}: {error.strerror}; it should hold a token") from error
        return {"Authorization": f"Bearer {self._token}"}

    def refused(self) -> None:
        """Read it again."""
        self._read_at = None


class Plugin:
    """A program that prints a token."""

    def __init__(self, spec: Obj, folder: Path, clock: Clock) -> None:
        """``folder`` is the kubeconfig's own, from which a relative path of the program counts."""
        command = str(spec.get("command") or "")
        self._command = str(folder / command) if "/" in command else command
        self._arguments = [str(word) for word in spec.get("args") or ()]
        self._environment = {str(item["name"]): str(item["value"]) for item in spec.get("env") or ()}
        self._version = str(spec.get("apiVersion") or PLUGIN_VERSIONS[0])
        self._hint = str(spec.get("installHint") or "")
        self._clock = clock
        self._lock = asyncio.Lock()
        self._status: Obj = {}

    async def headers(self) -> Mapping[str, str]:
        """Return the token that the program has printed, running it where that is too old. Raises AccessError."""
        token = (await self.status()).get("token")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def refused(self) -> None:
        """Run it again."""
        self._status = {}

    async def status(self) -> Obj:
        """Return the ExecCredential's status: token, clientCertificateData, clientKeyData. Raises AccessError."""
        async with self._lock:
            expires = self._status.get("expirationTimestamp")
            if not self._status or (expires and parse(expires) <= self._clock.now()):
                self._status = await self._run()
            return self._status

    async def _run(self) -> Obj:
        asked = {"apiVersion": self._version, "kind": "ExecCredential", "spec": {"interactive": False}}
        own = {"KUBERNETES_EXEC_INFO": orjson.dumps(asked).decode(), **self._environment}
        environment = {**os.environ, **own}  # noqa: TID251 - a plugin gets ours, as kubectl gives it
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *self._arguments,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
            )
            out, err = await asyncio.wait_for(process.communicate(), PLUGIN_SECONDS)
        except OSError as error:
            raise AccessError(f"{self._command}: {error.strerror}. {self._hint}".strip()) from error
        except TimeoutError as error:
            process.kill()
            raise AccessError(f"{self._command} did not end within {PLUGIN_SECONDS:.0f} s") from error
        if process.returncode:
            raise AccessError(f"{self._command} failed: {err.decode(errors='replace').strip()[-500:]}")
        try:
            status = orjson.loads(out)["status"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise AccessError(f"{self._command} printed no ExecCredential") from error
        return dict(status)


async def load(path: Path, clock: Clock, context: str = "") -> Access:
    """Return the way that a context of a kubeconfig describes (empty: its current one). Raises AccessError."""
    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}; give a kubeconfig with --kubeconfig") from error
    except (yaml.YAMLError, ValueError) as error:
        raise AccessError(f"{path} is no kubeconfig: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise AccessError(f"{path} is no kubeconfig: it has no clusters, users and contexts")
    name = context or str(document.get("current-context") or "")
    chosen = _named(path, document, "contexts", "context", name)
    cluster = _named(path, document, "clusters", "cluster", str(chosen.get("cluster")))
    user = _named(path, document, "users", "user", str(chosen.get("user"))) if chosen.get("user") else {}
    try:
        return await _access(cluster, user, path.parent, clock)
    except (KeyError, TypeError, binascii.Error) as error:
        raise AccessError(f"{path}: the context {name} cannot be understood: {error}") from error
    except OSError as error:
        raise AccessError(f"{error.filename}: {error.strerror}; {path} names it") from error


def in_cluster(clock: Clock) -> Access:
    """Return the way of the pod that we run in. Raises AccessError where we run in none."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")  # noqa: TID251 - there is no other way to know
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")  # noqa: TID251
    if not host or not (ACCOUNT / "token").exists():
        raise AccessError("this is no pod with an account of its own; give a kubeconfig with --kubeconfig")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(server, (ACCOUNT / "ca.crt").read_bytes(), credential=TokenFile(ACCOUNT / "token", clock))


def _named(path: Path, document: Obj, section: str, field_name: str, name: str) -> Obj:
    """Return an entry of a list of the kubeconfig. Raises AccessError where it is not there."""
    listed = document.get(section)
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    for entry in entries:
        if entry.get("name") == name and isinstance(entry.get(field_name), dict):
            return dict(entry[field_name])
    known = ", ".join(str(entry.get("name")) for entry in entries)
    raise AccessError(f"{path} has no {field_name} named {name!r}; it has: {known or 'none'}")


async def _access(cluster: Obj, user: Obj, folder: Path, clock: Clock) -> Access:
    more = {"server_hostname": cluster.get("tls-server-name"), "proxy": cluster.get("proxy-url")}
    certificate = _content(user, "client-certificate", folder) + b"\n" + _content(user, "client-key", folder)
    credential = _credential(user, folder, clock)
    if isinstance(credential, Plugin):
        status = await credential.status()
        if status.get("clientCertificateData"):
            certificate = f"{status['clientCertificateData']}\n{status['clientKeyData']}".encode()
    return Access(
        str(cluster["server"]),
        _content(cluster, "certificate-authority", folder),
        not cluster.get("insecure-skip-tls-verify"),
        certificate if certificate.strip() else b"",
        credential,
        {name: value for name, value in more.items() if value},
    )


def _content(entry: Obj, name: str, folder: Path) -> bytes:
    """Return what an entry holds inline, or in a file."""
    if entry.get(f"{name}-data"):
        return base64.b64decode(entry[f"{name}-data"])
    return (folder / str(entry[name])).read_bytes() if entry.get(name) else b""


def _credential(user: Obj, folder: Path, clock: Clock) -> Credential:
    if user.get("token"):
        return Bearer(str(user["token"]))
    if user.get("tokenFile"):
        return TokenFile(folder / str(user["tokenFile"]), clock)
    if user.get("username"):
        both = f"{user['username']}:{user.get('password') or ''}"
        return Bearer(base64.b64encode(both.encode()).decode(), "Basic")
    if user.get("exec"):
        return Plugin(user["exec"], folder, clock)
    return Anonymous()
