"""Objects of controllers that a candidate may change, where no namespace goes with the session.

A picture of a cluster leaves out what a controller is in it for, since controllers write it anew. They do not always:
an operator that compares a digest of its own with an annotation leaves everybody's changes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from faults.engine import Fingerprint, object_digest, object_key
from faults.kube.client import Kube
from faults.kube.discovery import Resource
from faults.packs import AccessRule
from faults.packs.rights import READ, split_resource

CONTROLLED = "controlled "
"""Begins what a picture tells of such objects."""
_COME_AND_GO = ("pods", "replicasets.apps", "jobs.batch")


def controlled_picture(kube: Kube, rules: Iterable[AccessRule], namespaces: Iterable[str]) -> Fingerprint:
    """Return object -> digest for what has a controller and may be changed in namespaces. Raises ClusterError."""
    spaces, found = set(namespaces), {}
    rows = [row for rule in rules for row in _rows(rule) if row[1] in spaces]
    known = {_name(resource): resource for resource in kube.kinds()} if rows else {}
    for text, namespace, names in rows:
        resource = known.get(split_resource(text))
        for obj in kube.list(resource.api_version, resource.kind, namespace) if resource else ():
            if _has_controller(obj) and (not names or obj["metadata"]["name"] in names):
                found[CONTROLLED + object_key(obj)] = object_digest(obj)
    return found


def known_before(before: Fingerprint, after: Fingerprint) -> Fingerprint:
    """Return the part of a later picture that the first one has: what a controller has made since is its own."""
    return {key: text for key, text in after.items() if key in before}


def _rows(rule: AccessRule) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the resources, namespaces and names that a rule allows to change."""
    if set(rule.verbs) - set(READ):
        for text, namespace in product(rule.resources, rule.namespaces):
            if text not in _COME_AND_GO:
                yield text, namespace, rule.names


def _name(resource: Resource) -> tuple[str, str]:
    return resource.api_version.rpartition("/")[0], resource.plural


def _has_controller(obj: dict[str, object]) -> bool:
    meta = obj["metadata"]
    assert isinstance(meta, dict)  # as of every object
    return any(owner.get("controller") for owner in meta.get("ownerReferences") or ())
