"""What computed workloads answer on their ports: the servers of known images, and a plain one on declared ports."""

from __future__ import annotations

import json
import mimetypes
import posixpath
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from kubesim import data
from kubesim.errors import Obj
from kubesim.gpu.devices import Device
from kubesim.kubelet.failures import server_version
from kubesim.kubelet.images import Image
from kubesim.kubelet.records import container_id
from kubesim.kubelet.status import PodRecord
from kubesim.kubelet.usage import Usage
from kubesim.network.fabric import Fabric, HttpServer, Request, Response, Server
from kubesim.shell.errors import REASONS, NetworkError
from kubesim.shell.files import File, View
from kubesim.streaming.seam import Duplex, RuntimeFailure

_table = data.beside(__file__, "servers.yaml")
INDEX = "index.html"
DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
"""What vLLM serves where nobody says what."""
Inside = Callable[[bool], Awaitable[View | None]]
"""Returns the files of a container; nothing where nobody has entered it, unless they are wanted in any case."""


class Pages(HttpServer):
    """Answers paths from a table, once it is open; the entry "" stands for every other path."""

    exporter: Callable[[str, float, float], Iterable[Any]] | None = None
    """The series at ``/metrics``, for a Prometheus that scrapes it."""

    def __init__(
        self, pages: dict[str, Any], headers: dict[str, str], opened: Callable[[], bool] = lambda: True
    ) -> None:
        self._pages = pages
        self._headers = headers
        self._opened = opened

    async def converse(self, connection: Duplex, source: str) -> None:
        """Serve a raw connection."""
        if self._opened():
            await super().converse(connection, source)

    async def respond(self, request: Request) -> Response:
        """Answer a request. Raises ``NetworkError`` before it is open."""
        if not self._opened():
            raise NetworkError("refused")
        page = self._pages.get(request.path, self._pages.get("", {"status": 404, "body": "404 page not found\n"}))
        kind = {"Content-Type": page["type"]} if "type" in page else {}
        body = page["make"]() if "make" in page else page.get("body", "")
        return Response(page.get("status", 200), body.encode(), {**self._headers, **kind})


class Site(Pages):
    """Serves the files below a folder of a container: those of its image as long as nothing can have changed them."""

    def __init__(self, entry: dict[str, Any], inside: Inside, *, mounted: bool) -> None:
        super().__init__(entry["pages"], entry["headers"])
        self._root = entry["root"]
        self._files = entry["files"]
        self._inside = inside
        self._mounted = mounted

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        name = posixpath.normpath("/" + request.path).lstrip("/")
        view = await self._inside(self._mounted)
        name = posixpath.join(name, INDEX) if not name or request.path.endswith("/") else name
        data = self._files[name].encode() if view is None and name in self._files else None
        found = view.find(f"{self._root}/{name}") if view is not None else None
        if isinstance(found, File):
            data = bytes(found.content())
        if data is None:
            return await super().respond(request)
        kind = mimetypes.guess_type(name)[0] or "text/plain"
        return Response(200, data, {**self._headers, "Content-Type": kind})


def known(
    record: PodRecord, spec: Obj, inside: Inside, age: Callable[[], float], course: Callable[[], Course]
) -> dict[int, Server]:
    """Return what a container whose process is computed listens with: its image's ports, and those it declares.

    ``age`` is for how many seconds the process has run: one that loads a model answers later.
    """
    image = record.images.get(spec["image"])
    if image is not None and image.program:
        return dict.fromkeys(image.own.get("ports", ()), _own(image.own, age, course))
    if image is None or not image.behaviour:
        return {}
    entry = _table().get(image.behaviour) or _table()["server"]
    declared = [port["containerPort"] for port in spec.get("ports") or () if port.get("protocol", "TCP") == "TCP"]
    opens = float(entry.get("opens", 0))
    pages = _named(entry["pages"], _model(spec), server_version(image))
    server: Server = Pages(pages, entry.get("headers", {}), lambda: not opens or age() >= opens)
    if "root" in entry:
        paths = [mount["mountPath"].rstrip("/") + "/" for mount in spec.get("volumeMounts") or ()]
        root = entry["root"] + "/"
        server = Site(entry, inside, mounted=any(root.startswith(path) or path.startswith(root) for path in paths))
    return dict.fromkeys([*entry.get("ports", ()), *declared], server)


@dataclass(frozen=True, slots=True)
class Course:
    """A container's own process as its metrics tell of it: its start, in seconds since 1970, and what it runs on."""

    started: float
    usage: Usage
    variables: Mapping[str, str]
    owner: str
    devices: Sequence[Device]


def _own(own: Mapping[str, Any], age: Callable[[], float], course: Callable[[], Course]) -> Server:
    """Return what the program of a cluster's own image answers."""
    pages = dict(own.get("pages", {}))
    server = Pages(pages, own.get("headers", {}), lambda: age() >= own.get("opens", 0))
    if "metrics" in own:  # read when first wanted: nodes start sooner
        told = import_module("kubesim.metrics.applications").Application(own["metrics"], course())
        kind = "text/plain; version=0.0.4; charset=utf-8"
        pages["/metrics"] = {"type": kind, "make": lambda: told.page(age())}
        server.exporter = told.series
    return server


def _model(spec: Obj) -> str:
    """Return the name under which an inference server of this command line serves its model, as vLLM takes it."""
    words = [*(spec.get("command") or ()), *(spec.get("args") or ())]
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for before in ("--served-model-name", "--model", "serve"):
        if before in words[:-1]:
            return str(words[words.index(before) + 1])
    return DEFAULT_MODEL


def _named(pages: dict[str, Any], model: str, version: str) -> dict[str, Any]:
    """Return pages with the server's version and the name of the model, which comes from whoever made the pod."""
    word = json.dumps(model)[1:-1]
    bodies = {path: page.get("body", "").replace("$VERSION", version) for path, page in pages.items()}
    return {path: {**page, "body": bodies[path].replace("$MODEL", word)} for path, page in pages.items()}


def files(image: Image) -> dict[str, str]:
    """Return the files that an image has for its server, by path."""
    entry = _table().get(image.behaviour) or {}
    return {f"{entry['root']}/{name}": text for name, text in (entry.get("files") or {}).items()}


FORWARD_ERROR = (
    "error forwarding port {port} to pod {id}, uid : failed to execute portforward in network namespace "
    '"/var/run/netns/cni-{network}": failed to connect to localhost:{port} inside namespace "{id}", '
    "IPv4: dial tcp4 127.0.0.1:{port}: {reason} IPv6 dial tcp6 [::1]:{port}: {reason} "
)


async def join_port(fabric: Fabric, record: PodRecord, port: int, connection: Duplex) -> None:
    """Join a connection with a port of a pod until it ends. Raises ``RuntimeFailure``."""
    try:
        server = fabric.find(record.ip, port)
    except NetworkError as error:
        number = container_id(record.uid, "", 0)
        text = FORWARD_ERROR.format(port=port, id=number, network=uuid.UUID(number[:32]), reason=REASONS[error.kind])
        raise RuntimeFailure(text) from error
    await server.converse(connection, "127.0.0.1")
