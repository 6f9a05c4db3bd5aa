"""The cloud API of a practice cluster, beside its API server: who asks, what they may do, and the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson
from aiohttp import web

from kubesim.auth.users import ANONYMOUS, User
from kubesim.clock import Clock
from kubesim.cloud import accounts, compute
from kubesim.cloud.accounts import Accounts, Projects
from kubesim.cloud.assets import Assets
from kubesim.cloud.compute import Compute, firewall_rules
from kubesim.cloud.container import Container, Machines
from kubesim.cloud.errors import CloudError
from kubesim.cloud.iam import Iam
from kubesim.cloud.request import CloudRequest
from kubesim.cloud.state import CloudState
from kubesim.errors import ApiError, Obj
from kubesim.network.firewall import Firewall
from kubesim.schema.registry import Registry

MAX_BODY = 256 * 1024
LOGIN = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
SERVICES = ("/compute/v1/", "/container/v1/", "/iam/v1/", "/cloudresourcemanager/v1/", "/cloudasset/v1/")


class Cloud:
    """The project of one cluster."""

    def __init__(self, own: Obj, clock: Clock, machines: Machines, registry: Registry, firewall: Firewall) -> None:
        """``own``: ``name`` (of the practice cluster), ``endpoint``, ``ca`` (PEM) and ``created``."""
        self.state = CloudState({**compute.seed(own["created"]), **accounts.seed()})
        self.iam = Iam(self.state, registry)
        self._clock = clock
        self._firewall = firewall
        self._container = container = Container(self.state, machines, self._require, own, own["name"])
        engine = Compute(self.state, container.groups, self._require)
        users, projects = Accounts(self.state, self._require), Projects(self.state, self.iam, self._require)
        self._services: dict[str, Callable[[CloudRequest], Obj | Awaitable[Obj]]] = {
            "compute": engine.answer, "container": container.answer, "iam": users.answer,
            "cloudresourcemanager": projects.answer,
            "cloudasset": Assets(self.state, container.pools, self._require).answer,
        }  # fmt: skip
        self.touch: Callable[[], None] = lambda: None
        """Called when there is something to keep."""
        self.state.changed = self._changed

    def restore(self, saved: Obj) -> None:
        """Take up what ``state.changes`` returned."""
        self.state.restore(saved)
        self._firewall.rules = firewall_rules(self.state)

    def note_pools(self) -> None:
        """Keep what the node pools are like."""
        self._container.note_pools()

    def claims(self, path: str) -> bool:
        """Tell whether a path is one of this API, on a cluster whose machines are a cloud's."""
        return path.startswith(SERVICES) and self._container.present

    async def answer(self, request: web.Request, path: str, identify: Callable[[], User]) -> web.Response:
        """Answer a request in the form of Google's APIs. ``identify`` raises ApiError."""
        try:
            user = identify()
            if user == ANONYMOUS:
                raise CloudError(401, LOGIN)
            service, _, rest = path.lstrip("/").partition("/v1/")
            asked = CloudRequest(
                service, request.method, rest.strip("/"), request.query, await _body(request), user, self._clock.now()
            )
            found = self._services[service](asked)
            body = found if isinstance(found, dict) else await asyncio.shield(asyncio.ensure_future(found))
        except CloudError as error:
            return _response(error.body(), error.code)
        except ApiError as error:
            return _response(CloudError(error.code, LOGIN if error.code == 401 else error.message).body(), error.code)
        return _response(body, 200)

    def _require(self, user: User, permission: str, resource: str) -> None:
        if not self.iam.allows(user, permission):
            text = f"Required '{permission}' permission for '{resource[:300]}'"
            raise CloudError(403, text)

    def _changed(self, path: str) -> None:
        if "/firewalls/" in path:
            self._firewall.rules = firewall_rules(self.state)
        self.touch()


async def _body(request: web.Request) -> Obj:
    """Return the JSON object of a request's body. Raises CloudError."""
    if (request.content_length or 0) > MAX_BODY:
        raise CloudError(413, f"Request payload size exceeds the limit: {MAX_BODY} bytes.")
    text = await request.content.read(MAX_BODY + 1)
    while len(text) <= MAX_BODY and (more := await request.content.read(MAX_BODY + 1 - len(text))):
        text += more
    if len(text) > MAX_BODY:
        raise CloudError(413, f"Request payload size exceeds the limit: {MAX_BODY} bytes.")
    try:
        found = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError as error:
        raise CloudError(400, f"Invalid JSON payload received. {error}") from error
    if not isinstance(found, dict):
        raise CloudError(400, "Invalid JSON payload received. Root element must be a message.")
    return found


def _response(body: Obj, code: int) -> web.Response:
    return web.Response(
        body=orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        status=code,
        content_type="application/json",
        headers={"Cache-Control": "private", "X-Content-Type-Options": "nosniff"},
    )
