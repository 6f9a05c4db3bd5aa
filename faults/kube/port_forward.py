"""HTTP requests to pods through their kubelets: the portforward subresource over a WebSocket.

The way for clusters whose API server reaches kubelets and no pods, so that its proxies end nowhere: control planes
behind a firewall, networks that only nodes are part of, simulated nodes.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import urllib3

from faults import errors
from faults.engine.model import Reply, Request
from faults.kube.command_stream import CommandStream
from faults.kube.proxy import encode_path, read_body

Obj = dict[str, Any]
_DATA, _ERROR = 0, 1
PORT_BYTES = 2
"""Each channel begins with the number of its port."""
CHUNK_BYTES = 16 * 1024
END_S = 2.0


class ObjectReader(Protocol):
    """The verbs of ``Kube`` that are needed here."""

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""

    def list(self, api_version: str, kind: str, namespace: str = "", label_selector: str = "") -> list[Obj]:
        """Return objects."""


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port of a pod, and whether it speaks TLS."""

    pod: str
    port: int
    secure: bool = False


def find_port(cluster: ObjectReader, namespace: str, server: str) -> PodPort | None:
    """Return the port behind ``pods/NAME:PORT`` or ``services/NAME:PORT``: that of a ready pod.

    None for a service that selects no pods. Raises ``Unanswered`` where a service has no such port or no ready pod,
    ``NotFound`` where there is no such service.
    """
    kind, _, rest = server.partition("/")
    *scheme, name, port = rest.split(":")
    secure = scheme == ["https"]
    if kind == "pods":
        return PodPort(name, int(port), secure)
    spec = cluster.get("v1", "Service", name, namespace)["spec"]
    if not (selector := spec.get("selector")):
        return None
    entry = next((row for row in spec.get("ports") or () if row["port"] == int(port)), None)
    if entry is None:
        raise errors.Unanswered(f'no service port {port} found for service "{name}"')
    pods = _ready_pods(cluster, namespace, selector)
    if not pods:
        raise errors.Unanswered(f'no endpoints available for service "{name}"')
    return PodPort(pods[0]["metadata"]["name"], _number(pods[0], entry), secure)


def _ready_pods(cluster: ObjectReader, namespace: str, selector: Mapping[str, str]) -> Sequence[Obj]:
    chosen = ",".join(f"{key}={value}" for key, value in selector.items())
    found = cluster.list("v1", "Pod", namespace, chosen)
    return sorted(filter(_is_ready, found), key=lambda pod: str(pod["metadata"]["name"]))


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _number(pod: Obj, entry: Obj) -> int:
    """Return the number of a service's target port, which may be the name of one of the pod's."""
    wanted = entry.get("targetPort") or entry["port"]
    rows = [row for each in pod["spec"]["containers"] for row in each.get("ports") or ()]
    named = {row.get("name"): row["containerPort"] for row in rows}
    if wanted in named:
        return int(named[wanted])
    if isinstance(wanted, str) and not wanted.isdecimal():
        raise errors.Unanswered(f"the pod {pod['metadata']['name']} has no port {wanted}")
    return int(wanted)


class ForwardedPort:
    """A connection to a pod's port. What comes through the WebSocket is at ``socket``; who closes that, ends all."""

    def __init__(self, stream: CommandStream, opened: ExitStack) -> None:
        self.socket, self._far = socket.socketpair()
        self.refusal = ""
        """The kubelet's words where nothing listens at the port."""
        self._stream, self._opened = stream, opened
        self._left = {_DATA: PORT_BYTES, _ERROR: PORT_BYTES}
        self._carrier = threading.Thread(target=self._carry, daemon=True)
        self._carrier.start()

    def close(self) -> None:
        """End it, and wait until it has."""
        self.socket.close()
        self._carrier.join(END_S)

    def _carry(self) -> None:
        """Carry bytes both ways until one side ends. A TLS connection bears one thread only."""
        with self._far, self._opened, selectors.DefaultSelector() as waiting, suppress(OSError):
            waiting.register(self._stream, selectors.EVENT_READ)
            waiting.register(self._far, selectors.EVENT_READ)
            while self._carry_back() and self._carry_on(waiting):
                pass

    def _carry_back(self) -> bool:
        """Hand over what has come from the pod; False once its kubelet has refused the port."""
        for message in self._stream.take():
            channel, data = (message[0], message[1:]) if message else (-1, b"")
            if channel not in self._left:
                continue
            data, self._left[channel] = data[self._left[channel] :], max(0, self._left[channel] - len(data))
            if channel == _ERROR and data:
                self.refusal = data.decode("utf-8", "replace")
                return False
            self._far.sendall(data)
        return True

    def _carry_on(self, waiting: selectors.BaseSelector) -> bool:
        """Wait for either side, and send what is for the pod; False where no more is to be sent."""
        ready = [key.fileobj for key, _ in waiting.select()]
        if self._far not in ready:
            return True
        if data := self._far.recv(CHUNK_BYTES):
            self._stream.send(bytes([_DATA]) + data)
        return bool(data)


def ask(forwarded: ForwardedPort, target: PodPort, request: Request, timeout: urllib3.Timeout) -> Reply:
    """Send a request to the program at a forwarded port. Raises ``Unanswered`` where it does not answer."""
    pools = forwarding_pools(lambda: forwarded.socket)
    pool = pools["https" if target.secure else "http"](target.pod, target.port)
    try:
        answer = pool.urlopen(
            request.method,
            encode_path(request.path),
            body=None if request.body is None else json.dumps(request.body),
            headers={} if request.body is None else {"Content-Type": "application/json"},
            retries=False,
            redirect=False,
            timeout=timeout,
            preload_content=False,
        )
        return Reply(answer.status, read_body(answer))
    except (urllib3.exceptions.HTTPError, OSError, errors.Unreachable) as exc:
        raise errors.Unanswered(forwarded.refusal or f"The program does not answer: {exc}") from exc
    finally:
        pool.close()
        forwarded.close()


@cache
def _trusting_anybody() -> ssl.SSLContext:
    """Return a context without authorities: urllib3 would read the machine's for each connection, to ask for none."""
    return urllib3.util.create_urllib3_context(cert_reqs=ssl.CERT_NONE)


def forwarding_pools(dial: Callable[[], socket.socket]) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """Return pools by scheme whose connections ``dial`` makes, and which ask for no certificate's name."""

    class ForwardedHTTPConnection(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return dial()

    class ForwardedHTTPSConnection(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return dial()

    class ForwardedHTTPPool(urllib3.HTTPConnectionPool):
        ConnectionCls = ForwardedHTTPConnection

    class ForwardedHTTPSPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = ForwardedHTTPSConnection

        def __init__(self, host: str, port: int | None = None, **more: Any) -> None:
            own = {"cert_reqs": "CERT_NONE", "assert_hostname": False, "ssl_context": _trusting_anybody()}
            super().__init__(host, port, **{**more, **own})

        def _validate_conn(self, conn: Any) -> None:
            conn.connect()

    return {"http": ForwardedHTTPPool, "https": ForwardedHTTPSPool}
