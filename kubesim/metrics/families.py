"""What is known of metrics: their types and texts, as the exporters' pages have them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kubesim.metrics import cadvisor, dcgm, kube_state, node_exporter
from kubesim.metrics.exposition import Family
from kubesim.metrics.promql.values import NAME
from kubesim.metrics.scrape import Target


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
