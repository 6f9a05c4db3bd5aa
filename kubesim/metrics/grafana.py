"""Grafana's HTTP API over what its pod mounts: provisioned data sources and dashboards, and queries to Prometheus."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
import yaml

from kubesim import data
from kubesim.errors import Obj, tolerating
from kubesim.kubelet.duties import Post
from kubesim.metrics.api import parse_duration
from kubesim.metrics.promql.values import QueryError
from kubesim.network.fabric import HttpServer, Request, Response, Server
from kubesim.shell.errors import REASONS, NetworkError

PORT, MAX_QUERIES, MIN_STEP_S, MAX_POINTS = 3000, 100, 15, 1000
_MALFORMED = (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError, yaml.YAMLError, QueryError)
"""What reading something of another shape than expected raises."""


class Grafana(HttpServer):
    """Answers the API to whoever may see it; all else is answered by ``pages``."""

    def __init__(self, post: Post, pages: Server) -> None:
        self._post, self._pages = post, pages

    def stop(self) -> None:
        """Close the port."""
        self._post.fabric.close(self._post.address, PORT, self)

    async def respond(self, request: Request) -> Response:
        """Answer a request. Raises ``NetworkError`` before it is open."""
        known = await self._pages.respond(request)
        if known.status not in (401, 404) or not request.path.startswith("/api/") or not self._admits(request):
            return known
        files = await self._files()
        sources, boards = _by_uid(_sources(files)), _by_uid(_dashboards(files))
        status: int = 404
        document: Any = {"message": "Not found"}
        match [request.method, *request.path.strip("/").split("/")[1:]]:
            case ["GET", "search"]:
                wanted = parse_qs(urlsplit(request.target).query).get("query", [""])[0].lower()
                status, document = 200, [_row(each) for each in boards.values() if wanted in each["title"].lower()]
            case ["GET", "dashboards", "uid", uid] if uid in boards:
                status, document = 200, {"meta": {**_row(boards[uid]), "provisioned": True}, "dashboard": boards[uid]}
            case ["GET", "datasources"]:
                status, document = 200, [*sources.values()]
            case ["POST", "ds", "query"]:
                status, document = await self._queries(request.body, sources)
        return Response(status, orjson.dumps(document), {"Content-Type": "application/json"})

    def _admits(self, request: Request) -> bool:
        env = self._post.env
        user = f"{env.get('GF_SECURITY_ADMIN_USER', 'admin')}:{env.get('GF_SECURITY_ADMIN_PASSWORD', 'admin')}"
        basic = f"Basic {b64encode(user.encode()).decode()}"
        return env.get("GF_AUTH_ANONYMOUS_ENABLED") == "true" or request.headers.get("authorization") == basic

    async def _files(self) -> dict[str, str]:
        """Return what the pod mounts of ConfigMaps, by path."""
        meta, spec = self._post.pod["metadata"], self._post.pod["spec"]
        names = {each["name"]: each["configMap"]["name"] for each in spec.get("volumes") or () if "configMap" in each}
        found: dict[str, str] = {}
        mounts = [each for container in spec["containers"] for each in container.get("volumeMounts") or ()]
        for mount in (each for each in mounts if each["name"] in names):
            with tolerating(404):
                held = await self._post.client.get("configmaps", names[mount["name"]], meta["namespace"])
                found |= {
                    f"{mount['mountPath'].rstrip('/')}/{key}": text for key, text in (held.get("data") or {}).items()
                }
        return found

    async def _queries(self, body: bytes, sources: Mapping[str, Obj]) -> tuple[int, Obj]:
        try:
            asked, now = orjson.loads(body), self._post.clock.now().timestamp()
            span = _moment(str(asked["from"]), now), _moment(str(asked["to"]), now)
            queries = [(str(each.get("refId", "A")), each) for each in asked["queries"][:MAX_QUERIES]]
            results = {name: await self._query(name, each, sources, *span) for name, each in queries}
        except _MALFORMED:
            return 400, {"message": "bad request data", "traceID": ""}
        return max((each["status"] for each in results.values()), default=400), {"results": results}

    async def _query(self, name: str, query: Obj, sources: Mapping[str, Obj], start: float, end: float) -> Obj:
        """Return the result of one query: frames of data, or an error in its source's words."""
        source = sources.get(query["datasource"]["uid"])
        if source is None:
            return {"error": "data source not found", "errorSource": "plugin", "status": 404}
        points = min(max(int(query.get("maxDataPoints", 100)), 1), MAX_POINTS)
        step = math.ceil(max(MIN_STEP_S, float(query.get("intervalMs", 0)) / 1000, (end - start) / points))
        times = {"time": end} if query.get("instant") else {"start": start, "end": end, "step": step}
        url = f"{str(source['url']).rstrip('/')}/api/v1/{'query' if query.get('instant') else 'query_range'}"
        target = f"{url}?{urlencode({'query': query['expr'], **times})}"
        try:
            answer = orjson.loads((await self._post.network.http("GET", target, {}, b""))[2])
            if answer["status"] != "success":
                words = f"{answer['errorType']}: {answer['error']}"
                return {"error": words, "errorSource": "downstream", "status": 400}
            return {"status": 200, "frames": _frames(name, query["expr"], step, answer["data"])}
        except (NetworkError, *_MALFORMED) as error:
            words = REASONS.get(error.kind, error.kind) if isinstance(error, NetworkError) else str(error)
            return {"error": f'Post "{url}": {words}', "errorSource": "downstream", "status": 500}


def _provisioned(files: Mapping[str, str], kind: str, key: str) -> Iterator[Obj]:
    """Yield the entries of the provisioning files of one kind; what is not of their form is left out."""
    for path, text in files.items():
        try:
            found = data.parse_sent(text)[key] if path.startswith(f"/etc/grafana/provisioning/{kind}/") else ()
            yield from [{**each} for each in found]
        except _MALFORMED:
            continue


def _sources(files: Mapping[str, str]) -> Iterator[Obj]:
    for each in _provisioned(files, "datasources", "datasources"):
        uid = "P" + sha256(str(each.get("name")).encode()).hexdigest()[:16].upper()
        plain = {str(key): value for key, value in each.items() if isinstance(value, str | bool)}
        yield {"uid": uid, "url": "", **plain}


def _dashboards(files: Mapping[str, str]) -> Iterator[Obj]:
    """Yield the dashboards of the folders that providers name."""
    options = [each.get("options") for each in _provisioned(files, "dashboards", "providers")]
    folders = [each.get("path") for each in options if isinstance(each, dict)]
    for path, text in sorted(files.items()):
        try:
            if path.rpartition("/")[0] in folders:
                board = orjson.loads(text)
                yield {**board, "uid": str(board["uid"]), "title": str(board["title"])}
        except _MALFORMED:
            continue


def _by_uid(found: Iterator[Obj]) -> dict[str, Obj]:
    return {each["uid"]: {"id": number, **each} for number, each in enumerate(found, 1)}


def _row(board: Obj) -> Obj:
    slug = "-".join(board["title"].lower().split())
    return {"uid": board["uid"], "title": board["title"], "url": f"/d/{board['uid']}/{slug}", "type": "dash-db"}


def _moment(text: str, now: float) -> float:
    """Return the seconds of "now-6h", or of milliseconds. Raises ValueError and QueryError."""
    return (
        now - parse_duration(text[4:] or "0", "from")
        if text.startswith("now-") or text == "now"
        else int(text) / 1000
    )


def _frames(name: str, expr: str, step: int, found: Obj) -> list[Obj]:
    """Return series as Grafana has them: a frame for each, or one without fields where there are none."""
    meta: Obj = {"type": "timeseries-multi", "executedQueryString": f"Expr: {expr}\nStep: {step}s"}
    items = [{"metric": {}, "value": found["result"]}] if found["resultType"] == "scalar" else found["result"]
    frames = []
    for item in items or [{"metric": {}, "values": []}]:
        points = item["values"] if "values" in item else [item["value"]]
        time: Obj = {"name": "Time", "type": "time", "config": {"interval": step * 1000}}
        fields: list[Obj] = [time, {"name": "Value", "type": "number", "labels": item["metric"]}] if points else []
        values = [[round(at * 1000) for at, _ in points], [float(value) for _, value in points]] if points else []
        frames.append({"schema": {"refId": name, "meta": meta, "fields": fields}, "data": {"values": values}})
    return frames


def begin(post: Post) -> Grafana:
    """Answer the API in front of the image's own pages."""
    try:
        pages = post.fabric.find(post.address, PORT)
    except NetworkError:  # a kubelet that has started again opens no port of a container that somebody has entered
        pages = HttpServer()
    made = Grafana(post, pages)
    post.listen(PORT, made)
    return made
