"""Whether the servers behind APIServices are there: the ``Available`` condition, in the aggregator's words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubesim.api.callouts import PORT, SLICES, SYSTEM, Aggregator, slices
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.apiservices import AUTOMANAGED, LOCAL, RESOURCE, custom
from kubesim.conditions import Verdict, condition_of, renewed, replaced, said
from kubesim.errors import Obj, tolerating
from kubesim.informer import WorkQueue
from kubesim.shell.errors import REASONS, NetworkError
from kubesim.store import Event, Store

AGAIN_S = 30.0
"""Servers are looked for this often even where nothing changes."""
FIRST_AGAIN_S = 0.1
"""One that does not answer is looked for so soon, then after twice as long each time (upstream begins with 5 ms)."""
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
LABEL = "kubernetes.io/service-name"
PASSED: Verdict = ("True", "Passed", "all checks passed")


class Availability:
    """Keeps the condition of every APIService, and the APIServices of custom groups.

    It is part of the API server, so it runs without controllers too.
    """

    def __init__(self, operations: Operations, store: Store, aggregator: Aggregator) -> None:
        self._operations = operations
        self._store = store
        self._aggregator = aggregator
        self._kind = operations.registry.by_resource(RESOURCE)
        self._queue = WorkQueue(operations.clock, self._sync, "apiservice-availability")
        self._stops: list[Callable[[], object]] = []
        self._waits: dict[str, float] = {}

    def start(self) -> None:
        """Look at every APIService now, and whenever something that it needs changes."""
        registry = self._operations.registry
        for resource, noticed in (
            (RESOURCE, self._changed),
            ("services", partial(self._needed, lambda obj: obj["metadata"]["name"])),
            (DEFINITIONS, self._defined),
            (SLICES, partial(self._needed, lambda obj: (obj["metadata"].get("labels") or {}).get(LABEL, ""))),
        ):
            self._stops.append(self._store.subscribe(registry.by_resource(resource), noticed))
        for service in self._store.list(self._kind):
            self._queue.add(service["metadata"]["name"])
        self._queue.start()

    async def stop(self) -> None:
        """Look no longer."""
        for stop in self._stops:
            stop()
        await self._queue.stop()

    def _changed(self, event: Event) -> None:
        self._queue.add(event.object["metadata"]["name"])

    def _defined(self, event: Event) -> None:
        """Look at the APIServices of the versions that a definition has, or had."""
        for definition in filter(None, (event.previous, event.object)):
            for version in definition["spec"]["versions"]:
                self._queue.add(f"{version['name']}.{definition['spec']['group']}")

    def _register(self, name: str, service: Obj | None) -> bool:
        """Make the APIService of a custom group's version, or take it away; True where nothing more is to be done."""
        version, _, group = name.partition(".")
        kinds = self._operations.registry.all()
        served = any(kind.custom is not None and (kind.group, kind.version) == (group, version) for kind in kinds)
        options = Options(user="system:apiserver", field_manager="kube-apiserver")
        if service is None and served:
            self._operations.create(self._kind, "", custom(group, version), options=options)
        elif service is not None and not served and service["metadata"].get("labels") == AUTOMANAGED:
            self._operations.delete(self._kind, "", name, options=options)
            return True
        return service is None

    def _needed(self, service_of: Callable[[Obj], str], event: Event) -> None:
        """Look again at the APIServices that a service belongs to."""
        place = event.object["metadata"]["namespace"], service_of(event.object)
        for service in self._aggregator.remote():
            asked = service["spec"]["service"]
            if (asked["namespace"], asked["name"]) == place:
                self._queue.add(service["metadata"]["name"])

    async def _sync(self, name: str) -> None:
        service = self._store.get(self._kind, "", name)
        if self._register(name, service) or service is None:
            self._waits.pop(name, None)
            return
        remote = bool(service["spec"].get("service"))
        says = (self._prospects(service) or await self._asked(service)) if remote else LOCAL
        self._write(service, says)
        if remote:
            self._queue.add_after(name, self._wait(name, says))

    def _wait(self, name: str, says: Verdict) -> float:
        """Return after how many seconds a server is looked for again."""
        if says == PASSED:
            self._waits.pop(name, None)
            return AGAIN_S
        wait = self._waits.get(name, FIRST_AGAIN_S)
        self._waits[name] = min(wait * 2, AGAIN_S)
        return wait

    def _write(self, service: Obj, says: Verdict) -> None:
        status = service.get("status", {})
        old = condition_of(status, "Available")
        if said(old) == says:
            return
        fresh = renewed(old, "Available", says, self._operations.clock.now())
        written = {**service, "status": {"conditions": replaced(status.get("conditions"), fresh)}}
        options = Options(user="system:apiserver", field_manager="kube-apiserver")
        with tolerating(404):
            self._operations.update(
                self._kind, "", service["metadata"]["name"], written, subresource="status", options=options
            )

    def _prospects(self, service: Obj) -> Verdict | None:
        """Return what stands in the way of asking a server; None where nothing does."""
        registry, asked = self._operations.registry, service["spec"]["service"]
        namespace, name, number = asked["namespace"], asked["name"], asked.get("port", PORT)
        found = self._store.get(registry.by_resource("services"), namespace, name)
        if found is None:
            return "False", "ServiceNotFound", f'service/{name} in "{namespace}" is not present'
        if found["spec"].get("type", "ClusterIP") != "ClusterIP":
            return None
        names = [port.get("name", "") for port in found["spec"].get("ports") or () if port["port"] == number]
        if not names:
            return "False", "ServicePortError", f'service/{name} in "{namespace}" is not listening on port {number}'
        pieces = slices(self._store, registry, namespace, name)
        if not pieces:
            text = f'cannot find endpointslices for service/{name} in "{namespace}"'
            return "False", "EndpointsNotFound", text
        if not any(_serves(piece, names[0]) for piece in pieces):
            text = f'endpointslices for service/{name} in "{namespace}" have no addresses with port name "{names[0]}"'
            return "False", "MissingEndpoints", text
        return None

    async def _asked(self, service: Obj) -> Verdict:
        """Ask a server for its discovery document."""
        spec = service["spec"]
        path = f"/apis/{spec.get('group', '')}/{spec['version']}"
        address, port = self._aggregator.address(service)
        url = f"https://{address}:{port}{path}"
        try:
            answer = await self._aggregator.ask(service, "GET", path, SYSTEM)
        except NetworkError as error:
            why = f'Get "{url}": dial tcp {address}:{port}: {REASONS[error.kind]}'
        else:
            if 200 <= answer.status < 300:
                return PASSED
            why = f"bad status from {url}: {answer.status}"
        return "False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {why}"


def _serves(piece: Obj, port: str) -> bool:
    """Whether an EndpointSlice has somebody who answers on a port of this name."""
    ready = any((item.get("conditions") or {}).get("ready", True) for item in piece.get("endpoints") or ())
    return ready and any((item.get("name") or "") == port for item in piece.get("ports") or ())
