"""The API server's front: authenticate, authorise, dispatch; every refusal is a Status."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from functools import partial

import orjson
from aiohttp import web

from kubesim.api import discovery, nonresource, openapi, openapi_v2
from kubesim.api.answers import NO_CACHE, TOLD, as_asked, error_response, json_response, not_found
from kubesim.api.backend import Backend
from kubesim.api.callouts import Aggregator
from kubesim.api.negotiate import RequestInfo, negotiate, prefers_yaml, request_info, wants_aggregated
from kubesim.api.resources import Resources
from kubesim.auth.authn import impersonate
from kubesim.auth.users import User, forbidden
from kubesim.errors import ApiError, Obj

ONLY_JSON = "406: Not Acceptable\n\nAvailable representations: application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ApiServer:
    """Answers the requests of one cluster."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._resources = Resources(backend)
        self._metrics = nonresource.Metrics()
        self.aggregator = Aggregator(backend.store, backend.operations.registry, backend.nodes.fabric)

    async def handle(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer one request; ``path`` is relative to the cluster's root and begins with a slash."""
        request[TOLD] = {"Audit-Id": str(uuid.uuid4())}
        try:
            response = await self._answer(request, path)
        except ApiError as error:
            response = as_asked(request, error_response(error))
        self._count(request, path, response.status)
        return response

    def _count(self, request: web.Request, path: str, code: int) -> None:
        """Count a request that was answered."""
        try:
            info = request_info(request.method, path, request.query)
        except ApiError:
            return
        scope = "" if not info.resource else "resource" if info.name else "namespace" if info.namespace else "cluster"
        self._metrics.count(
            (info.verb.upper(), info.group, info.version, info.resource, info.subresource, scope, code)
        )

    async def _answer(self, request: web.Request, path: str) -> web.StreamResponse:
        """Find out who asks and whether they may, then answer."""
        backend = self._backend
        if backend.cloud.claims(path):
            return await backend.cloud.answer(request, path, partial(self._admitted, request))
        asking = self._admitted(request)
        response = await self._answer_user(request, path, asking)
        if not response.prepared and isinstance(response, web.Response):
            backend.fairness.charge(asking, max(response.content_length or 0, request.content_length or 0))
        return response

    def _admitted(self, request: web.Request) -> User:
        """Return who asks, if they have a share of the server left. Raises ApiError."""
        asking = self._backend.asker(request)
        self._backend.fairness.admit(asking)
        return asking

    async def _answer_user(self, request: web.Request, path: str, asking: User) -> web.StreamResponse:
        """Answer somebody who is known and has a share left."""
        backend = self._backend
        user = impersonate(asking, request.headers, backend.authorizer)
        info = request_info(request.method, path, request.query)
        if not backend.authorizer.allows(user, info.attributes()):
            request[TOLD]["X-Content-Type-Options"] = "nosniff"
            raise forbidden(user, info.attributes(), backend.authorizer.refusal(user, info.attributes()) or "")
        elsewhere = self.aggregator.claimed(path)
        if elsewhere is not None:
            return await self.aggregator.answer(request, path, elsewhere, user)
        if "//" in path and info.subresource != "proxy":
            return not_found("" if path.startswith("//") else path)
        if info.resource:
            return await self._resources.answer(request, info, user)
        return await self._plain(request, info)

    async def _plain(self, request: web.Request, info: RequestInfo) -> web.StreamResponse:
        """Answer a path that is no resource: discovery, version, health, OpenAPI."""
        parts = [part for part in info.path.split("/") if part]
        match parts:
            case ["version"]:
                _only_read(info)
                if prefers_yaml(request.headers.get("Accept", "")):
                    raise ApiError(406, "NotAcceptable", ONLY_JSON, {})
                body = orjson.dumps(nonresource.VERSION, option=orjson.OPT_INDENT_2)
                return web.Response(body=body, content_type="application/json", headers=NO_CACHE)
            case [name, *check] if name in nonresource.CHECKS and not info.path.endswith("/"):
                excluded, verbose = request.query.getall("exclude", []), "verbose" in request.query
                found = nonresource.answer(name, "/".join(check), verbose=verbose, exclude=excluded)
                return found or not_found()
            case ["metrics"] | ["metrics", "slis"]:
                series = self._metrics.text(self._backend.store, self._backend.operations.registry)
                text = series if parts == ["metrics"] else nonresource.indicators()
                return web.Response(text=text, headers={**NO_CACHE, "Content-Type": nonresource.CONTENT_TYPE})
            case ["openapi", "v2"]:
                accept = request.headers.get("Accept", "")
                # the first request of a document reads many files
                return await asyncio.to_thread(openapi_v2.answer_v2, accept, self._backend.operations.registry)
            case ["openapi", "v3", *rest]:
                return await asyncio.to_thread(openapi.answer_v3, rest, self._backend.operations.registry)
            case ["api"] | ["apis"]:
                if parts == ["api"]:
                    _only_read(info)
                return as_asked(request, await self._groups(request, legacy=parts == ["api"]))
            case [] | ["index.html"]:
                body = orjson.dumps({"paths": self._paths()}, option=orjson.OPT_INDENT_2)
                return web.Response(body=body, content_type="application/json", headers=NO_CACHE)
        return as_asked(request, self._documents(parts, info))

    async def _groups(self, request: web.Request, *, legacy: bool) -> web.Response:
        """Answer /api and /apis, in the form that the client prefers."""
        registry = self._backend.operations.registry
        negotiate(request.headers.get("Accept", ""), aggregated=True)
        if wants_aggregated(request.headers.get("Accept", "")):
            remote = {} if legacy else await self.aggregator.discovered()
            response = json_response(discovery.aggregated(registry, legacy=legacy, remote=remote))
            tag = hashlib.sha512(response.body if isinstance(response.body, bytes) else b"").hexdigest().upper()
            response.headers.update({"Cache-Control": "public", "Content-Type": AGGREGATED, "Vary": "Accept"})
            response.headers["Etag"] = f'"{tag}"'
            return response
        if legacy:
            return json_response(discovery.api_versions(self._backend.address))
        return json_response(discovery.group_list(registry, self.aggregator.versions()))

    def _documents(self, parts: list[str], info: RequestInfo) -> web.Response:
        """Answer /api/v1, /apis/{group} and /apis/{group}/{version}."""
        registry = self._backend.operations.registry
        document: Obj | None = None
        match parts:
            case ["api", version]:
                document = discovery.resource_list(registry, "", version)
            case ["apis", group]:
                document = discovery.group(registry, group, self.aggregator.versions())
            case ["apis", group, version]:
                document = discovery.resource_list(registry, group, version)
        if document is None:
            keys = nonresource.key_documents(parts, self._backend.signer, self._backend.address)
            return keys or not_found("/".join(parts))
        if document["kind"] == "APIResourceList":
            _only_read(info)
        return json_response(document)

    def _paths(self) -> list[str]:
        """Return what the root lists."""
        kinds = self._backend.operations.registry.all()
        groups = {f"/apis/{kind.group}" for kind in kinds if kind.group}
        versions = {f"/apis/{kind.group}/{kind.version}" for kind in kinds if kind.group}
        checks = {f"/{name}/{check}" for name, checks in nonresource.CHECKS.items() for check in checks}
        return sorted(
            {*nonresource.FIXED_PATHS, *groups, *versions, *checks, *(f"/{name}" for name in nonresource.CHECKS)}
        )


def _only_read(info: RequestInfo) -> None:
    """Raise 405 for any verb but GET, which is all that some paths know."""
    if info.verb != "get":
        message = "the server does not allow this method on the requested resource"
        raise ApiError(405, "MethodNotAllowed", message, {})
