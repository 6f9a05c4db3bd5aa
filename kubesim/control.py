"""The control API: JSON over HTTPS with a token of its own, never reachable with a cluster's credential."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from kubesim import clusterfile
from kubesim.api.answers import json_response
from kubesim.api.durations import parse_time
from kubesim.errors import Obj
from kubesim.host import Host, Tenant
from kubesim.kubelet import imagefile
from kubesim.kubelet.imagefile import WrongImage
from kubesim.located import FileError
from kubesim.pki import write_private
from kubesim.pools import MAX_GPUS, MAX_NODES
from kubesim.processes import HostError

FILE_FIELDS = frozenset({"nodes", "addons", "images", "present", "namespaces", "manifests"})
FIELDS = FILE_FIELDS | {"name", "gpus", "deadline", "ttlSeconds", "skips", "guide"}
LOOPBACK_PORT = re.compile(r"127\.0\.0\.1:[1-9]\d{0,4}")
MAX_TTL_S = 366 * 24 * 3600
MAX_SKIP_S = 3600


def control_token(folder: Path) -> str:
    """Return the token kept in ``folder``/control-token (0600), making it on the first call."""
    path = folder / "control-token"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_private(path, secrets.token_urlsafe(32).encode() + b"\n")
    return path.read_text(encoding="ascii").strip()


class Control:
    """Answers /control/... to whoever has shown the token; the front lets nobody else come here."""

    def __init__(self, host: Host, ca: str, *, guide: bool = False) -> None:
        self._host = host
        self._guide = guide
        self._ca = ca

    async def handle(self, request: web.Request, path: list[str]) -> web.Response:
        """Answer one request; ``path`` is what follows /control."""
        try:
            return await self._dispatch(request, path)
        except HostError as error:
            return json_response({"error": error.message}, error.code)

    async def _dispatch(self, request: web.Request, path: list[str]) -> web.Response:
        """Do what a method of a path means."""
        host = self._host
        match request.method, path:
            case "GET", ["health"]:
                return json_response({"status": "ok", "clusters": len(host.clusters)})
            case "GET", ["clusters"]:
                return json_response({"clusters": [self._shown(cluster) for cluster in host.clusters]})
            case "POST", ["clusters"]:
                return await self._create(request)
            case "GET", ["clusters", name]:
                return json_response(self._shown(host.get(name)))
            case "PATCH", ["clusters", name]:
                return await self._patch(request, name)
            case "DELETE", ["clusters", name]:
                await host.drop(name)
                return json_response({"name": name, "status": "deleted"})
            case "POST", ["clusters", name, "skip"]:
                return await self._skip(request, name)
            case "POST", ["clusters", name, "checkpoint" | "rollback" as call]:
                await host.ask(name, call)
                return json_response({"name": name, "status": call})
            case _, ["health"]:
                raise HostError(405, "Use GET here.")
            case _, ["clusters"]:
                raise HostError(405, "Use GET or POST here.")
            case _, ["clusters", _]:
                raise HostError(405, "Use GET or PATCH or DELETE here.")
        raise HostError(404, "Nothing is here; the control API begins at /control/clusters.")

    async def _create(self, request: web.Request) -> web.Response:
        """Answer POST /control/clusters."""
        body = await _body(request, FIELDS)
        if not isinstance(body.get("skips", False), bool):
            raise HostError(422, "skips: give true or false.")
        guide = {"guide": self._outside(body)} if "guide" in body else {}
        asked = {"addons": _addons(body), **_images(body), **_shape(body), "skips": body.get("skips", False), **guide}
        cluster, new = await self._host.create(_text(body, "name"), self._deadline(body), asked)
        return json_response(self._shown(cluster), 201 if new else 200)

    def _outside(self, body: Obj) -> str:
        """Return the port of this machine that answers for a cluster's fault injection API, in guide mode alone."""
        if not self._guide:
            raise HostError(403, "guide: this host was started without --guide.")
        if not LOOPBACK_PORT.fullmatch(place := _text(body, "guide")):
            raise HostError(422, "guide: give a port of this machine, such as 127.0.0.1:8080.")
        return place

    async def _skip(self, request: web.Request, name: str) -> web.Response:
        """Answer POST /control/clusters/NAME/skip: its time, after so many seconds of it have passed at once."""
        asked = await _body(request, frozenset({"seconds", "commands"}))
        seconds, commands = asked.get("seconds"), asked.get("commands", False)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_SKIP_S:
            raise HostError(422, f"seconds: give a number from 0 to {MAX_SKIP_S}.")
        if not isinstance(commands, bool):
            raise HostError(422, "commands: give true or false.")
        return json_response(await self._host.ask(name, "skip", seconds, commands))

    async def _patch(self, request: web.Request, name: str) -> web.Response:
        """Answer PATCH of one cluster: its deadline."""
        body = await _body(request, frozenset({"deadline", "ttlSeconds"}))
        if not body:
            raise HostError(422, "deadline: give a time, or null for none; or give ttlSeconds.")
        return json_response(self._shown(await self._host.set_deadline(name, self._deadline(body))))

    def _deadline(self, body: Obj) -> datetime | None:
        """Return the deadline that a request sets, as a time or as seconds from now; None for none."""
        if "ttlSeconds" not in body:
            value = body.get("deadline")
            moment = parse_time(value) if isinstance(value, str) else None
            if moment is None and value is not None:
                raise HostError(422, "deadline: give an RFC 3339 time such as 2026-01-31T12:00:00Z.")
            return moment
        if "deadline" in body:
            raise HostError(422, "ttlSeconds: leave it out, or deadline.")
        return self._host.deadline_in(_count(body, "ttlSeconds", 0, MAX_TTL_S))

    def _shown(self, cluster: Tenant) -> Obj:
        """Return a cluster as the API shows it."""
        return {**cluster.shown(), "ca": self._ca}


async def _body(request: web.Request, fields: frozenset[str]) -> Obj:
    """Return a JSON object with no other fields than these; raises 400 and 422."""
    try:
        body: Any = orjson.loads(await request.read())
    except (orjson.JSONDecodeError, web.HTTPRequestEntityTooLarge) as error:
        raise HostError(400, f"Send a JSON object: {error}.") from error
    if not isinstance(body, dict):
        raise HostError(400, "Send a JSON object.")
    unknown = sorted(set(body) - fields)
    if unknown:
        raise HostError(422, f"{unknown[0]}: no such field; known are {', '.join(sorted(fields))}.")
    return body


def _text(body: Obj, name: str) -> str:
    """Return a text field."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise HostError(422, f"{name}: give a text.")
    return value


def _count(body: Obj, name: str, default: int, most: int) -> int:
    """Return a whole number from 0 to ``most``."""
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise HostError(422, f"{name}: give a whole number from 0 to {most}.")
    return value


def _addons(body: Obj) -> list[str]:
    """Return the names of what a fresh cluster brings along."""
    value = body.get("addons", [])
    known = clusterfile.known_addons()
    if not isinstance(value, list) or any(name not in known for name in value):
        raise HostError(422, f"addons: give a list of some of {', '.join(known)}.")
    return value


def _shape(body: Obj) -> Obj:
    """Return how many nodes and GPUs a fresh cluster has, and as a cluster file what else there is to say of them."""
    listed = isinstance(body.get("nodes"), list)
    if listed and "gpus" in body:
        raise HostError(422, "gpus: give them in each entry of nodes.")
    file = {name: body[name] for name in ("namespaces", "manifests", "images", *["nodes"] * listed) if name in body}
    try:
        pools = clusterfile.of(file).pools
    except FileError as error:
        raise HostError(422, error.message) from error
    told = {"file": file} if file.keys() - {"images"} else {}
    if pools is None:
        return {"nodes": _count(body, "nodes", 3, MAX_NODES), "gpus": _count(body, "gpus", 8, MAX_GPUS), **told}
    gpus = max((pool.gpus for pool in pools if pool.count), default=0)
    return {"nodes": sum(pool.count for pool in pools), "gpus": gpus, **told}


def _images(body: Obj) -> Obj:
    """Return the images that a fresh cluster brings, and those that its nodes have from the start, if any."""
    try:
        images = imagefile.read(body.get("images", []))
        return {"images": images, "present": imagefile.read_present(body.get("present", []), images)}
    except WrongImage as error:
        raise HostError(422, str(error)) from error
