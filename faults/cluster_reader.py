"""Reads of conditions from a cluster whose Prometheus is elsewhere, at an address of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faults.kube.client import Kube
from faults.metrics import PrometheusSource

Obj = dict[str, Any]
Objects = list[Obj]


class ReaderWithPrometheus:
    """A ``faults.checks.Reader``: queries go to the Prometheus that ``connect`` reaches, all else to the cluster."""

    def __init__(self, kube: Kube, connect: Callable[[], PrometheusSource]) -> None:
        self._kube = kube
        self._connect = connect

    def list(self, api_version: str, kind: str, namespace: str = "", label_selector: str = "") -> Objects:
        """Return the objects, whole."""
        return self._kube.list(api_version, kind, namespace, label_selector)

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log."""
        return self._kube.logs(namespace, pod, container, previous, tail_lines)

    def query(self, promql: str) -> Sequence[Any]:
        """Return the series of an instant query, over a connection of its own."""
        source = self._connect()
        try:
            return source.query(promql)
        finally:
            source.close()

    def review_access(self, user: str, attributes: Mapping[str, str]) -> Obj:
        """Return the status of a SubjectAccessReview."""
        return self._kube.review_access(user, attributes)

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page."""
        return self._kube.fetch(namespace, server, path)

    def run_command(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Return exit code and output of a command."""
        return self._kube.run_command(namespace, pod, container, command)

    def secret(self, namespace: str, name: str) -> Obj:
        """Return a Secret."""
        return self._kube.secret(namespace, name)

    def plan(self, namespace: str, root: str) -> Obj:
        """Return what a plan of the toolbox's code would do."""
        return self._kube.plan(namespace, root)

    def cloud_assets(self, project: str) -> Objects:
        """Return what there is in a cloud project."""
        return self._kube.cloud_assets(project)
