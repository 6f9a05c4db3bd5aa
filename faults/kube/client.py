"""A Kubernetes client of plain dicts over the official one.

The generated models of ``kubernetes`` cost ten times the time and three times the memory of ``json`` per object, and
its way to the connection as much as the rest of a request, so only its configuration, TLS and connection pool are
used. Kinds are found by discovery, one request per group version, or one for all of them.
Every failure is a ``faults.errors.ClusterError``.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson
import urllib3

from faults import errors, heartbeat
from faults.backoff import next_pause
from faults.engine.model import CommandLimits, PatchType, Reply, Request
from faults.kube import access_reviews, commands, programs, prometheus_query
from faults.kube.config import Access
from faults.kube.discovery import DISCOVERY, Resource, Resources, group_path, parse_groups, parse_resources
from faults.kube.official_client import NO_RETRIES, api_client, client_context
from faults.kube.port_forward import ForwardedPort, PodPort
from faults.kube.proxy import read_reply, unanswered_in_time
from faults.kube.statuses import error_of
from faults.terraform_plans import TerraformPlans

T = TypeVar("T")
Obj = dict[str, Any]
Objects = list[Obj]  # inside Kube, ``list`` is the verb
TIMEOUT = (2.0, 5.0)  # seconds to connect, and between two bytes; below every lease
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
MAX_TRIES = 5
MAX_REPEAT_S = 5.0  # from the first try; what takes longer is for the schedule of the work item
PAUSE_S, MAX_PAUSE_S = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list, and the resourceVersion from which a watch continues it."""

    items: list[Obj]
    resource_version: str


class Kube:
    """One cluster with one identity. Safe to share between threads."""

    def __init__(
        self,
        access: Access,
        *,
        timeout: tuple[float, float] | None = None,
        pause: Callable[[float], object] | None = None,
        max_repeat_s: float = MAX_REPEAT_S,
        reaches_pods: bool = True,
    ) -> None:
        """``reaches_pods``: whether the API server is known to; kubelets are, everywhere."""
        self.access = access
        self._max_repeat_s = max_repeat_s
        self._pause = pause or threading.Event().wait
        self._timeout = timeout or TIMEOUT
        self._urllib3_timeout = urllib3.Timeout(connect=self._timeout[0], read=self._timeout[1])
        self._root = urlsplit(access.server).path
        self._api = api_client(access)
        self._pool = self._open_pool()
        self._headers = {"Accept": "application/json", "User-Agent": "kubectl"}
        if access.token:
            self._headers["Authorization"] = f"Bearer {access.token}"
        self._kinds: dict[str, dict[str, Resource]] = {}
        self._prometheus: prometheus_query.Service | None = None
        self.reaches_pods = reaches_pods
        self._lock = threading.Lock()
        self._plans = TerraformPlans()
        self._context_of_streams: ssl.SSLContext | None = None  # each takes longer to make than to use

    def learn(self, resources: Iterable[Resource]) -> None:
        """Take kinds as known, so that the first request for one of them needs no discovery."""
        with self._lock:
            for resource in resources:
                self._kinds.setdefault(resource.api_version, {})[resource.kind] = resource

    def close(self) -> None:
        """Close every connection; a later request opens another one."""
        self._api.close()  # type: ignore[no-untyped-call]
        self._pool = self._open_pool()

    def _open_pool(self) -> urllib3.HTTPConnectionPool:
        manager: urllib3.PoolManager = self._api.rest_client.pool_manager
        return manager.connection_from_url(self.access.server)

    def list(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> Objects:
        """Return all objects of a kind; an empty namespace means every namespace."""
        return self.list_page(api_version, kind, namespace, label_selector, field_selector).items

    def list_page(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects with the resourceVersion of the list, in pages of 500.

        Where the state of the first page is forgotten before the last one is read, all is asked for at once.
        """
        query = {"limit": "500", "labelSelector": label_selector, "fieldSelector": field_selector}
        try:
            return self._pages(api_version, kind, namespace, query)
        except errors.Expired:
            return self._pages(api_version, kind, namespace, {**query, "limit": ""})

    def _pages(self, api_version: str, kind: str, namespace: str, wanted: Mapping[str, str]) -> ObjectList:
        query, items = dict(wanted), []
        while True:
            page = self._json("GET", self._path(api_version, kind, namespace), query=query)
            # Items of a list come without these two; everything downstream wants to know what it holds.
            items += [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or []]
            meta = page.get("metadata", {})
            if not meta.get("continue"):
                return ObjectList(items, meta.get("resourceVersion", ""))
            query["continue"] = meta["continue"]

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Obj:
        """Return one object; NotFound where there is none."""
        return self._json("GET", self._path(api_version, kind, namespace, name))

    def create(self, obj: Obj, *, field_manager: str = "", dry_run: bool = False) -> Obj:
        """Create an object and return what the cluster made of it; AlreadyExists where the name is taken."""
        path = self._path(obj["apiVersion"], obj["kind"], obj.get("metadata", {}).get("namespace", ""))
        named = bool(obj.get("metadata", {}).get("name"))  # a generated name would make a second object
        return self._json("POST", path, query=_write_query(field_manager, dry_run), body=obj, repeatable=named)

    def replace(self, obj: Obj, *, field_manager: str = "") -> Obj:
        """Replace an object; a resourceVersion inside makes it conditional (Conflict)."""
        meta = obj["metadata"]
        path = self._path(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])
        return self._json("PUT", path, query=_write_query(field_manager, False), body=obj)

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str,
        patch: Obj | Sequence[Obj],
        *,
        patch_type: PatchType = "merge",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Change some fields; a metadata.resourceVersion inside makes it conditional (Conflict)."""
        return self._json(
            "PATCH",
            self._path(api_version, kind, namespace, name),
            query=_write_query(field_manager, dry_run),
            body=patch,
            content_type=_PATCH_TYPES[patch_type],
            repeatable=dry_run or patch_type != "json",  # its operations may add to a list twice
        )

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete an object; with ``uid`` only that very one, with ``version`` only as it was read (else Conflict).

        Dependents go by ``propagation``.
        """
        options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if wanted := {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}:
            options["preconditions"] = wanted
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        self._json("DELETE", self._path(api_version, kind, namespace, name), body=options)

    def delete_all(self, api_version: str, kind: str, namespace: str = "") -> None:
        """Delete all objects of a kind in a namespace, or all of a kind that has none."""
        self._json("DELETE", self._path(api_version, kind, namespace))

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log as text (undecodable bytes replaced), at most 1 MiB of it."""
        query = {
            "container": container,
            "previous": "true" if previous else "",
            "tailLines": "" if tail_lines is None else str(tail_lines),
            "limitBytes": str(1 << 20),
        }
        path = self._path("v1", "Pod", namespace, pod) + "/log"
        return self.repeat(lambda: self._request("GET", path, query=query, accept="*/*")).decode("utf-8", "replace")

    def call(self, namespace: str, server: str, request: Request) -> Reply:
        """Send a request to ``pods/NAME:PORT`` or ``services/NAME:PORT``, and return the program's reply."""
        return programs.call(self, namespace, server, request)

    def forward(self, namespace: str, target: PodPort) -> ForwardedPort:
        """Return a connection to a port that the kubelet of a pod forwards."""
        path = f"{self._path('v1', 'Pod', namespace, target.pod)}/portforward?ports={target.port}"
        return ForwardedPort(*commands.open_channels(self.access, self._stream_context(), self._headers, path))

    def through_proxy(self, path: str, request: Request) -> Reply:
        """Send a request to a path of the API server's proxy; return the program's reply."""
        with unanswered_in_time():
            response = self._send(request.method, path, body=request.body, accept="*/*")
        return read_reply(response)

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page of ``pods/NAME:PORT`` or ``services/NAME:PORT``, as ``call`` does."""
        reply = self.call(namespace, server, Request("GET", path))
        return reply.status, reply.body

    def query(self, promql: str) -> Sequence[Any]:
        """Return the series of an instant query of the Prometheus that runs in the cluster."""
        service, self._prometheus = self._prometheus or prometheus_query.find_service(self), None
        found = prometheus_query.query(self, service, promql)
        self._prometheus = service  # looked for again after a failure only
        return found

    def cloud_assets(self, project: str) -> Objects:
        """Return the assets of a cloud project; none where the cluster's server has no such API for us."""
        with suppress(errors.NotFound, errors.Forbidden):
            return [*self._json("GET", f"/cloudasset/v1/projects/{quote(project, safe='')}/assets").get("assets", ())]
        return []

    def cloud(self, method: str, path: str, body: Obj | None = None) -> Obj:
        """Send a request to the cloud API at the cluster's address, and return its answer."""
        return self._json(method, path, body=body, repeatable=method != "POST")

    def secret(self, namespace: str, name: str) -> Obj:
        """Return a Secret; NotFound where there is none."""
        return self.get("v1", "Secret", name, namespace)

    def plan(self, namespace: str, root: str) -> Obj:
        """Return what a plan of the toolbox's Terraform code for a root would do, whose state is in a namespace."""
        return self._plans.newest(self, namespace, root).dump()

    def review_access(self, user: str, attributes: Mapping[str, str]) -> Obj:
        """Return the status of a SubjectAccessReview: whether a user may do this, and why."""
        answer = self._json("POST", access_reviews.PATH, body=access_reviews.review(user, attributes))
        return dict(answer["status"])

    def run_command(
        self, namespace: str, pod: str, container: str, command: Sequence[str], limits: CommandLimits | None = None
    ) -> tuple[int, str]:
        """Run a command in a container; return its exit code and what it wrote, after 5 s and 16 KiB at most."""
        path = self._path("v1", "Pod", namespace, pod) + "/exec"
        context = self._stream_context()
        return commands.run_command(self.access, context, self._headers, path, container, command, limits)

    def token_request(
        self, namespace: str, service_account: str, *, seconds: int, audiences: Sequence[str] = ()
    ) -> tuple[str, str]:
        """Ask for a token of a service account; return it and its expiry (RFC 3339). The API's minimum is 600 s."""
        spec: Obj = {"expirationSeconds": max(seconds, 600)}
        if audiences:
            spec["audiences"] = list(audiences)
        path = self._path("v1", "ServiceAccount", namespace, service_account) + "/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        status = self._json("POST", path, body=body)["status"]
        return status["token"], status["expirationTimestamp"]

    def newest_version(self) -> int:
        """Return the newest resourceVersion, which falls only with a restored snapshot; 0 where it is no number."""
        answer = self._json("GET", "/api/v1/namespaces", query={"limit": "1"})
        version = str(answer.get("metadata", {}).get("resourceVersion", ""))
        return int(version) if version.isascii() and version.isdigit() else 0

    def version(self) -> Obj:
        """Return the server's /version; the cheapest proof that it answers."""
        return self._json("GET", "/version")

    def kinds(self) -> Resources:
        """Return every kind of the preferred version of every API group, but for extensions whose server is down."""
        return [resource for version in ("v1", *self._preferred()) for resource in self._kinds_in(version)]

    def _preferred(self) -> Sequence[str]:
        """Return the preferred version of each named group, and learn its kinds where one answer tells them all."""
        answer = self._json("GET", "/apis", accept=DISCOVERY)
        if answer.get("kind") != "APIGroupDiscoveryList":
            return [group["preferredVersion"]["groupVersion"] for group in answer.get("groups", [])]
        groups = parse_groups(answer)
        for version, resources in groups.items():
            if resources is not None:
                self._kinds[version] = resources
        return [version for version in groups if version in self._kinds or self._may_be_up(version)]

    def _may_be_up(self, api_version: str) -> bool:
        """Tell whether an API without known kinds is worth asking; whoever may not look leaves it out."""
        try:
            return not self._is_down(api_version)
        except errors.Forbidden:
            return False

    def _kinds_in(self, api_version: str) -> Resources:
        try:
            return list(self._discover(api_version).values())
        except errors.Unreachable:
            if "/" in api_version and self._is_down(api_version):  # the core group is nobody else's
                return []
            return list(self._discover(api_version).values())  # it may have come up in the meantime

    def _is_down(self, api_version: str) -> bool:
        """Whether an API is another server's, as that of metrics, which the cluster does not reach for now."""
        group, _, version = api_version.partition("/")
        service = self._json("GET", f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}")
        conditions = (service.get("status") or {}).get("conditions") or []
        states = {condition["type"]: condition["status"] for condition in conditions}
        return "service" in service["spec"] and states.get("Available") != "True"

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return how the cluster calls a kind; NotFound where it has no such kind."""
        found = self._discover(api_version).get(kind)
        if found is None:
            self._kinds.pop(api_version, None)  # it may be a custom kind that is defined later
            raise errors.NotFound(f"The cluster has no kind {kind} in {api_version}.")
        return found

    @property
    def patience(self) -> urllib3.Timeout:
        """Return the same seconds as urllib3 takes them."""
        return self._urllib3_timeout

    @property
    def headers(self) -> dict[str, str]:
        """Return what every request says of us, the token included."""
        return dict(self._headers)

    @property
    def timeout(self) -> tuple[float, float]:
        """Return the seconds to connect, and between two bytes."""
        return self._timeout

    def ssl_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the cluster and proves who we are."""
        return client_context(self.access)

    def _stream_context(self) -> ssl.SSLContext:
        """Return the TLS context that all commands and forwarded ports share."""
        self._context_of_streams = self._context_of_streams or self.ssl_context()
        return self._context_of_streams

    def known_path(self, api_version: str, kind: str, namespace: str = "") -> str | None:
        """Return the path of a kind's collection; None where discovery has not told of it yet."""
        with self._lock:
            known = kind in self._kinds.get(api_version, {})
        return self._path(api_version, kind, namespace) if known else None

    def _discover(self, api_version: str) -> dict[str, Resource]:
        with self._lock:
            known = self._kinds.get(api_version)
        if known is None:
            known = self._kinds[api_version] = self._ask_kinds(api_version)
        return known

    def _ask_kinds(self, api_version: str) -> dict[str, Resource]:
        return parse_resources(api_version, self._json("GET", group_path(api_version)))

    def _path(self, api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
        resource = self.resource(api_version, kind)
        parts = [group_path(api_version)]
        if namespace and resource.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(resource.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/".join(parts)

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
        repeatable: bool = True,
    ) -> Obj:
        def ask() -> Obj:
            data = self._request(method, path, query=query, body=body, content_type=content_type, accept=accept)
            return self._object(data)

        return self.repeat(ask) if repeatable else ask()

    def repeat(self, ask: Callable[[], T]) -> T:
        """Ask again, a few times and for a few seconds, while no answer can be had.

        One request in a hundred that fails must not cost a phase of a hundred requests. Writes are repeated, too:
        fixed names, UIDs and resourceVersions make a second one harmless, and callers take "already exists" and
        "conflict" for what an earlier try may have done.
        """
        began, pause = time.monotonic(), 0.0
        for number in range(MAX_TRIES):
            heartbeat.beat()
            try:
                return ask()
            except errors.Unreachable as exc:
                pause = next_pause(pause, exc.retry_after, base_s=PAUSE_S, max_s=MAX_PAUSE_S)
                late = time.monotonic() - began + pause > self._max_repeat_s
                if not exc.retryable or late or number == MAX_TRIES - 1:
                    raise
            self._pause(pause)
        raise AssertionError("the last try returns or raises")

    def _object(self, data: bytes) -> Obj:
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise errors.Unreachable(f"{self.access.server} answered something that is not JSON.") from None
        if not isinstance(answer, dict):
            raise errors.Unreachable(f"{self.access.server} answered something that is not an object.")
        return answer

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
    ) -> bytes:
        response = self._send(method, path, query=query, body=body, content_type=content_type, accept=accept)
        try:
            data = response.data
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise errors.Unreachable(f"{self.access.server} broke off its answer: {exc}") from exc
        if not 200 <= response.status < 300:
            raise error_of(response.status, data, response.headers)
        return data

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
    ) -> urllib3.BaseHTTPResponse:
        url = self._root + path
        if filled := {key: value for key, value in (query or {}).items() if value}:
            url += "?" + urlencode(filled)
        headers = self._headers | ({"Accept": accept} if accept else {})
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            return self._pool.urlopen(
                method,
                url,
                body=None if body is None else json.dumps(body),
                headers=headers,
                retries=NO_RETRIES,
                redirect=False,
                timeout=self._urllib3_timeout,
                preload_content=False,
            )
        except urllib3.exceptions.SSLError as exc:
            raise errors.Unreachable(f"{self.access.server} cannot be trusted: {exc}", retryable=False) from exc
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise errors.Unreachable(f"{self.access.server} cannot be reached: {_cause(exc)}") from exc


def _write_query(field_manager: str, dry_run: bool) -> dict[str, str]:
    return {"fieldManager": field_manager, "dryRun": "All" if dry_run else ""}


def _cause(exc: BaseException) -> str:
    """Return the innermost reason of urllib3's nested exceptions, in one line."""
    reason = getattr(exc, "reason", None)
    return _cause(reason) if isinstance(reason, BaseException) else str(exc).split(": ", 1)[-1]
