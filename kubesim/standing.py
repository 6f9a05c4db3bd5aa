"""What the API server keeps there itself, whoever deletes it: the system's namespaces, and the service of the API."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kubesim import data
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import Timer
from kubesim.errors import Obj, tolerating
from kubesim.store import Event

MANAGER = "kube-apiserver"
OPTIONS = Options(user="system:apiserver", field_manager=MANAGER)


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """An object that is put back at most ``after`` seconds later, as are the fields that it ``keeps``."""

    resource: str
    obj: Obj
    after: float
    keeps: list[str]
    namespace: str = ""

    @property
    def name(self) -> str:
        """Return the object's name."""
        return str(self.obj["metadata"]["name"])

    def wrong(self, found: Obj) -> bool:
        """Tell whether somebody has led it elsewhere."""
        return any(found.get(field) != self.obj[field] for field in self.keeps)


class Standing:
    """Plants what always stands, and puts it back."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._timers: dict[Kept, Timer] = {}

    def plant(self) -> None:
        """Create what is not there."""
        for kept in KEPT:
            self._put(kept)

    def follow(self) -> None:
        """Put back, from now on, what somebody deletes or leads elsewhere."""
        for kept in KEPT:
            kind = self._operations.registry.by_resource(kept.resource)
            self._operations.store.subscribe(kind, partial(self._changed, kept))

    def stop(self) -> None:
        """Put nothing back any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _changed(self, kept: Kept, event: Event) -> None:
        meta = event.object["metadata"]
        if (meta.get("namespace", ""), meta["name"]) != (kept.namespace, kept.name) or kept in self._timers:
            return
        if event.type == "DELETED" or kept.wrong(event.object):
            self._timers[kept] = self._operations.clock.call_later(kept.after, partial(self._put, kept))

    def _put(self, kept: Kept) -> None:
        self._timers.pop(kept, None)
        kind = self._operations.registry.by_resource(kept.resource)
        found = self._operations.store.get(kind, kept.namespace, kept.name)
        with tolerating(403, 404, 409):  # in a namespace that is not there, or goes
            if found is None:
                self._operations.create(kind, kept.namespace, kept.obj, options=OPTIONS)
            elif kept.wrong(found):
                meta = {**found["metadata"], "labels": kept.obj["metadata"]["labels"]}
                self._operations.update(
                    kind, kept.namespace, kept.name, {**kept.obj, "metadata": meta}, options=OPTIONS
                )


KEPT = tuple(Kept(**found) for found in data.table(__file__, "standing.yaml"))
