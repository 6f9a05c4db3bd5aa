"""Namespaces: what each is given at its birth, its emptying at its end, and the conditions that tell of it.

Their texts are those of k8s.io/kubernetes/pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from kubesim.api.durations import parse_time
from kubesim.conditions import renewed
from kubesim.controllers.base import Context, Keeper, is_ending
from kubesim.errors import Obj, tolerating
from kubesim.informer import Informer

FINALIZER = "kubernetes"
GRACE_S = 0.5
"""The seconds for which a namespace that ends is left alone, so that whoever deletes it with what is in it, as
``kubectl delete -f`` does, still finds all of that. Upstream's namespaceDeletionGracePeriod is five seconds, for the
sake of several API servers; here is one.
"""
ROOT_CA = "kube-root-ca.crt"
ROOT_CA_KEY = "kubernetes.io/description"
ROOT_CA_NOTE = {
    ROOT_CA_KEY: "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}
UNWATCHED = ("events",)
"""Kinds whose objects go at once when they are deleted, and are too many to be remembered here."""
FINALIZER_S = 15
"""The seconds that finalizers are expected to take."""
ENDED = ("Succeeded", "Failed")
CONTENT, REMAINING, FINALIZERS = (
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions", "All legacy kube types successfully parsed"
    ),
    CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    REMAINING: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}  # fmt: skip
"""The reason and message of each condition where nothing is wrong, in the order in which they are written."""


class NamespaceController(Keeper):
    """Empties a terminating namespace, its pods first, and lets it go when nothing is left."""

    source = "namespace-controller"
    resource = "namespaces"

    def __init__(self, context: Context, resources: list[str]) -> None:
        super().__init__(context)
        self.resources = list(resources)
        self.caches = {resource: self.informers[resource] for resource in resources if resource not in UNWATCHED}

    def listen(self) -> None:
        """Watch namespaces, and every object that may keep one from going."""
        for cache in self.caches.values():
            cache.add_index("namespace", _namespace)
            cache.add_handler(self._left)
        self.own.add_handler(self._changed)

    def follow(self, resource: str, cache: Informer, names: list[str], namespaced: bool) -> None:
        """Empty namespaces of one more kind."""
        if namespaced:
            self.resources.append(resource)
            self.caches[resource] = cache
            cache.add_handler(self._left)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and is_ending(new) and (old is None or not is_ending(old)):
            self.queue.add_after(f"/{new['metadata']['name']}", GRACE_S)

    def _left(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            name = old["metadata"]["namespace"]
            namespace = self.own.get("", name)
            if namespace is not None and is_ending(namespace) and namespace["status"].get("conditions"):
                self.queue.add(f"/{name}")

    async def look_after(self, obj: Obj) -> None:
        """Delete what is in the namespace, say what is left, and finalize it once it is empty."""
        if not is_ending(obj) or not _waits(obj):
            return
        name, left = obj["metadata"]["name"], await self._empty("pods", obj)
        if left.count:
            found = Remains(
                left.failures and [f"failed to delete pods for namespace: {name}, err: {left.failures[0]}"]
            )
        else:
            found = Remains()
            for resource in [resource for resource in self.resources if resource != "pods"]:
                found.add(resource, await self._empty(resource, obj))
        obj = await self._tell(obj, found)
        if left.count or found.counts:
            self.queue.add_after(f"/{name}", (left.estimate_s or found.estimate_s) // 2 + 1)
        else:
            await self._finalize(obj)

    async def _empty(self, resource: str, namespace: Obj) -> Left:
        """Delete the objects of one resource, and return what is still there."""
        name = namespace["metadata"]["name"]
        with tolerating(404):  # a definition that has just gone
            found = (await self.client.list(resource, name)).items
            for obj in found:
                if not is_ending(obj):
                    await self.informers[resource].delete(obj)
            rest = (await self.client.list(resource, name)).items if found else []
            return left_of(resource, rest, namespace, self.clock.now())
        return Left()

    async def _tell(self, namespace: Obj, found: Remains) -> Obj:
        """Write the conditions of a namespace that goes."""
        conditions = found.conditions(namespace.get("status", {}).get("conditions") or [], self.clock.now())
        status = {**namespace.get("status", {}), "conditions": conditions}
        return await self.write_status(self.own, namespace, status)

    async def _finalize(self, obj: Obj) -> None:
        kept = [name for name in obj["spec"]["finalizers"] if name != FINALIZER]
        with tolerating(404):
            await self.client.update("namespaces", {**obj, "spec": {"finalizers": kept}}, subresource="finalize")


class ServiceAccountController(Keeper):
    """Gives every namespace the service account ``default`` and, where it is known, the cluster's CA."""

    source = "serviceaccount-controller"
    resource = "namespaces"

    def __init__(self, context: Context, root_ca: str) -> None:
        super().__init__(context)
        self._root_ca = root_ca
        self.accounts = self.informers["serviceaccounts"]
        self.config_maps = self.informers["configmaps"]

    def listen(self) -> None:
        """Watch namespaces and what they are given."""
        super().listen()
        self.accounts.add_handler(self._touched)
        self.config_maps.add_handler(self._touched)

    def _touched(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and old["metadata"]["name"] in ("default", ROOT_CA):
            self.queue.add(f"/{old['metadata']['namespace']}")

    async def look_after(self, namespace: Obj) -> None:
        """Create what is missing in a namespace, and put the cluster's CA right."""
        if is_ending(namespace):
            return
        name = namespace["metadata"]["name"]
        if self.accounts.get(name, "default") is None:
            meta = {"name": "default", "namespace": name}
            await _create(self.accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        if self._root_ca:
            await self._publish(name)

    async def _publish(self, namespace: str) -> None:
        data, found = {"ca.crt": self._root_ca}, self.config_maps.get(namespace, ROOT_CA)
        if found is None:
            meta = {"name": ROOT_CA, "namespace": namespace, "annotations": ROOT_CA_NOTE}
            await _create(self.config_maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
            return
        notes = found["metadata"].get("annotations") or {}
        if found.get("data") != data or not notes.get(ROOT_CA_KEY):
            meta = {**found["metadata"], "annotations": {**notes, **ROOT_CA_NOTE}}
            await self.config_maps.update({**found, "metadata": meta, "data": data})


async def _create(cache: Informer, obj: Obj) -> None:
    with tolerating(403, 404, 409):
        await cache.create(obj)


def _waits(namespace: Obj) -> bool:
    """Tell whether a namespace still waits for us."""
    return FINALIZER in (namespace.get("spec", {}).get("finalizers") or ())


def _namespace(obj: Obj) -> list[str]:
    return [obj["metadata"].get("namespace", "")]


@dataclass(frozen=True, slots=True)
class Left:
    """The rest of one resource: how many, by which finalizers, and the seconds that they may take."""

    count: int = 0
    finalizers: Counter[str] = field(default_factory=Counter)
    estimate_s: int = 0
    failures: list[str] = field(default_factory=list)


def left_of(resource: str, items: list[Obj], namespace: Obj, now: datetime) -> Left:
    """Return what the objects that are still there mean; those that nothing holds are a failure."""
    estimate = _grace_s(items, namespace, now) if resource == "pods" else 0
    finalizers = Counter(name for obj in items for name in obj["metadata"].get("finalizers") or ())
    if not items or estimate:
        return Left(len(items), finalizers, estimate)
    if finalizers:
        return Left(len(items), finalizers, FINALIZER_S)
    group, _, version = items[0]["apiVersion"].rpartition("/")
    kind = f"{group}/{version}, Resource={resource.partition('.')[0]}"
    why = f"unexpected items still remain in namespace: {namespace['metadata']['name']} for gvr: {kind}"
    return Left(len(items), finalizers, 0, [why])


def _grace_s(pods: list[Obj], namespace: Obj, now: datetime) -> int:
    """Return the longest time that a running pod gets to end, or 0 where it is over."""
    running = [pod["spec"] for pod in pods if pod.get("status", {}).get("phase") not in ENDED]
    longest = max((spec.get("terminationGracePeriodSeconds") or 0 for spec in running), default=0)
    began = parse_time(namespace["metadata"]["deletionTimestamp"])
    return 0 if began is None or (now - began).total_seconds() >= longest else longest


class Remains:
    """The rest of one namespace, resource by resource."""

    def __init__(self, failures: list[str] | None = None) -> None:
        self.counts: dict[str, int] = {}
        self.estimate_s = 0
        self._failures = failures or []
        self._finalizers: Counter[str] = Counter()

    def add(self, resource: str, left: Left) -> None:
        """Take in what is left of one resource."""
        self._failures += left.failures
        self.estimate_s = max(self.estimate_s, left.estimate_s)
        if left.count:
            self.counts[resource] = left.count
            self._finalizers += left.finalizers

    def conditions(self, before: list[Obj], now: datetime) -> list[Obj]:
        """Return the conditions of the namespace; one whose status stays keeps its time."""
        known, wrong = {entry["type"]: entry for entry in before}, self._wrong()
        for kind, fine in FINE.items():
            says = ("True" if kind in wrong else "False", *wrong.get(kind, fine))
            known[kind] = renewed(known.get(kind, {}), kind, says, now)
        return list(known.values())

    def _wrong(self) -> dict[str, tuple[str, str]]:
        """Return (reason, message) of each condition that holds."""
        wrong = {}
        if failures := sorted(self._failures):
            text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
            wrong[CONTENT] = ("ContentDeletionFailed", text)
        if self.counts:
            named = {f"{name}." if "." not in name else name: count for name, count in self.counts.items()}
            each = sorted(f"{name} has {count} resource instances" for name, count in named.items())
            wrong[REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(each)}")
        if self._finalizers:
            each = sorted(f"{name} in {count} resource instances" for name, count in self._finalizers.items())
            text = f"Some content in the namespace has finalizers remaining: {', '.join(each)}"
            wrong[FINALIZERS] = ("SomeFinalizersRemain", text)
        return wrong
