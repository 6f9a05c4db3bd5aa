"""Whose objects are whose: owners adopt what they select and nobody controls, and let go what they select no more."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.api.selectors import LabelSelector, from_struct
from kubesim.controllers.base import Delay, Keeper, controller_of, is_ending, owner_reference, queue_key
from kubesim.errors import Obj, tolerating

Selector = Callable[[Obj], LabelSelector]
Accepts = Callable[[Obj, Obj], bool]


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
