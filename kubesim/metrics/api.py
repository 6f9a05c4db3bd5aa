"""The Prometheus HTTP API (v1) over a database of targets: paths and parameters to a status and a JSON document."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import unquote

import promql_parser as ast

from kubesim import data
from kubesim.metrics import cadvisor, dcgm, kube_state, node_exporter
from kubesim.metrics.exposition import Family
from kubesim.metrics.promql import engine
from kubesim.metrics.promql.values import LABEL, NAME, Match, QueryError, Value, Window, number, quoted
from kubesim.metrics.rules import Rules, moment
from kubesim.metrics.scrape import Database, Target

_FACTS: dict[str, dict[str, Any]] = data.table(__file__, "prometheus.yaml")
BUILD, FLAGS = _FACTS["build"], _FACTS["flags"]
FURTHEST_S = 2.0**63 / 1000
"""As far from 1970 as milliseconds are counted."""
STATUS = {"bad_data": 400, "execution": 422, "not_found": 404}
SPAN_S = 300.0
"""How far back series, labels and metadata look where no start is given."""
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_SECONDS = (365 * 86400, 7 * 86400, 86400, 3600, 60, 1, 0.001)
Parameters = Mapping[str, Sequence[str]]
Answer = tuple[int, dict[str, Any]]


@dataclass
class Prometheus:
    """What one server knows: its targets, its rules, its configuration, and how it was started."""

    database: Database = field(default_factory=Database)
    rules: Rules = field(default_factory=Rules)
    config: str = "global:\n  scrape_interval: 15s\n"
    problem: str = ""
    """Why its newest configuration was not loaded."""
    loaded: float = 0.0
    """When it last loaded one."""
    started: float = 0.0
    flags: Mapping[str, str] = field(default_factory=lambda: dict(FLAGS))

    def answer(self, path: str, parameters: Parameters, now: float) -> Answer:
        """Return status and document for a path below ``/api/v1/``."""
        request = _Request(self, parameters, now)
        try:
            if match := re.fullmatch(r"label/([^/]+)/values", path):
                return 200, {"status": "success", "data": _values(request, unquote(match[1]))}
            handler = _HANDLERS.get(path)
            if handler is None:
                raise QueryError("not_found", f"no such path: /api/v1/{path}")
            return 200, {"status": "success", "data": handler(request)}
        except QueryError as error:
            return STATUS[error.kind], {"status": "error", "errorType": error.kind, "error": str(error)}


@dataclass(frozen=True)
class _Request:
    server: Prometheus
    parameters: Parameters
    now: float

    def one(self, name: str) -> str:
        return next(iter(self.parameters.get(name, ())), "")

    def time(self, name: str, default: float | None = None) -> float:
        text = self.one(name)
        if default is None:
            return parse_time(text, f'invalid parameter "{name}": ')
        return (
            parse_time(text, f"invalid parameter \"{name}\": Invalid time value for '{name}': ") if text else default
        )

    def count(self, name: str) -> int:
        """Return a limit; -1 where none is given. Raises QueryError."""
        text = self.one(name)
        try:
            return int(text) if text else -1
        except ValueError as error:
            raise QueryError("bad_data", f"{name} must be a number") from error

    def matches(self, *, needed: bool) -> list[list[Match]]:
        selectors = self.parameters.get("match[]", ())
        if needed and not selectors:
            raise QueryError("bad_data", "no match[] parameter provided")
        return [selector(text) for text in selectors]


def parse_time(text: str, where: str) -> float:
    """Return seconds since the epoch of a number or an RFC 3339 time. Raises QueryError, whose words begin ``where``.

    What cannot be counted in milliseconds is the first or the last moment that can.
    """
    try:
        found = float(text)
    except ValueError:
        found = _rfc3339(text, where)
    return -FURTHEST_S if math.isnan(found) else max(min(found, FURTHEST_S), -FURTHEST_S)


def _rfc3339(text: str, where: str) -> float:
    try:
        if "T" in text:
            return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        pass
    raise QueryError("bad_data", f"{where}cannot parse {quoted(text)} to a valid timestamp")


def parse_duration(text: str, name: str) -> float:
    """Return the seconds of a number or a duration such as 1h30m. Raises QueryError."""
    words = f'invalid parameter "{name}": cannot parse {quoted(text)} to a valid duration'
    try:
        found = float(text)
    except ValueError:
        match = _DURATION.fullmatch(text)
    else:
        if not math.isfinite(found) or abs(found) > FURTHEST_S / 1e6:
            raise QueryError("bad_data", f"{words}. It overflows int64" if math.isfinite(found) else words)
        return found
    if not text or match is None:
        raise QueryError("bad_data", words)
    return sum(int(count or 0) * seconds for count, seconds in zip(match.groups(), _SECONDS, strict=True))


def _query(request: _Request) -> dict[str, Any]:
    at = request.time("time", request.now)
    if request.one("timeout"):
        parse_duration(request.one("timeout"), "timeout")
    query = request.one("query")
    found = shaped(engine.instant(request.server.database, query, at), at)
    if found["resultType"] == "vector" and engine.kind(engine.parse(query)) == "range vector":
        return {"resultType": "matrix", "result": []}
    return found


def _query_range(request: _Request) -> dict[str, Any]:
    start, end = request.time("start"), request.time("end")
    step = parse_duration(request.one("step"), "step")
    found = engine.ranged(request.server.database, request.one("query"), start, end, step)
    return {"resultType": "matrix", "result": [_series(window) for window in found]}


def shaped(value: Value, at: float) -> dict[str, Any]:
    """Return a value as ``resultType`` and ``result``."""
    if isinstance(value, float):
        return {"resultType": "scalar", "result": [at, number(value)]}
    if isinstance(value, str):
        return {"resultType": "string", "result": [at, value]}
    if value and isinstance(value[0], Window):
        return {"resultType": "matrix", "result": [_series(window) for window in value]}
    vector = [{"metric": dict(sorted(s.labels.items())), "value": [at, number(s.value)]} for s in value]  # type: ignore[union-attr]
    return {"resultType": "vector", "result": vector}


def _series(window: Window) -> dict[str, Any]:
    return {
        "metric": dict(sorted(window.labels.items())),
        "values": [[at, number(value)] for at, value in window.points],
    }


def selector(text: str) -> list[Match]:
    """Return the matchers of a selector. Raises QueryError."""
    tree = engine.parse(text)
    if not isinstance(tree, ast.VectorSelector):
        raise QueryError("bad_data", f'invalid parameter "match[]": {text} is not a selector')
    return engine.matches(tree)


def _found(request: _Request, matches: list[list[Match]]) -> list[dict[str, str]]:
    end = request.time("end", request.now)
    start = request.time("start", end - SPAN_S)
    found: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for wanted in matches:
        for series in request.server.database.select(wanted, start, end):
            if series.last(end, end - start) or series.points(max(start, end - 86400), end):
                key = tuple(sorted(series.labels.items()))
                found[key] = dict(key)
    return list(found.values())


_EVERY = [[Match(NAME, "!=", "")]]


def _labels(request: _Request) -> list[str]:
    found = _found(request, request.matches(needed=False) or _EVERY)
    return sorted({name for labels in found for name in labels})


def _values(request: _Request, name: str) -> list[str]:
    if not LABEL.fullmatch(name):
        raise QueryError("bad_data", f"invalid label name: {quoted(name)}")
    found = _found(request, request.matches(needed=False) or _EVERY)
    return sorted({labels[name] for labels in found if name in labels})


def _metadata(request: _Request) -> dict[str, Any]:
    wanted, most = request.one("metric"), request.count("limit")
    request.count("limit_per_metric")
    found: dict[str, list[dict[str, str]]] = {}
    for target in active_targets(request.server, request.now):
        for family in exposed_by(target, request.now):
            if wanted in ("", family.name) and (most < 0 or len(found) < most):
                found.setdefault(family.name, [{"type": family.type, "unit": "", "help": family.help}])
    return found


def _targets(request: _Request) -> dict[str, Any]:
    pool, state = request.one("scrapePool"), request.one("state") or "any"
    active = [_target(target, request.now) for target in active_targets(request.server, request.now)]
    wanted = [found for found in active if pool in ("", found["scrapePool"])] if state in ("any", "active") else []
    return {"activeTargets": wanted, "droppedTargets": [], "droppedTargetCounts": {}}


def active_targets(server: Prometheus, now: float) -> list[Target]:
    """Return what is scraped now."""
    return [target for target in server.database.targets if target.until > now]


def _target(target: Target, now: float) -> dict[str, Any]:
    scraped = target.scrape_before(now)
    seen = scraped >= target.since
    return {
        "discoveredLabels": target.discovered,
        "labels": target.labels,
        "scrapePool": target.labels.get("job", ""),
        "scrapeUrl": target.url,
        "globalUrl": target.url,
        "lastError": (target.error.at(scraped) or "") if seen else "",
        "lastScrape": moment(scraped) if seen else "0001-01-01T00:00:00Z",
        "lastScrapeDuration": 0.004,
        "health": ("up" if target.up(scraped) else "down") if seen else "unknown",
        "scrapeInterval": f"{target.interval_s:g}s",
        "scrapeTimeout": "10s",
    }


def _rules(request: _Request) -> dict[str, Any]:
    groups, kind = request.server.rules.described(request.server.database, request.now), request.one("type")
    kinds = {"": "", "alert": "alerting", "record": "recording"}
    if kind not in kinds:
        raise QueryError("bad_data", f'invalid parameter "type": not supported value {quoted(kind)}')
    for group in groups if kind else ():
        group["rules"] = [rule for rule in group["rules"] if rule["type"] == kinds[kind]]
    return {"groups": [group for group in groups if group["rules"] or not kind]}


def _alerts(request: _Request) -> dict[str, Any]:
    return {"alerts": request.server.rules.alerts(request.server.database, request.now)}


def runtime(server: Prometheus, now: float) -> dict[str, Any]:
    """Return what ``/api/v1/status/runtimeinfo`` tells."""
    times = {"startTime": server.started, "serverTime": now, "lastConfigTime": server.loaded}
    own = {
        "reloadConfigSuccess": not server.problem,
        "goroutineCount": 41 + 2 * len(active_targets(server, now)),
        "storageRetention": server.flags["storage.tsdb.retention.time"],
    }
    return {name: moment(at) for name, at in times.items()} | _FACTS["runtime"] | own


_HANDLERS: dict[str, Callable[[_Request], Any]] = {
    "query": _query,
    "query_range": _query_range,
    "series": lambda request: _found(request, request.matches(needed=True)),
    "labels": _labels,
    "metadata": _metadata,
    "targets": _targets,
    "rules": _rules,
    "alerts": _alerts,
    "status/buildinfo": lambda request: BUILD,
    "status/runtimeinfo": lambda request: runtime(request.server, request.now),
    "status/flags": lambda request: dict(sorted(request.server.flags.items())),
    "status/config": lambda request: {"yaml": request.server.config},
}


def exposed_by(target: Target, at: float) -> Iterator[Family]:
    """Yield the families that a target exposes at a moment, those of its last scrape that went well."""
    if target.up(at):
        for name in dict.fromkeys(function.labels[NAME] for function in target.exporter("", at, at)):
            yield family(name)


@cache
def family(name: str) -> Family:
    """Return what is known of a metric."""
    return _known().get(name) or node_exporter.family(name) or kube_state.family(name)


@cache
def _known() -> dict[str, Family]:
    found = {name: counter.family for name, counter in dcgm.counters().items()}
    tables = (cadvisor.CONTAINERS, cadvisor.LIMITED, cadvisor.PODS, cadvisor.MACHINE)
    texts = {name: text for table in tables for name, (text, _) in table.items()}
    return found | {name: Family(name, cadvisor.kind(name), text) for name, text in texts.items()}
