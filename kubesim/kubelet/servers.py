"""What computed workloads answer on their ports: the servers of known images, and a plain one on declared ports."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kubesim.errors import Obj
from kubesim.kubelet.status import PodRecord
from kubesim.network.fabric import HttpServer, Request, Response, Server


class Pages(HttpServer):
    """Answers paths from a table; the entry "" stands for every other path."""

    def __init__(self, pages: dict[str, Any], headers: dict[str, str]) -> None:
        self._pages = pages
        self._headers = headers

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        page = self._pages.get(request.path, self._pages.get("", {"status": 404, "body": "404 page not found\n"}))
        kind = {"Content-Type": page["type"]} if "type" in page else {}
        return Response(page.get("status", 200), page.get("body", "").encode(), {**self._headers, **kind})


def known(record: PodRecord, spec: Obj) -> dict[int, Server]:
    """Return what a container whose process is computed listens with: its image's ports, and those it declares."""
    image = record.images.get(spec["image"])
    if image is None or not image.behaviour:
        return {}
    entry = _table().get(image.behaviour) or _table()["server"]
    declared = [port["containerPort"] for port in spec.get("ports") or () if port.get("protocol", "TCP") == "TCP"]
    server = Pages(entry["pages"], entry.get("headers", {}))
    return dict.fromkeys([*entry.get("ports", ()), *declared], server)


@cache
def _table() -> dict[str, Any]:
    with Path(__file__).with_name("servers.yaml").open(encoding="utf-8") as file:
        data: dict[str, Any] = yaml.safe_load(file)
    return data
