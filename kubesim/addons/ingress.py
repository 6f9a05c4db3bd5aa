"""ingress-nginx: answers on its ports what the Ingress objects of its class say, in nginx's words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import regex

from kubesim.addons.operator import Operator
from kubesim.controllers.base import Context, Controller
from kubesim.errors import ApiError, Obj
from kubesim.kubelet.duties import Post
from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.network.gate import Gate
from kubesim.shell.errors import NetworkError

CLASS, CONTROLLER = "nginx", "k8s.io/ingress-nginx"
OLD_CLASS = "kubernetes.io/ingress.class"
NOTES = "nginx.ingress.kubernetes.io/"
PORTS = (80, 443)
REASONS = {
    404: "404 Not Found",
    502: "502 Bad Gateway",
    503: "503 Service Temporarily Unavailable",
    504: "504 Gateway Time-out",
}
PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
MATCH_S = 0.05
"""Seconds after which an expression is given up."""
FAILURES = {"refused": 502, "reset": 502, "unreachable": 502, "timeout": 504}


@dataclass(frozen=True, slots=True)
class Route:
    """One path of an ingress; ``exact`` ones come before prefixes, longer ones before shorter."""

    ingress: Obj
    path: str
    exact: bool
    backend: Obj

    def fits(self, path: str) -> bool:
        """Whether a request's path is this one's."""
        if self._regex:
            return self._match(path) is not None
        whole = self.path.rstrip("/")
        return path == self.path if self.exact else path.rstrip("/") == whole or path.startswith(whole + "/")

    def rewritten(self, target: str) -> str:
        """Return the path and query that the backend is asked for."""
        wanted = self._note("rewrite-target")
        if not wanted:
            return target
        path, mark, query = target.partition("?")
        if "$" in wanted:
            found = self._match(path)
            groups = found.groups() if found else ()
            wanted = re.sub(
                r"\$(\d)", lambda m: (groups[int(m[1]) - 1] or "") if int(m[1]) <= len(groups) else "", wanted
            )
        return wanted + mark + query

    def _match(self, path: str) -> regex.Match[str] | None:
        """Return what the path's expression finds; one that is none, or that takes too long, finds nothing."""
        try:
            return regex.match(self.path, path, timeout=MATCH_S)
        except (regex.error, TimeoutError):
            return None

    @property
    def _regex(self) -> bool:
        return self._note("use-regex") == "true" or "$" in self._note("rewrite-target")

    def _note(self, name: str) -> str:
        return str((self.ingress["metadata"].get("annotations") or {}).get(NOTES + name, ""))


class IngressController(Controller, HttpServer):
    """Knows the ingresses and answers for them."""

    source = "nginx-ingress-controller"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._post = post
        self._ingresses = self.informers["ingresses.networking.k8s.io"]
        self._classes = self.informers["ingressclasses.networking.k8s.io"]
        self._services = self.informers["services"]
        self._endpoints = self.informers["endpoints"]
        self._gate = Gate(post.client, post.fabric, post.address)

    def listen(self) -> None:
        """Watch the ingresses and open the ports."""
        self.watch_own(self._ingresses)
        for port in PORTS:
            self._post.listen(port, self)

    async def sync(self, namespace: str, name: str) -> None:
        """Note in an ingress's status where it is served."""
        found = self._ingresses.get(namespace, name)
        if found is None or not self._mine(found):
            return
        node = await self.client.get("nodes", self._post.node)
        addresses = {item["type"]: item["address"] for item in node["status"]["addresses"]}
        wanted = [{"ip": addresses.get("ExternalIP", addresses["InternalIP"])}]
        if ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") == wanted:
            return
        status = {"loadBalancer": {"ingress": wanted}}
        try:
            await self.client.patch(
                self._ingresses.resource, name, namespace, {"status": status}, subresource="status"
            )
        except ApiError as error:
            if error.code != 404:
                raise
            return
        await self.recorder.normal(found, "Sync", "Scheduled for sync")

    async def respond(self, request: Request) -> Response:
        """Answer a request as the first ingress says that has its host and path."""
        if request.path == "/healthz" and request.headers.get("user-agent", "").startswith("kube-probe"):
            return Response(200)
        host = request.headers.get("host", "").partition(":")[0].lower()
        route = next((item for item in self._routes(host) if item.fits(request.path)), None)
        if route is None:
            return _page(404)
        place = self._place(route)
        if place is None:
            return _page(503)
        try:
            if not await self._gate.opens(*place):
                raise NetworkError("timeout")
            server = self._post.fabric.find(*place)
            return await server.respond(
                replace(request, target=route.rewritten(request.target), source=self._post.address)
            )
        except NetworkError as error:
            return _page(FAILURES.get(error.kind, 502))

    def _routes(self, host: str) -> list[Route]:
        """Return the paths of a host, in nginx's order: its own name before a wildcard before all."""
        found: list[tuple[tuple[int, bool, int], Route]] = []
        for ingress in filter(self._mine, self._ingresses.items()):
            for rule in ingress["spec"].get("rules") or ():
                rank = _rank(rule.get("host", ""), host)
                for path in (rule.get("http") or {}).get("paths") or () if rank is not None else ():
                    route = Route(ingress, path.get("path") or "/", path.get("pathType") == "Exact", path["backend"])
                    found.append(((rank or 0, not route.exact, -len(route.path)), route))
            if default := ingress["spec"].get("defaultBackend"):
                found.append(((9, True, 0), Route(ingress, "/", False, default)))
        return [route for _, route in sorted(found, key=lambda item: item[0])]

    def _mine(self, ingress: Obj) -> bool:
        notes = ingress["metadata"].get("annotations") or {}
        name = ingress["spec"].get("ingressClassName") or notes.get(OLD_CLASS)
        known = self._classes.get("", str(name)) if name else None
        return (known is not None and known["spec"].get("controller") == CONTROLLER) or notes.get(OLD_CLASS) == CLASS

    def _place(self, route: Route) -> tuple[str, int] | None:
        """Return a pod behind a route; None where there is none that is ready."""
        wanted = route.backend.get("service") or {}
        key = route.ingress["metadata"]["namespace"], wanted.get("name", "")
        service, endpoints = self._services.get(*key), self._endpoints.get(*key)
        if service is None or endpoints is None:
            return None
        port = wanted.get("port") or {}
        for item in service["spec"].get("ports") or ():
            if item["port"] == port.get("number") or (port.get("name") and item.get("name") == port["name"]):
                places = _places(endpoints, item.get("name", ""))
                return self._post.fabric.next_of(places) if places else None
        return None


def _rank(wanted: str, host: str) -> int | None:
    if wanted == host and wanted:
        return 0
    if wanted.startswith("*.") and host.partition(".")[2] == wanted[2:]:
        return 1
    return 2 if not wanted else None


def _places(endpoints: Obj, name: str) -> list[tuple[str, int]]:
    return [
        (address["ip"], port["port"])
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
        if port.get("name", "") == name
    ]


def _page(status: int) -> Response:
    return Response(status, PAGE.format(REASONS[status]).encode(), {"Content-Type": "text/html"})


def begin(post: Post) -> Operator:
    """Begin to answer."""
    return Operator(post, IngressController)
