"""The metadata server of a cloud's machines, as every machine of Compute Engine reaches it at 169.254.169.254."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import orjson

from kubesim import data
from kubesim.errors import Obj
from kubesim.network.fabric import HttpServer, Request, Response

ADDRESS = "169.254.169.254"
PROVIDER = "gce://"
FLAVOUR = "Metadata-Flavor"
HEAD = {
    FLAVOUR: "Google",
    "Server": "Metadata Server for VM",
    "X-XSS-Protection": "0",
    "X-Frame-Options": "SAMEORIGIN",
}


@cache
def _table() -> dict[str, Any]:
    return dict(data.read(Path(__file__).with_name("metadata.yaml")))


def has_metadata(node: Obj) -> bool:
    """Tell whether a node is a machine of the cloud whose metadata server this is."""
    return str(node["spec"].get("providerID", "")).startswith(PROVIDER)


class MetadataServer(HttpServer):
    """Tells a machine of itself."""

    def __init__(self, node: Obj) -> None:
        self._tree: dict[str, Any] = {"computeMetadata": {"v1": _values(node)}, "0.1": {}}

    async def respond(self, request: Request) -> Response:
        """Answer for one key, for a folder (its names), or for all below it (``recursive=true``)."""
        path, asked = request.path, parse_qs(request.target.partition("?")[2])
        if path != "/" and request.headers.get(FLAVOUR.lower(), "") != "Google":
            return _page(403, path)
        found: Any = self._tree
        for name in filter(None, path.split("/")):
            found = found.get(name) if isinstance(found, dict) else None
        if found is None or (path.endswith("/") and not isinstance(found, dict)):
            return _page(404, path)
        if isinstance(found, dict) and asked.get("recursive", [""])[0].lower() == "true":
            return Response(200, orjson.dumps(_camel(found)), {**HEAD, "Content-Type": "application/json"})
        if isinstance(found, dict) and not path.endswith("/"):
            return Response(301, b"", {**HEAD, "Location": f"http://metadata.google.internal{path}/"})
        return Response(200, _text(found).encode(), {**HEAD, "Content-Type": "application/text"})


def _page(code: int, path: str) -> Response:
    headers = {**HEAD, "Content-Type": "text/html; charset=UTF-8"}
    return Response(code, _table()["pages"][code].replace("{path}", path).encode(), headers)


def _text(found: Any) -> str:
    if isinstance(found, dict):
        return "".join(f"{name}{'/' if isinstance(below, dict) else ''}\n" for name, below in sorted(found.items()))
    return str(found)


def _camel(found: Any) -> Any:
    """Return a tree with its names as the JSON form has them: attributes keep theirs."""
    if not isinstance(found, dict):
        return found
    named = {name: below if name == "attributes" else _camel(below) for name, below in found.items()}
    return {_joined(name): below for name, below in named.items()}


def _joined(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(part.capitalize() for part in rest)


def _values(node: Obj) -> Any:
    project, zone, name = node["spec"]["providerID"].removeprefix(PROVIDER).split("/")
    labels, addresses = node["metadata"].get("labels") or {}, node["status"].get("addresses") or ()
    own = {
        "project": project,
        "number": str(100_000_000_000 + zlib.crc32(project.encode()) * 17),
        "zone": zone,
        "region": zone.rpartition("-")[0],
        "name": name,
        "id": str(zlib.crc32(name.encode()) * 1_000_000_007 + 10**18),
        "address": next((item["address"] for item in addresses if item["type"] == "InternalIP"), ""),
        "machine": labels.get("node.kubernetes.io/instance-type", ""),
        "uid": hashlib.sha256(project.encode()).hexdigest(),
    }
    return _filled(_table()["v1"], own)


def _filled(found: Any, own: Mapping[str, str]) -> Any:
    if isinstance(found, dict):
        return {key.format(**own): _filled(below, own) for key, below in found.items()}
    return found.format(**own)
