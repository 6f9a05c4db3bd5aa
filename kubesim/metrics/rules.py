"""Recording and alerting rules: groups as a rules file has them, evaluated when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import yaml

from kubesim import data
from kubesim.metrics.promql import engine
from kubesim.metrics.promql.values import NAME, Labels, QueryError, Sample, number
from kubesim.metrics.scrape import Database

INTERVAL_S = 60.0
MOST_HELD = 10_000
_PLACE = re.compile(r"\{\{\s*(?:\$labels\.(\w+)|\$(value)|(?:\$value)\s*\|\s*(?:humanize|printf [^}]*))\s*\}\}")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


class RulesError(Exception):
    """A rules file that cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: an alert with its ``for`` in seconds, or a recorded series."""

    name: str
    expr: str
    alerting: bool
    for_s: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together."""

    name: str
    file: str
    interval_s: float
    rules: tuple[Rule, ...]


@dataclass
class Rules:
    """All groups of a server."""

    groups: tuple[Group, ...] = ()

    def described(self, source: Database, now: float) -> list[dict[str, Any]]:
        """Return the groups as ``/api/v1/rules`` shows them."""
        return [
            {
                "name": group.name,
                "file": group.file,
                "interval": group.interval_s,
                "limit": 0,
                "rules": [_described(rule, group, source, now) for rule in group.rules],
                "evaluationTime": 0.001,
                "lastEvaluation": moment(now),
            }
            for group in self.groups
        ]

    def alerts(self, source: Database, now: float) -> list[dict[str, Any]]:
        """Return the pending and firing alerts as ``/api/v1/alerts`` shows them."""
        pairs = [(group, rule) for group in self.groups for rule in group.rules if rule.alerting]
        return [alert for group, rule in pairs for alert in _alerts(rule, group, source, now)]


@lru_cache(maxsize=16)
def load(text: str, file: str) -> tuple[Group, ...]:
    """Return the groups of a rules file. Raises RulesError."""
    try:
        document = data.parse_sent(text)
        return tuple(_group(entry, file) for entry in (document or {}).get("groups", ()))
    except yaml.YAMLError as error:
        raise RulesError(f"{file}: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise RulesError(f"{file}: a group needs name and rules, a rule needs expr and alert or record") from error


def _group(entry: dict[str, Any], file: str) -> Group:
    interval = _seconds(entry["interval"]) if "interval" in entry else INTERVAL_S
    return Group(entry["name"], file, interval, tuple(_rule(rule, file) for rule in entry["rules"]))


def _rule(entry: dict[str, Any], file: str) -> Rule:
    try:
        engine.parse(str(entry["expr"]))
    except QueryError as error:
        raise RulesError(f"{file}: {entry.get('alert') or entry.get('record')}: {error}") from error
    return Rule(
        name=entry.get("alert") or entry["record"],
        expr=str(entry["expr"]),
        alerting="alert" in entry,
        for_s=_seconds(entry.get("for", "0s")),
        labels=entry.get("labels") or {},
        annotations=entry.get("annotations") or {},
    )


def _seconds(text: object) -> float:
    parts = re.findall(r"(\d+)(ms|[smhdwy])", str(text))
    return float(sum(int(count) * _UNITS[unit] for count, unit in parts))


def _described(rule: Rule, group: Group, source: Database, now: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": rule.name,
        "query": rule.expr,
        "labels": dict(rule.labels),
        "health": "ok",
        "lastError": "",
        "type": "alerting" if rule.alerting else "recording",
        "evaluationTime": 0.001,
        "lastEvaluation": moment(now),
    }
    if not rule.alerting:
        return found
    try:
        alerts = _alerts(rule, group, source, now)
    except QueryError as error:
        return found | {"health": "err", "lastError": str(error), "state": "inactive", "alerts": []}
    states = {alert["state"] for alert in alerts}
    state = "firing" if "firing" in states else "pending" if states else "inactive"
    more = {"duration": rule.for_s, "annotations": dict(rule.annotations), "alerts": alerts, "state": state}
    return found | more


def _alerts(rule: Rule, group: Group, source: Database, now: float) -> list[dict[str, Any]]:
    """Return the alerts of a rule: how long each has held is found by evaluating it at its earlier turns."""
    vector = engine.instant(source, rule.expr, now)
    if isinstance(vector, (float, str)):
        return []
    return [_alert(rule, group, source, sample, now) for sample in vector if isinstance(sample, Sample)]


def _alert(rule: Rule, group: Group, source: Database, sample: Sample, now: float) -> dict[str, Any]:
    since = _since(rule, group, source, sample.labels, now)
    labels = {name: value for name, value in sample.labels.items() if name != NAME}
    named = {**labels, **rule.labels, "alertname": rule.name}
    return {
        "labels": named,
        "annotations": {key: _filled(text, labels, sample.value) for key, text in rule.annotations.items()},
        "state": "firing" if now - since >= rule.for_s else "pending",
        "activeAt": moment(since),
        "value": number(sample.value),
    }


def _since(rule: Rule, group: Group, source: Database, labels: Labels, now: float) -> float:
    """Return since when an alert holds: looked back to when that was known, or by its ``for`` and an hour more."""
    since, at, alert = now, now, (rule.expr, *sorted(labels.items()))
    known, known_at = source.held.get(alert, (now, now))
    while at > now - rule.for_s - 3600:
        at -= group.interval_s
        if at <= known_at < now:
            since = known
            break
        vector = engine.instant(source, rule.expr, at)
        if isinstance(vector, (float, str)) or all(sample.labels != labels for sample in vector):
            break
        since = at
    if len(source.held) >= MOST_HELD:
        source.held.clear()  # what is forgotten is looked for again
    source.held[alert] = since, now
    return since


def _filled(text: str, labels: Labels, value: float) -> str:
    return _PLACE.sub(lambda match: labels.get(match[1], "") if match[1] else number(value), str(text))


def moment(at: float) -> str:
    """Return a moment as Prometheus' pages have it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
