"""Prometheus' own pages: small pages without scripts, each made when it is asked for.

Whatever comes from a cluster or from who asks is escaped; links are relative, so that they hold behind any proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from kubesim.metrics.api import Prometheus
from kubesim.metrics.promql.values import NAME

MOST_ROWS = 500
NAMES = ("query", "alerts", "targets", "rules", "service-discovery", "config")
_STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_STATES = {"up": "good", "down": "bad", "firing": "bad", "pending": "wait", "ok": "good", "err": "bad"}
Parameters = Mapping[str, Sequence[str]]


def page(server: Prometheus, name: str, parameters: Parameters, now: float) -> bytes:
    """Return a page of ``NAMES``."""
    links = "".join(
        f'<a href="{other}"{" aria-current=page" if other == name else ""}>{other.capitalize().replace("-", " ")}</a>'
        for other in NAMES
    )
    title = name.capitalize().replace("-", " ")
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title} - Prometheus</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<nav><strong>Prometheus</strong>{links}</nav><main><h1>{title}</h1>{_PAGES[name](server, parameters, now)}"
        "</main></body></html>\n"
    )
    return text.encode()


class Markup(str):
    """HTML, which is not escaped."""

    __slots__ = ()


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]], what: str = "Nothing.") -> str:
    """Return a table; cells that are no markup are escaped."""
    found = [
        "".join(f"<td>{cell if isinstance(cell, Markup) else escape(str(cell))}</td>" for cell in row) for row in rows
    ]
    if not found:
        return f"<p>{escape(what)}</p>"
    shown = "".join(f"<tr>{row}</tr>" for row in found[:MOST_ROWS])
    more = f"<p>{len(found) - MOST_ROWS} more are not shown.</p>" if len(found) > MOST_ROWS else ""
    return f"<table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>{shown}</table>{more}"


def _state(word: str) -> Markup:
    return Markup(f'<strong class="{_STATES.get(word, "")}">{escape(word)}</strong>')


def _code(text: object) -> Markup:
    return Markup(f"<code>{escape(str(text))}</code>")


def _labelled(labels: Mapping[str, str]) -> Markup:
    """Return labels as a selector would have them."""
    inner = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != NAME)
    return _code(f"{labels.get(NAME, '')}{{{inner}}}")


def _ask(server: Prometheus, path: str, now: float, **parameters: str) -> Any:
    """Return what the API has to say, or its words where it refuses."""
    status, document = server.answer(path, {name: [text] for name, text in parameters.items() if text}, now)
    return document["data"] if status == 200 else str(document["error"])


def _query(server: Prometheus, parameters: Parameters, now: float) -> str:
    text = next(iter(parameters.get("g0.expr") or parameters.get("query") or ()), "")
    at = next(iter(parameters.get("g0.moment_input") or ()), "")
    form = (
        f'<form action="query"><p><label>Expression<br><textarea name="g0.expr" rows="3" autofocus>{escape(text)}'
        "</textarea></label></p><p><label>At (RFC 3339 or seconds; empty is now) "
        f'<input name="g0.moment_input" value="{escape(at, quote=True)}"></label> <button>Execute</button></p></form>'
    )
    if not text.strip():
        return form
    found = _ask(server, "query", now, query=text, time=at)
    if isinstance(found, str):
        return f'{form}<p class="bad" role="alert">{escape(found)}</p>'
    kind, result = found["resultType"], found["result"]
    if kind in ("scalar", "string"):
        return f"{form}<p>{kind}: <code>{escape(str(result[1]))}</code></p>"
    rows = ((_labelled(item["metric"]), _values(item)) for item in result)
    return f"{form}<p>{len(result)} series</p>{_table(('Series', 'Value'), rows, 'Empty query result')}"


def _values(item: Mapping[str, Any]) -> str:
    if "value" in item:
        return str(item["value"][1])
    return " ".join(f"{value} @{at}" for at, value in item["values"][-50:])


def _targets(server: Prometheus, parameters: Parameters, now: float) -> str:
    pools: dict[str, list[dict[str, Any]]] = {}
    for target in _ask(server, "targets", now)["activeTargets"]:
        pools.setdefault(target["scrapePool"], []).append(target)
    parts = []
    for pool, found in pools.items():
        up = sum(target["health"] == "up" for target in found)
        rows = (
            (
                each["scrapeUrl"],
                _state(each["health"]),
                _labelled(each["labels"]),
                each["lastScrape"],
                each["lastError"],
            )
            for each in found
        )
        heads = ("Endpoint", "State", "Labels", "Last scrape", "Error")
        parts.append(f"<h2>{escape(pool)} ({up}/{len(found)} up)</h2>{_table(heads, rows)}")
    return "".join(parts) or "<p>No targets.</p>"


def _discovery(server: Prometheus, parameters: Parameters, now: float) -> str:
    rows = (
        (target["scrapePool"], _labelled(target["discoveredLabels"]), _labelled(target["labels"]))
        for target in _ask(server, "targets", now)["activeTargets"]
    )
    return _table(("Job", "Discovered labels", "Target labels"), rows, "No targets.")


def _alerts(server: Prometheus, parameters: Parameters, now: float) -> str:
    rules = (rule for group in _ask(server, "rules", now)["groups"] for rule in group["rules"])
    alerting = [rule for rule in rules if rule["type"] == "alerting"]
    rows = []
    for rule in sorted(alerting, key=lambda each: ("firing", "pending", "inactive").index(each["state"])):
        rows.append((rule["name"], _state(rule["state"]), _code(rule["query"]), "", ""))
        for alert in rule["alerts"]:
            shown = _labelled(alert["labels"])
            rows.append(("", _state(alert["state"]), shown, alert["activeAt"], alert["value"]))
    return _table(("Alert", "State", "Expression or labels", "Active since", "Value"), rows, "No alerting rules.")


def _rules(server: Prometheus, parameters: Parameters, now: float) -> str:
    parts = []
    for group in _ask(server, "rules", now)["groups"]:
        rows = (
            (
                f"{rule['type']} {rule['name']}", _code(rule["query"]),
                f"{rule['duration']:g}s" if rule.get("duration") else "", _state(rule["health"]), rule["lastError"],
            )
            for rule in group["rules"]
        )  # fmt: skip
        heads = ("Rule", "Expression", "For", "State", "Error")
        parts.append(f"<h2>{escape(group['name'])} ({escape(group['file'])})</h2>{_table(heads, rows)}")
    return "".join(parts) or "<p>No rules.</p>"


def _config(server: Prometheus, parameters: Parameters, now: float) -> str:
    problem = f'<p class="bad" role="alert">The configuration was not loaded: {escape(server.problem)}</p>'
    return f"{problem if server.problem else ''}<pre>{escape(server.config)}</pre>"


_PAGES: dict[str, Callable[[Prometheus, Parameters, float], str]] = {
    "query": _query,
    "alerts": _alerts,
    "targets": _targets,
    "rules": _rules,
    "service-discovery": _discovery,
    "config": _config,
}
