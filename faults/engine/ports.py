"""Ports of the engine to the world: a cluster and a journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from faults.engine.model import CommandLimits, PatchType, Record, Reply, Request

Obj = dict[str, Any]


class ResourceLike(Protocol):
    """One kind, as discovery tells of it."""

    @property
    def api_version(self) -> str:
        """Group and version."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    @property
    def namespaced(self) -> bool:
        """Whether its objects live in namespaces."""

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that the kind supports."""


class ClusterPort(Protocol):
    """The verbs the engine uses; ``faults.kube.client.Kube`` has them. They raise ``faults.errors.ClusterError``."""

    def kinds(self) -> Sequence[ResourceLike]:
        """Return every kind of the cluster."""

    def list(self, api_version: str, kind: str, namespace: str = "") -> list[Obj]:
        """Return all objects of a kind."""

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""

    def create(self, obj: Obj, *, field_manager: str = "", dry_run: bool = False) -> Obj:
        """Create an object."""

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str,
        patch: Obj | Sequence[Obj],
        *,
        patch_type: PatchType = "merge",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Patch an object; a resourceVersion inside makes it conditional."""

    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete an object; with ``uid`` only that very one, with ``version`` only in that resourceVersion."""

    def cloud_assets(self, project: str) -> Sequence[Obj]:
        """Return what there is in a cloud project; nothing where the cluster leads to no cloud API."""

    def cloud(self, method: str, path: str, body: Obj | None = None) -> Obj:
        """Send a request to the cloud API at the cluster's address, and return its answer."""

    def run_command(
        self, namespace: str, pod: str, container: str, command: Sequence[str], limits: CommandLimits | None = None
    ) -> tuple[int, str]:
        """Return the exit code of a command in a container, and what it wrote within its bounds."""

    def call(self, namespace: str, server: str, request: Request) -> Reply:
        """Send an HTTP request through the API server to ``pods/NAME:PORT`` or ``services/NAME:PORT``.

        Whatever the program behind it answers is the reply, errors included; Unreachable where none answers.
        """


class Journal(Protocol):
    """Journal in which undos are committed before their steps are sent.

    Each call is atomic and durable when it returns, and raises ``StaleEpoch`` (having written nothing) once another
    worker has taken over.
    """

    def records(self) -> Sequence[Record]:
        """Return every record, in order of its index."""

    def save(self, *records: Record) -> None:
        """Commit records, new or changed: all of them, or none."""

    def guard(self) -> None:
        """Prove that this worker may still write, and prolong its lease."""

    def close(self) -> Sequence[Record]:
        """Forget everything, once all is reverted; return what the cluster now has to let go of."""


class Neighbours(Protocol):
    """Other runs in the same cluster, so far as they share objects with this one."""

    def have(self, record: Record) -> bool:
        """Return whether another run still needs the object that this step created."""

    def inherit(self, record: Record) -> Record:
        """Give this step's before-images to the newer runs that took its values for the original ones.

        Return what is left to be taken back by this step itself.
        """

    def follow(self, record: Record, old: str) -> None:
        """Let other runs' steps of the object refer to its new UID, which is the record's, instead of the old one."""


class NoNeighbours:
    """A cluster with one run."""

    def have(self, record: Record) -> bool:
        """Return that nobody does."""
        return False

    def inherit(self, record: Record) -> Record:
        """Return the step: nobody takes anything over."""
        return record

    def follow(self, record: Record, old: str) -> None:
        """Do nothing."""
