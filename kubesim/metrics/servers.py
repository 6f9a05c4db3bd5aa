"""The servers of monitoring: exporters' pages, and Prometheus itself."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from urllib.parse import parse_qs, urlsplit

import orjson

from kubesim import data
from kubesim.clock import Clock
from kubesim.gpu.board import Board
from kubesim.kubelet.host import Node
from kubesim.metrics import dcgm, discovery, pages, relabel, rules
from kubesim.metrics import node_exporter as nodes
from kubesim.metrics.api import BUILD, Prometheus, active_targets, parse_duration
from kubesim.metrics.discovery import ConfigError, Found, Job, Lister
from kubesim.metrics.exposition import CONTENT_TYPE, Exposed, Family, render
from kubesim.metrics.kube_state import KubeState
from kubesim.metrics.promql.values import NAME, Labels
from kubesim.metrics.scrape import Exporter, Function, Target, constant
from kubesim.network.fabric import HttpServer, Request, Response

API = "/api/v1/"
_TEXT = {"Content-Type": CONTENT_TYPE}
LANDING = b'<!DOCTYPE html>\n<title>Exporter</title>\n<p><a href="/metrics">Metrics</a>\n'
"""The page of an exporter at its root."""


class Page(HttpServer):
    """An exporter: ``/metrics`` shows what ``exporter`` has now."""

    def __init__(self, exporter: Exporter, page: Callable[[], str]) -> None:
        self.exporter = exporter
        self._page = page

    async def respond(self, request: Request) -> Response:
        """Answer ``/metrics`` and the health checks."""
        if request.path == "/metrics":
            return Response(200, self._page().encode(), _TEXT)
        if request.path == "/":
            return Response(200, LANDING, {"Content-Type": "text/html; charset=UTF-8"})
        if request.path in ("/health", "/healthz", "/livez", "/readyz"):
            return Response(200, b"OK")
        return Response(404, b"404 page not found\n")


def dcgm_exporter(board: Callable[[], Board], now: Callable[[], datetime]) -> Page:
    """Return the dcgm-exporter of a node."""

    def page() -> str:
        return render(dcgm.exposed(board(), now()))

    return Page(lambda name, start, end: dcgm.series(board(), name, start, end), page)


def node_exporter(node: Node, now: Callable[[], datetime]) -> Page:
    """Return the node_exporter of a node."""
    found = nodes.NodeExporter(node, now().timestamp())
    return Page(
        lambda name, start, end: found.series(name, now().timestamp()),
        lambda: render(found.exposed(now().timestamp())),
    )


def state_exporter(state: KubeState, kinds: Callable[[], Container[str]]) -> Page:
    """Return the cluster's kube-state-metrics, which sees some kinds of objects."""
    return Page(
        lambda name, start, end: state.series(name, start, end, kinds()), lambda: render(state.exposed(kinds()))
    )


RELOAD = "/-/reload"
OLD = {"/": "query", "/graph": "query", "/classic/graph": "query"}
"""Addresses that lead to another page."""
_HTML, _PLAIN = {"Content-Type": "text/html; charset=utf-8"}, {"Content-Type": "text/plain; charset=utf-8"}
_JSON = {"Content-Type": "application/json"}
_NOT_FOUND = Response(404, b"404 page not found\n", _PLAIN)
_NOT_ALLOWED = Response(405, b"Method Not Allowed\n", _PLAIN)


RETENTION_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer at an address: an exporter, or in Prometheus' words what stands in the way."""

    exporter: Exporter = lambda name, start, end: ()
    error: str = ""


@dataclass
class Monitor:
    """Targets by their address and labels; a refresh brings them up to date with the cluster."""

    objects: Lister
    probe: Callable[[str], Probe]
    """URL -> what answers there now."""
    server: Prometheus = field(default_factory=Prometheus)
    problem: str = ""
    """Reason why the newest configuration was not loaded; the one before it stays in force, as with the real one."""
    _text: str = ""
    _jobs: tuple[Job, ...] = ()
    _known: dict[tuple[str, str, tuple[tuple[str, str], ...]], Target] = field(default_factory=dict)

    def configure(self, text: str, rules_text: str = "", at: float = 0.0) -> None:
        """Load a ``prometheus.yml`` and a rules file at a moment; a bad one changes nothing but ``problem``."""
        try:
            jobs = discovery.load(text, parse_duration)
            groups = rules.load(rules_text, "/etc/prometheus/rules.yml")
        except (ConfigError, rules.RulesError) as error:
            self.problem = self.server.problem = str(error)
            return
        if text != self._text or self.problem:
            self.server.loaded = at
        self.problem, self._jobs, self._text = "", jobs, text
        self.server.config, self.server.problem = text, ""
        self.server.rules.groups = groups

    def find(self) -> list[Found]:
        """Return the targets that the configuration finds in the cluster now."""
        return [*discovery.targets(self._jobs, self.objects)]

    def refresh(self, at: float, targets: list[Found] | None = None) -> None:
        """Take in what was found (or find it): new targets begin, lost ones end, and each is up or down."""
        found = {_key(item): item for item in (self.find() if targets is None else targets)}
        for key, item in found.items():
            if key not in self._known:
                self._known[key] = self._target(item, at)
                self.server.database.targets.append(self._known[key])
        for key in [key for key in self._known if key not in found]:
            self._known.pop(key).until = at
        for target in self._known.values():
            probe = self.probe(target.url)
            target.exporter = probe.exporter if not probe.error else target.exporter
            target.error.set(at, probe.error)
        kept = [target for target in self.server.database.targets if target.until > at - RETENTION_S]
        self.server.database.targets = kept

    def _target(self, item: Found, at: float) -> Target:
        return Target(
            item.labels,
            self.probe(item.url).exporter,
            at,
            url=item.url,
            discovered=item.discovered,
            honor_labels=item.job.honor_labels,
            interval_s=item.job.interval_s,
            keep=lambda labels: relabel.apply(item.job.metric_relabelling, labels),
        )


def _key(item: Found) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    return item.job.name, item.url, tuple(sorted(item.labels.items()))


class PrometheusServer(HttpServer):
    """Prometheus: its API, its pages, its health checks, and how to load its configuration again."""

    def __init__(self, monitor: Monitor, clock: Clock, reload: Callable[[], None]) -> None:
        self._monitor = monitor
        self._clock = clock
        self._reload = reload

    def exporter(self, name: str, start: float, end: float) -> Iterator[Function]:
        """Yield its own series, for one that scrapes it."""
        return own_series(self._monitor.server, name, end)

    async def respond(self, request: Request) -> Response:
        """Answer a request; parameters come in the query or, with POST, in a form."""
        if request.path.startswith(API):
            return self._api(request.path.removeprefix(API), request)
        if request.path == RELOAD:
            return self._load(request.method)
        if request.path in ("/-/healthy", "/-/ready"):
            state = "Healthy" if request.path == "/-/healthy" else "Ready"
            return Response(200, f"Prometheus Server is {state}.\n".encode(), _PLAIN)
        return self._page(request) if request.method in ("GET", "HEAD") else _NOT_ALLOWED

    def _page(self, request: Request) -> Response:
        server, now, query = self._monitor.server, self._clock.now().timestamp(), urlsplit(request.target).query
        if request.path in OLD:
            back = "../" * (request.path.count("/") - 1)
            return Response(302, b"", {"Location": f"{back}{OLD[request.path]}{'?' + query if query else ''}"})
        try:
            parameters = parse_qs(query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError as error:
            return Response(400, f"error parsing form values: {error}\n".encode(), _PLAIN)
        match request.path.removeprefix("/"):
            case "metrics":
                return Response(200, own_page(server, now), _TEXT)
            case "version":
                return Response(200, orjson.dumps(BUILD) + b"\n", _PLAIN)
            case name if name in pages.NAMES:
                return Response(200, pages.page(server, name, parameters, now), _HTML)
        return _NOT_FOUND

    def _load(self, method: str) -> Response:
        if method not in ("POST", "PUT"):
            return Response(405, b"Only POST or PUT requests allowed", _PLAIN)
        if self._monitor.server.flags["web.enable-lifecycle"] != "true":
            return Response(403, b"Lifecycle API is not enabled.", _PLAIN)
        self._reload()
        problem = self._monitor.problem
        return Response(500, f"failed to reload config: {problem}\n".encode(), _PLAIN) if problem else Response()

    def _api(self, path: str, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(204, b"")
        if request.method not in ("GET", "POST"):
            return _NOT_ALLOWED
        form = request.body.decode("utf-8", "replace") if request.method == "POST" else ""
        try:
            parameters = parse_qs(urlsplit(request.target).query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
            for name, values in parse_qs(form, keep_blank_values=True, max_num_fields=MOST_FIELDS).items():
                parameters.setdefault(name, []).extend(values)
        except ValueError as error:
            refused = {"status": "error", "errorType": "bad_data", "error": f"error parsing form values: {error}"}
            return Response(400, orjson.dumps(refused), _JSON)
        status, document = self._monitor.server.answer(path.rstrip("/"), parameters, self._clock.now().timestamp())
        return _NOT_FOUND if status == 404 else Response(status, orjson.dumps(document), _JSON)


MOST_FIELDS = 1000
"""Parameters of one request."""


@cache
def _families() -> dict[str, Family]:
    return {name: Family(name, "gauge", text) for name, text in data.table(__file__, "own.yaml").items()}


def own_lines(server: Prometheus, now: float) -> Iterator[Exposed]:
    """Yield the lines of its own page."""
    pools: dict[str, int] = {}
    for target in active_targets(server, now):
        pool = target.labels.get("job", "")
        pools[pool] = pools.get(pool, 0) + 1
    build = {"branch": BUILD["branch"], "goarch": "amd64", "goos": "linux", "goversion": BUILD["goVersion"]}
    lines: list[tuple[str, Labels, float]] = [
        ("prometheus_build_info", {**build, "revision": BUILD["revision"], "version": BUILD["version"]}, 1.0),
        ("prometheus_config_last_reload_successful", {}, float(not server.problem)),
        ("prometheus_config_last_reload_success_timestamp_seconds", {}, server.loaded),
        ("prometheus_ready", {}, 1.0),
        *(("prometheus_sd_discovered_targets", {"config": k, "name": "scrape"}, float(n)) for k, n in pools.items()),
        *(("prometheus_target_scrape_pool_targets", {"scrape_job": k}, float(n)) for k, n in pools.items()),
        ("prometheus_engine_queries", {}, 0.0),
        *(
            ("prometheus_rule_group_rules", {"rule_group": f"{group.file};{group.name}"}, float(len(group.rules)))
            for group in server.rules.groups
        ),
        ("prometheus_notifications_alertmanagers_discovered", {}, 0.0),
        ("process_start_time_seconds", {}, server.started),
    ]
    return (Exposed(_families()[name], labels, value) for name, labels, value in lines)


def own_series(server: Prometheus, name: str, end: float) -> Iterator[Function]:
    """Yield the series of one of its own metrics ("" for all), for a Prometheus that scrapes it."""
    for line in own_lines(server, end) if name in ("", *_families()) else ():
        if name in ("", line.family.name):
            yield Function({NAME: line.family.name, **line.labels}, constant(line.value))


def own_page(server: Prometheus, now: float) -> bytes:
    """Return its own page."""
    return render(own_lines(server, now)).encode()
