"""ResourceQuota: tells what a namespace uses. Refusing what would be too much is the API's own work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kubesim.admission.quota import Tally, counted, written
from kubesim.controllers.base import Context, Keeper, latest, queue_key
from kubesim.errors import Obj
from kubesim.schema.kinds import registry
from kubesim.schema.registry import Kind


class QuotaController(Keeper):
    """Keeps status.hard and status.used of every quota."""

    source = "resourcequota-controller"
    resource = "resourcequotas"

    def __init__(self, context: Context, resources: list[str]) -> None:
        super().__init__(context)
        self.caches = {registry.by_resource(resource): self.informers[resource] for resource in resources}
        self._tallies: dict[str, Tally] = {}

    def listen(self) -> None:
        """Watch quotas, and every object that may count against one."""
        super().listen()
        for kind, cache in self.caches.items():
            cache.add_handler(partial(self._changed, kind))

    def _changed(self, kind: Kind, old: Obj | None, new: Obj | None) -> None:
        """Count what comes, goes, or ends."""
        for quota in self.own.by("namespace", latest(old, new)["metadata"]["namespace"]):
            tally = self._tallies.get(queue_key(quota))
            if tally is None or tally.change(kind, old, new):
                self.queue.add(queue_key(quota))

    async def gone(self, namespace: str, name: str) -> None:
        """Forget what was counted."""
        self._tallies.pop(f"{namespace}/{name}", None)

    async def look_after(self, quota: Obj) -> None:
        """Count what the namespace uses."""
        key, namespace = queue_key(quota), quota["metadata"]["namespace"]
        tally = self._tallies.get(key)
        if tally is None or tally.spec != quota["spec"]:
            tally = self._tallies[key] = counted(quota["spec"], self._objects(namespace))
        hard = quota["spec"].get("hard") or {}
        used = {key: written(tally.total.get(key, 0), quota, key) for key in hard}
        await self.write_status(self.own, quota, {"hard": dict(hard), "used": used} if hard else {})

    def _objects(self, namespace: str) -> Iterator[tuple[Kind, Obj]]:
        """Yield everything in a namespace that may count."""
        for kind, cache in self.caches.items():
            for obj in cache.by("namespace", namespace):
                yield kind, obj
