"""The base of every controller: the seam, the shared caches, a recorder and a keyed queue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesim import data
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.informer import FIRST_RETRY_S, Informer, Informers, WorkQueue
from kubesim.recorder import Recorder
from kubesim.schema.kinds import registry

_events: data.Reader[dict[str, dict[str, str]]] = data.beside(__file__, "events.yaml")
Usage = Callable[[str, str], Awaitable[list[Obj]]]
Delay = float | Callable[[str], float]


async def nobody_measures(namespace: str, selector: str) -> list[Obj]:
    """Stand for metrics.k8s.io where nobody serves it. Raises 404."""
    raise ApiError(404, "NotFound", "the server could not find the requested resource (get pods.metrics.k8s.io)")


@dataclass(frozen=True, slots=True)
class Context:
    """The parts that controllers share."""

    client: Client
    clock: Clock
    informers: Informers
    usage: Usage = nobody_measures
    """What the pods of a namespace use that a selector (as text) chooses: objects of metrics.k8s.io."""


class Controller(ABC):
    """Brings the objects of one kind to what they ask for. ``source`` is the component its events name."""

    source = ""
    resource = ""
    """Of the objects that it syncs."""
    retry_s = FIRST_RETRY_S
    """Seconds until a failed key is tried again; they double with each failure."""

    def __init__(self, context: Context) -> None:
        self.client = context.client
        self.clock = context.clock
        self.informers = context.informers
        self.recorder = Recorder(context.client, context.clock, self.source)
        self.queue = WorkQueue(context.clock, self._sync, self.source, retry_s=self.retry_s, resource=self.resource)

    @abstractmethod
    async def sync(self, namespace: str, name: str) -> None:
        """Bring one object to what it asks for; safe to repeat. ``ApiError`` means: try again later."""

    async def _sync(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        await self.sync(namespace, name)

    @abstractmethod
    def listen(self) -> None:
        """Begin to take changes from the (filled) caches."""

    def watch_own(self, informer: Informer) -> None:
        """Queue every change of the controller's own kind."""
        informer.add_handler(lambda old, new: self.queue.add(queue_key(latest(old, new))))

    def watch_owned(self, informer: Informer, kind: str, delay_s: Delay = 0.0) -> None:
        """Queue the controller of this kind of every object that changes, ``delay_s`` seconds later (by its uid)."""

        def changed(old: Obj | None, new: Obj | None) -> None:
            for obj in (old, new):
                owner = controller_of(obj) if obj is not None else None
                if obj is not None and owner is not None and owner["kind"] == kind:
                    key = f"{obj['metadata'].get('namespace', '')}/{owner['name']}"
                    if seconds := delay_s(owner["uid"]) if callable(delay_s) else delay_s:
                        self.queue.add_after(key, seconds)
                    else:
                        self.queue.add(key)

        informer.add_index("controller", controller_uid)  # first: a pause may depend on how many there are
        informer.add_handler(changed)

    async def tell(self, obj: Obj, reason: str, **words: object) -> None:
        """Record an event about an object; ``words`` fill in what ``events.yaml`` says under our source."""
        kind, _, text = _events()[self.source][reason].partition(" ")
        record = self.recorder.warning if kind == "Warning" else self.recorder.normal
        await record(obj, reason, text.format(own=obj["metadata"]["name"], **words))

    async def remove(self, owner: Obj, informer: Informer, obj: Obj) -> None:
        """Delete what an owner has and say so in an event about the owner, or say why not and raise."""
        name = obj["metadata"]["name"]
        try:
            there = await informer.delete(obj)
        except ApiError as error:
            await self.tell(owner, "FailedDelete", name=name, error=error.message)
            raise
        if there:
            await self.tell(owner, "SuccessfulDelete", name=name)

    async def write_status(self, informer: Informer, obj: Obj, status: Obj, *, retries: int = 0) -> Obj:
        """Replace the status if it differs; the answer is in the cache at once.

        Where somebody else has changed the object meanwhile it is read again, ``retries`` times.
        """
        if obj.get("status", {}) == status:
            return obj
        try:
            return await informer.update({**obj, "status": status}, subresource="status")
        except ApiError as error:
            if error.reason != "Conflict" or not retries:
                raise
            fresh = await self.client.get(informer.resource, obj["metadata"]["name"], obj["metadata"]["namespace"])
            return await self.write_status(informer, fresh, status, retries=retries - 1)


class Keeper(Controller):
    """A controller that looks after the objects of one ``resource``, each as it is in the cache."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.own = self.informers[self.resource]
        self.kind = registry.by_resource(self.resource).kind

    def listen(self) -> None:
        """Take every change of an object; those that depend on others watch them, too."""
        self.watch_own(self.own)

    async def sync(self, namespace: str, name: str) -> None:
        """Look after one object, or take note that it is gone."""
        obj = self.own.get(namespace, name)
        if obj is None:
            await self.gone(namespace, name)
        else:
            await self.look_after(obj)

    @abstractmethod
    async def look_after(self, obj: Obj) -> None:
        """Bring one object to what it asks for; safe to repeat. ``ApiError`` means: try again later."""

    async def gone(self, namespace: str, name: str) -> None:
        """Forget an object, or what never was one."""


def latest(old: Obj | None, new: Obj | None) -> Obj:
    """Return an object that has changed as it is, or as it last was."""
    found = new or old
    assert found is not None
    return found


async def drop_finalizer(informer: Informer, obj: Obj, finalizer: str) -> None:
    """Let an object go that a finalizer of ours holds; it may be gone already. Raises ``ApiError``."""
    found = obj["metadata"].get("finalizers") or ()
    if finalizer in found:
        kept = [name for name in found if name != finalizer]
        with tolerating(404, 409):
            await informer.patch(obj, {"metadata": {"uid": obj["metadata"]["uid"], "finalizers": kept or None}})


def queue_key(obj: Obj) -> str:
    """Return ``namespace/name``."""
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference of the object's controller."""
    reference: Obj
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None


def controller_uid(obj: Obj) -> list[str]:
    """Return what the index ``controller`` has an object under."""
    owner = controller_of(obj)
    return [owner["uid"]] if owner is not None else []


def owner_reference(obj: Obj) -> Obj:
    """Return the reference that makes ``obj`` the controller of another object."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_ending(obj: Obj) -> bool:
    """Whether an object is being deleted."""
    return obj["metadata"].get("deletionTimestamp") is not None
