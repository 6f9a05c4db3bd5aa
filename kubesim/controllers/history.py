"""ControllerRevisions: every template that a StatefulSet or DaemonSet has had, by number."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from kubesim.controllers.base import Keeper, owner_reference
from kubesim.controllers.owned import Owned
from kubesim.errors import ApiError, Obj

RESOURCE = "controllerrevisions.apps"
HASH_LABEL = "controller-revision-hash"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


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
