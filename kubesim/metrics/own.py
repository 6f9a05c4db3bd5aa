"""The metrics of a Prometheus itself (/metrics)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kubesim import data
from kubesim.metrics.api import BUILD, Prometheus, active_targets
from kubesim.metrics.exposition import Exposed, Family, render
from kubesim.metrics.promql.values import NAME, Labels
from kubesim.metrics.scrape import Function, constant

_FILE = Path(__file__).with_name("own.yaml")


@cache
def _families() -> dict[str, Family]:
    return {name: Family(name, "gauge", text) for name, text in data.read(_FILE).items()}


def exposed(server: Prometheus, now: float) -> Iterator[Exposed]:
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


def series(server: Prometheus, name: str, end: float) -> Iterator[Function]:
    """Yield the series of one of its own metrics ("" for all), for a Prometheus that scrapes it."""
    for line in exposed(server, end) if name in ("", *_families()) else ():
        if name in ("", line.family.name):
            yield Function({NAME: line.family.name, **line.labels}, constant(line.value))


def page(server: Prometheus, now: float) -> bytes:
    """Return its own page."""
    return render(exposed(server, now)).encode()
