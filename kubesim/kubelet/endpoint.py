"""What a kubelet answers over HTTP on its node: health, its pods, their logs. The node proxy leads here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import parse_qs, urlsplit

import orjson

from kubesim.errors import ApiError, Obj
from kubesim.kubelet.consumption import Process
from kubesim.network.fabric import HttpServer, Request, Response

PORT = 10250
JSON = {"Content-Type": "application/json"}
Logs = Callable[[str, str, str, int | None, bool], bytes]
"""(namespace, pod, container, lines from the end, the start before) -> the log; raises ``ApiError``."""


class KubeletEndpoint(HttpServer):
    """The server of one node's kubelet."""

    def __init__(
        self, pods: Callable[[], Iterable[Obj]], logs: Logs, processes: Callable[[], Iterable[Process]] = tuple
    ) -> None:
        self.processes = processes
        self._pods = pods
        self._logs = logs

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        match [part for part in request.path.split("/") if part]:
            case ["healthz", *_]:
                return Response(200, b"ok")
            case ["pods"] | ["runningpods"]:
                listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [*self._pods()]}
                return Response(200, orjson.dumps(listed), JSON)
            case ["containerLogs", namespace, pod, container]:
                return self._log(request, namespace, pod, container)
        return Response(404, b"404 page not found\n")

    def _log(self, request: Request, namespace: str, pod: str, container: str) -> Response:
        query = parse_qs(urlsplit(request.target).query)
        tail = query.get("tailLines", [""])[0]
        previous = query.get("previous", ["false"])[0] == "true"
        try:
            text = self._logs(namespace, pod, container, int(tail) if tail.isdecimal() else None, previous)
        except ApiError as error:
            return Response(error.code, f"{error.message}\n".encode())
        return Response(200, text)
