"""ResourceQuota: tells what a namespace uses. Refusing what would be too much is the API's own work."""

from __future__ import annotations

from fractions import Fraction

from kubesim.admission.quota import chosen, form_of, usage_of
from kubesim.api.quantity import write
from kubesim.controllers.base import Context, Controller, queue_key
from kubesim.errors import Obj
from kubesim.schema.kinds import registry


class QuotaController(Controller):
    """Keeps status.hard and status.used of every quota."""

    source = "resourcequota-controller"

    def __init__(self, context: Context, resources: list[str]) -> None:
        super().__init__(context)
        self.quotas = self.informers["resourcequotas"]
        self.caches = {resource: self.informers[resource] for resource in resources}

    def listen(self) -> None:
        """Watch quotas, and every object that may count against one."""
        self.watch_own(self.quotas)
        for cache in self.caches.values():
            cache.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        """Count anew when something comes, goes, or ends."""
        if old is not None and new is not None and _weight(old) == _weight(new):
            return
        obj = new or old
        assert obj is not None
        for quota in self.quotas.by("namespace", obj["metadata"]["namespace"]):
            self.queue.add(queue_key(quota))

    async def sync(self, namespace: str, name: str) -> None:
        """Count what the namespace uses."""
        quota = self.quotas.get(namespace, name)
        if quota is None:
            return
        hard = quota["spec"].get("hard") or {}
        total = dict.fromkeys(hard, Fraction())
        for resource, cache in self.caches.items():
            kind = registry.by_resource(resource)
            for obj in cache.by("namespace", namespace):
                for key, value in usage_of(kind, obj).items() if chosen(quota, kind, obj) else ():
                    if key in total:
                        total[key] += value
        used = {key: write(value, form_of(quota, key)) for key, value in total.items()}
        await self.write_status(self.quotas, quota, {"hard": dict(hard), "used": used} if hard else {})


def _weight(obj: Obj) -> object:
    """Return what decides how an object counts: a pod's phase, what services and claims ask for, else nothing."""
    if obj["kind"] == "Pod":
        return obj.get("status", {}).get("phase")
    return obj["spec"] if obj["kind"] in ("Service", "PersistentVolumeClaim") else None
