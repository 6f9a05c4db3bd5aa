"""Between two routes in one cluster: what the candidate made is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from faults.catalog_check.errors import ProofFailed
from faults.clock import Clock
from faults.engine import left_over, orphans
from faults.errors import NotFound
from faults.kube.client import Kube

Place = tuple[str, str, str, str]
LOOK_S = 2.0
PATIENCE_S = 120.0


def clean(kube: Kube, differences: Sequence[str], namespaces: Sequence[str], clock: Clock) -> bool:
    """Delete what is new in the session's namespaces; return whether there are no other ``differences``.

    Raises ProofFailed where something does not go.
    """
    places = [_place(line, namespaces) for line in differences]
    made = [place for place in places if place is not None]
    for place in made:
        _delete(kube, place)
    began = clock.now()
    while left := [*filter(partial(_is_there, kube), made), *_orphans(kube, namespaces)]:
        if (clock.now() - began).total_seconds() > PATIENCE_S:
            raise ProofFailed(f"this does not go: {', '.join(place[2] for place in left)}")
        for place in left:
            _delete(kube, place)
        clock.wait(LOOK_S)
    return len(made) == len(places)


def _place(line: str, namespaces: Sequence[str]) -> Place | None:
    """Return the object of a difference where it is new, and in one of the session's namespaces."""
    found = left_over(line)
    if found is None or found.namespace not in namespaces:
        return None
    return found.api_version, found.kind, found.name, found.namespace


def _orphans(kube: Kube, namespaces: Sequence[str]) -> list[Place]:
    found = [obj for namespace in namespaces for obj in orphans(kube, namespace)]
    return [(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], obj["metadata"]["namespace"]) for obj in found]


def _delete(kube: Kube, place: Place) -> None:
    with suppress(NotFound):
        kube.delete(*place, grace_seconds=0 if place[1] == "Pod" else None)


def _is_there(kube: Kube, place: Place) -> bool:
    try:
        kube.get(*place)
    except NotFound:
        return False
    return True
