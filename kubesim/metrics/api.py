"""The Prometheus HTTP API (v1) over a database of targets: paths and parameters to a status and a JSON document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import promql_parser as ast

from kubesim.metrics.exposition import Family
from kubesim.metrics.promql import engine
from kubesim.metrics.promql.values import NAME, Match, QueryError, Value, Window, number
from kubesim.metrics.rules import Rules
from kubesim.metrics.scrape import Database, Target

VERSION = "3.5.0"
STATUS = {"bad_data": 400, "execution": 422, "not_found": 404}
SPAN_S = 300.0
"""How far back series, labels and metadata look where no start is given."""
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_SECONDS = (365 * 86400, 7 * 86400, 86400, 3600, 60, 1, 0.001)
Parameters = Mapping[str, Sequence[str]]
Answer = tuple[int, dict[str, Any]]


@dataclass
class Prometheus:
    """What one server knows: its targets, its rules, and what its exporters say of their metrics."""

    database: Database = field(default_factory=Database)
    rules: Rules = field(default_factory=Rules)
    families: Callable[[], Iterable[Family]] = tuple
    config: str = "global:\n  scrape_interval: 15s\n"

    def answer(self, path: str, parameters: Parameters, now: float) -> Answer:
        """Return status and document for a path below ``/api/v1/``."""
        request = _Request(self, parameters, now)
        try:
            if match := re.fullmatch(r"label/([a-zA-Z_][a-zA-Z0-9_]*)/values", path):
                return 200, {"status": "success", "data": _values(request, match[1])}
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
        if not text and default is not None:
            return default
        return parse_time(text, name)

    def matches(self, *, needed: bool) -> list[list[Match]]:
        selectors = self.parameters.get("match[]", ())
        if needed and not selectors:
            raise QueryError("bad_data", "no match[] parameter provided")
        return [_selector(text) for text in selectors]


def parse_time(text: str, name: str) -> float:
    """Return seconds since the epoch of a number or an RFC 3339 time. Raises QueryError."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError as error:
        cause = f'cannot parse "{text}" to a valid timestamp'
        raise QueryError("bad_data", f'invalid parameter "{name}": {cause}') from error


def parse_duration(text: str, name: str) -> float:
    """Return the seconds of a number or a duration such as 1h30m. Raises QueryError."""
    try:
        return float(text)
    except ValueError:
        match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise QueryError("bad_data", f'invalid parameter "{name}": cannot parse "{text}" to a valid duration')
    return sum(int(count or 0) * seconds for count, seconds in zip(match.groups(), _SECONDS, strict=True))


def _query(request: _Request) -> dict[str, Any]:
    at = request.time("time", request.now)
    return shaped(engine.instant(request.server.database, request.one("query"), at), at)


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
    vector = [{"metric": dict(s.labels), "value": [at, number(s.value)]} for s in value]  # type: ignore[union-attr]
    return {"resultType": "vector", "result": vector}


def _series(window: Window) -> dict[str, Any]:
    return {"metric": dict(window.labels), "values": [[at, number(value)] for at, value in window.points]}


def _selector(text: str) -> list[Match]:
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
            if series.points(max(start, end - 86400), end):
                found[tuple(sorted(series.labels.items()))] = dict(series.labels)
    return list(found.values())


_EVERY = [[Match(NAME, "!=", "")]]


def _labels(request: _Request) -> list[str]:
    found = _found(request, request.matches(needed=False) or _EVERY)
    return sorted({name for labels in found for name in labels})


def _values(request: _Request, name: str) -> list[str]:
    found = _found(request, request.matches(needed=False) or _EVERY)
    return sorted({labels[name] for labels in found if name in labels})


def _metadata(request: _Request) -> dict[str, Any]:
    wanted = request.one("metric")
    return {
        family.name: [{"type": family.type, "help": family.help, "unit": ""}]
        for family in request.server.families()
        if wanted in ("", family.name)
    }


def _targets(request: _Request) -> dict[str, Any]:
    known = [target for target in request.server.database.targets if target.until > request.now]
    active = [_target(target, request.now) for target in known]
    return {"activeTargets": active, "droppedTargets": [], "droppedTargetCounts": {}}


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
        "lastScrape": _stamp(scraped) if seen else "0001-01-01T00:00:00Z",
        "lastScrapeDuration": 0.004,
        "health": ("up" if target.up(scraped) else "down") if seen else "unknown",
        "scrapeInterval": f"{target.interval_s:g}s",
        "scrapeTimeout": "10s",
    }


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rules(request: _Request) -> dict[str, Any]:
    return {"groups": request.server.rules.described(request.server.database, request.now)}


def _alerts(request: _Request) -> dict[str, Any]:
    return {"alerts": request.server.rules.alerts(request.server.database, request.now)}


def _build(request: _Request) -> dict[str, str]:
    return {"version": VERSION, "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": ""}


_HANDLERS: dict[str, Callable[[_Request], Any]] = {
    "query": _query,
    "query_range": _query_range,
    "series": lambda request: _found(request, request.matches(needed=True)),
    "labels": _labels,
    "metadata": _metadata,
    "targets": _targets,
    "rules": _rules,
    "alerts": _alerts,
    "status/buildinfo": _build,
    "status/config": lambda request: {"yaml": request.server.config},
}
