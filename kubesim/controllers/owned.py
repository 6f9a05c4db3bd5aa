"""The objects of an owner: adopted where it selects them and nobody controls them, let go where it does no more.

Every template that a StatefulSet or DaemonSet has had is kept by number, as a ControllerRevision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from kubesim.api.selectors import LabelSelector, from_struct
from kubesim.controllers.base import Delay, Keeper, controller_of, is_ending, owner_reference, queue_key
from kubesim.errors import ApiError, Obj, tolerating

Selector = Callable[[Obj], LabelSelector]
Accepts = Callable[[Obj, Obj], bool]
RESOURCE = "controllerrevisions.apps"
HASH_LABEL = "controller-revision-hash"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def selector_of(owner: Obj) -> LabelSelector:
    """Return what an owner selects by ``spec.selector``."""
    return from_struct(owner["spec"].get("selector"))


class Owned:
    """The objects of a resource that belong to those which a keeper looks after.

    ``accepts`` narrows what may be adopted or let go (of an owner and an object); ``finalizer`` is put on what is
    adopted; changes are looked at after ``delay_s`` seconds, together with others of that time.
    """

    def __init__(
        self,
        keeper: Keeper,
        resource: str,
        *,
        selector: Selector = selector_of,
        accepts: Accepts = lambda owner, obj: True,
        finalizer: str = "",
        delay_s: Delay = 0.0,
    ) -> None:
        self.informer = keeper.informers[resource]
        self._keeper = keeper
        self._selector = selector
        self._accepts = accepts
        self._finalizer = finalizer
        self._delay_s = delay_s

    def listen(self) -> None:
        """Queue the owner of what changes, and whoever may adopt what has none."""
        self.informer.add_index("orphan", lambda obj: [] if controller_of(obj) else [_namespace(obj)])
        self._keeper.watch_owned(self.informer, self._keeper.kind, self._delay_s)
        self.informer.add_handler(self._stray)

    def of(self, owner: Obj) -> list[Obj]:
        """Return what an owner controls."""
        return self.informer.by("controller", owner["metadata"]["uid"])

    async def claim(self, owner: Obj) -> list[Obj]:
        """Adopt and let go; returns what the owner controls and selects. Raises ``ApiError``."""
        selector, kept = self._selector(owner), []
        for obj in self.of(owner):
            if not self._accepts(owner, obj):
                continue
            if selector.selects(obj):
                kept.append(obj)
            elif not is_ending(owner):
                await self._patch(obj, self._release(owner))
        if is_ending(owner):
            return kept
        for obj in self.informer.by("orphan", _namespace(owner)):
            if not is_ending(obj) and self._accepts(owner, obj) and selector.selects(obj):
                kept += await self._patch(obj, self._adoption(owner))
        return kept

    def _stray(self, old: Obj | None, new: Obj | None) -> None:
        if new is None or controller_of(new) is not None or is_ending(new):
            return
        if (
            old is not None
            and controller_of(old) is None
            and old["metadata"].get("labels") == new["metadata"].get("labels")
        ):
            return
        for owner in self._keeper.own.by("namespace", _namespace(new)):
            if self._accepts(owner, new) and self._selector(owner).selects(new):
                self._keeper.queue.add(queue_key(owner))

    def _adoption(self, owner: Obj) -> Obj:
        patch: Obj = {"ownerReferences": [owner_reference(owner)]}
        return patch | ({"finalizers": [self._finalizer]} if self._finalizer else {})

    def _release(self, owner: Obj) -> Obj:
        patch: Obj = {"ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}]}
        return patch | ({"$deleteFromPrimitiveList/finalizers": [self._finalizer]} if self._finalizer else {})

    async def _patch(self, obj: Obj, metadata: Obj) -> list[Obj]:
        """Change an object's metadata; nothing where it is gone."""
        patch = {"metadata": {"uid": obj["metadata"]["uid"], **metadata}}
        with tolerating(404):
            return [await self.informer.patch(obj, patch, patch_type="strategic")]
        return []


def _namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def safe_hash(value: Any) -> str:
    """Return a name part as upstream makes them: a 32-bit number whose digits are written as harmless letters."""
    digest = hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(LETTERS[ord(digit) % len(LETTERS)] for digit in str(int.from_bytes(digest[:4])))


def data_of(owner: Obj) -> Obj:
    """Return what a revision keeps: the template, as a patch that replaces it."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def template_of(revision: Obj) -> Obj:
    """Return the pod template of a revision."""
    template = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != "$patch"}


class History:
    """The revisions of what one keeper looks after. ``hash_label`` marks the revision's hash."""

    def __init__(self, keeper: Keeper, hash_label: str) -> None:
        self._client = keeper.client
        self._hash_label = hash_label
        self._own = Owned(keeper, RESOURCE)
        self.revisions = self._own.informer
        self.listen = self._own.listen
        self.claim = self._own.claim

    def owned(self, owner: Obj) -> list[Obj]:
        """Return the revisions of an owner, oldest first."""
        found = self._own.of(owner)
        return sorted(found, key=lambda revision: (revision["revision"], revision["metadata"]["name"]))

    async def current(self, owner: Obj) -> Obj:
        """Return the revision of the owner's template: a new one, or an old one that is the newest again."""
        owned, wanted = self.owned(owner), data_of(owner)
        number = owned[-1]["revision"] + 1 if owned else 1
        same = next((revision for revision in reversed(owned) if revision["data"] == wanted), None)
        if same is None:
            return await self._create(owner, wanted, number)
        return same if same is owned[-1] else await self.revisions.patch(same, {"revision": number})

    async def _create(self, owner: Obj, data: Obj, number: int) -> Obj:
        meta, collisions = owner["metadata"], owner.get("status", {}).get("collisionCount") or 0
        while True:
            digest = safe_hash([data, collisions])
            labels = {**(owner["spec"]["template"]["metadata"].get("labels") or {}), self._hash_label: digest}
            revision: Obj = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": f"{meta['name']}-{digest}",
                    "namespace": meta["namespace"],
                    "labels": labels,
                    "annotations": dict(meta.get("annotations") or {}),
                    "ownerReferences": [owner_reference(owner)],
                },
                "data": data,
                "revision": number,
            }
            try:
                return await self.revisions.create(revision)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                there = await self._client.get(RESOURCE, revision["metadata"]["name"], meta["namespace"])
                if there["data"] == data:
                    return there
                collisions += 1

    async def trim(self, owner: Obj, kept: set[str]) -> None:
        """Delete the oldest revisions beyond the limit, sparing those (by name) that are in use."""
        unused = [revision for revision in self.owned(owner) if revision["metadata"]["name"] not in kept]
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        for revision in unused[: max(0, len(unused) - limit)]:
            await self.revisions.delete(revision)
