"""/metrics: what the API server counts, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kubesim.schema.registry import Registry
from kubesim.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[str, str, str, str, str, str, int]
NAMES = ("verb", "group", "version", "resource", "subresource", "scope", "code")
MOST = 5000


class Metrics:
    """Counts the requests of one cluster."""

    def __init__(self) -> None:
        self._requests: Counter[Labels] = Counter()

    def count(self, labels: Labels) -> None:
        """Count one answered request; what comes after too many kinds of requests is not told apart."""
        known = labels in self._requests or len(self._requests) < MOST
        self._requests[labels if known else ("other", "", "", "", "", "", labels[-1])] += 1

    def text(self, store: Store, registry: Registry) -> str:
        """Return everything, as a scrape reads it."""
        return "\n".join([*self._lines(), *_objects(store, registry), *_build()]) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, group, version, resource, scope, component, and HTTP response code."  # noqa: E501 - upstream's help
        yield "# TYPE apiserver_request_total counter"
        for labels, count in sorted(self._requests.items(), key=str):
            named = ",".join(f'{name}="{value}"' for name, value in sorted(zip(NAMES, labels, strict=True)))
            yield f'apiserver_request_total{{component="apiserver",dry_run="",{named}}} {count}'


def _objects(store: Store, registry: Registry) -> Iterator[str]:
    yield "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check by kind."
    yield "# TYPE apiserver_storage_objects gauge"
    for kind in registry.stored():
        yield f'apiserver_storage_objects{{resource="{kind.resource}"}} {store.count(kind)}'


def _build() -> Iterator[str]:
    yield "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by the version."
    yield "# TYPE kubernetes_build_info gauge"
    yield 'kubernetes_build_info{git_version="v1.34.4",major="1",minor="34"} 1'
