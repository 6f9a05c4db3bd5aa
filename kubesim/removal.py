"""Takes an object out of what was kept of a cluster: one over which the cluster hangs whenever it is restored.

With it go its owners, which would make it again, and all that they own.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from kubesim.changelog import State
from kubesim.current_unit import NOTHING
from kubesim.errors import Obj

SYSTEM = ("kube-system", "kube-public", "kube-node-lease", "gpu-operator", "monitoring", "")
PASSING = ("events", "leases.coordination.k8s.io", "events.events.k8s.io")
Place = tuple[str, str, str]
"""Table, namespace and name."""


def find(state: State, unit: tuple[str, str]) -> Place | None:
    """Return the object that a unit of work is about, where it is kept; for no unit the one made last."""
    if unit == NOTHING:
        return _made_last(state)
    namespace, _, name = unit[1].rpartition("/")
    return next((place for _, place in _objects(state) if place == (unit[0], namespace, name)), None)


def _made_last(state: State) -> Place | None:
    """Return the youngest object that a person may have made."""
    found = [
        (_meta(state[line]).get("creationTimestamp") or "", place)
        for line, place in _objects(state)
        if place[0] not in PASSING and place[1] not in SYSTEM
    ]
    return max(found)[1] if found else None


def with_family(state: State, place: Place) -> tuple[Place, list[bytes]]:
    """Return the first owner of an object, and the keys of all that goes with it."""
    metas = {line: _meta(state[line]) for line, _ in _objects(state)}
    by_uid = {meta["uid"]: line for line, meta in metas.items() if "uid" in meta}
    first = next(line for line, found in _objects(state) if found == place)
    while (owner := _controller(metas[first])) in by_uid:
        first = by_uid[owner]
    owned: dict[str, list[bytes]] = {}
    for line, meta in metas.items():
        owned.setdefault(_controller(meta), []).append(line)
    doomed = [first]
    for line in doomed:
        doomed += owned.pop(metas[line].get("uid") or first.decode(), ())
    return _place(first), doomed


def _objects(state: State) -> Iterator[tuple[bytes, Place]]:
    for line, value in state.items():
        if value and line.startswith(b'["object"'):
            yield line, _place(line)


def _place(line: bytes) -> Place:
    _, table, namespace, name = orjson.loads(line)
    return table, namespace, name


def _meta(value: bytes) -> Obj:
    found = orjson.loads(value).get("metadata")
    return found if isinstance(found, dict) else {}


def _controller(meta: Obj) -> str:
    return next((str(owner.get("uid")) for owner in meta.get("ownerReferences") or () if owner.get("controller")), "")
