"""A canonical picture of everything a session may touch, to prove that nothing is left of it.

What the cluster derives by itself is left out: status, versions, times, events, and objects whose controller is in
the picture (a deployment's pods). An object whose controller has gone is in it: it should have gone, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import orjson

from faults.engine.model import Target
from faults.engine.node_agents import agents
from faults.engine.ports import ClusterPort, ResourceLike

Obj = dict[str, Any]
Fingerprint = dict[str, str]
MAX_DIGESTS = 512
"""Digests that are remembered; a practice cluster has some 190 objects when it is new."""

_NAMESPACE = ("v1", "Namespace")
# Written by the cluster about itself, at any time.
_VOLATILE_KINDS = {
    "APIService",
    "CSINode",
    "CertificateSigningRequest",
    "ComponentStatus",
    "Endpoints",
    "Event",
    "Lease",
    "NodeMetrics",
    "PodMetrics",
    "VolumeAttachment",
}
_VOLATILE_META = {
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
}
_VOLATILE_ANNOTATIONS = {"deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"}
_CLOUD, _MACHINE = "cloud ", "gce://"
_OF_NODES = "on node "
"""Begins what a picture tells of the state of nodes, which is no object of its own."""
_WELL = {"Ready": "True"}
"""The status of conditions that are well; of others, False."""
_VOLATILE_CLOUD = {"creationTimestamp", "etag", "fingerprint", "id", "selfLinkWithId", "uniqueId", "oauth2ClientId"}
_EMPTY = (dict, list, str, type(None))
"""Types of which a false value counts as none; 0 and false are values."""
LEFT_OVER = " is left over"
"""Ends the sentence about an object that is new."""
_LEAVING = "leaving "
"""Before the digest of an object that is being deleted: it may change and go without anybody's doing."""


def fingerprint(cluster: ClusterPort, namespaces: Sequence[str]) -> Fingerprint:
    """Return object -> digest for these namespaces and for everything cluster-scoped. Raises ClusterError.

    Nothing can be in a namespace that the cluster does not have, so that nothing is asked of it.
    """
    objects = cluster.list(*_NAMESPACE)
    known = {obj["metadata"]["name"] for obj in objects}
    there = [name for name in namespaces if name in known]
    for resource in cluster.kinds():
        if _counts(resource) and (resource.api_version, resource.kind) != _NAMESPACE:
            objects += _scan(cluster, resource, there)
    present = {obj["metadata"]["uid"] for obj in objects}
    counted = [obj for obj in sorted(objects, key=object_key) if _controller(obj) not in present]
    found = {object_key(obj): object_digest(obj) for obj in counted}
    nodes = [obj for obj in objects if obj["kind"] == "Node"]
    return found | _node_picture(cluster, nodes, known) | _cloud_picture(cluster, _projects(objects))


def _node_picture(cluster: ClusterPort, nodes: Iterable[Obj], namespaces: Collection[str]) -> Fingerprint:
    """Return the devices that nodes have to give, conditions that are not well, and faults that agents tell of."""
    found: Fingerprint = {}
    for node in nodes:
        found[_OF_NODES] = "looked at"
        status, place = node.get("status") or {}, f"{_OF_NODES}{node['metadata']['name']}:"
        devices = {name: count for name, count in (status.get("allocatable") or {}).items() if "/" in name}
        found |= {f"{place} allocatable {name}": str(count) for name, count in devices.items()}
        states = {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}
        bad = {kind: state for kind, state in states.items() if state != _WELL.get(kind, "False")}
        found |= {f"{place} condition {kind}": state for kind, state in bad.items()}
    for agent in agents(cluster, namespaces):
        names = [fault["fault_id"] for fault in agent.faults(cluster)]
        found |= {f"{_OF_NODES}{agent.node}: fault {name}": "active" for name in names}
    return found


def _projects(objects: Iterable[Obj]) -> set[str]:
    """Return the cloud projects in which the cluster's nodes are machines."""
    places = (str(obj.get("spec", {}).get("providerID", "")) for obj in objects if obj["kind"] == "Node")
    return {place.removeprefix(_MACHINE).partition("/")[0] for place in places if place.startswith(_MACHINE)}


def _cloud_picture(cluster: ClusterPort, projects: Iterable[str]) -> Fingerprint:
    """Return the part of a fingerprint that tells of the cloud around the cluster, where its API is at hand."""
    assets = (asset for project in sorted(projects) for asset in cluster.cloud_assets(project))
    return {_CLOUD + asset["name"]: _digest_of(orjson.dumps(_steady(asset))) for asset in assets}


def _steady(value: Any) -> Any:
    """Drop what the cloud writes by itself, or anew for the same resource."""
    if isinstance(value, dict):
        return {key: _steady(inner) for key, inner in value.items() if key not in _VOLATILE_CLOUD}
    return [_steady(inner) for inner in value] if isinstance(value, list) else value


def namespace_picture(cluster: ClusterPort) -> Fingerprint:
    """Return that part of a fingerprint which tells what namespaces there are. Raises ClusterError."""
    return {object_key(obj): object_digest(obj) for obj in cluster.list(*_NAMESPACE)}


def left_over(difference: str) -> Target | None:
    """Return the object that a sentence of ``compare`` says to be left over; None for others, and for the cloud's."""
    if not difference.endswith(LEFT_OVER) or difference.startswith((_CLOUD, _OF_NODES)):
        return None
    kind_of, _, place = difference.removesuffix(LEFT_OVER).partition(" ")
    api_version, _, kind = kind_of.rpartition("/")
    namespace, _, name = place.rpartition("/")
    return Target(api_version, kind, namespace, name)


def stays(picture: Fingerprint, key: str) -> bool:
    """Return whether an object is in a picture, and was not being deleted."""
    return not picture.get(key, _LEAVING).startswith(_LEAVING)


def namespaced_objects(cluster: ClusterPort, namespace: str) -> list[Obj]:
    """Return everything in a namespace but what the cluster writes about itself."""
    kinds = [resource for resource in cluster.kinds() if _counts(resource) and resource.namespaced]
    return [obj for resource in kinds for obj in cluster.list(resource.api_version, resource.kind, namespace)]


def compare(before: Fingerprint, after: Fingerprint) -> list[str]:
    """Return every difference as a sentence; [] means that all is as it was."""
    for part in (_CLOUD, _OF_NODES):
        if not any(key.startswith(part) for key in before):  # taken before pictures told of this
            after = {key: digest for key, digest in after.items() if not key.startswith(part)}
    appeared = [f"{key}{LEFT_OVER}" for key in after.keys() - before.keys()]
    stayed = {key: digest for key, digest in before.items() if stays(before, key)}
    vanished = [f"{key} is missing" for key in stayed.keys() - after.keys() if not _is_trouble(key)]
    different = [f"{key} has changed" for key in stayed.keys() & after.keys() if _differs(stayed[key], after[key])]
    return sorted(appeared + vanished + different)


def _is_trouble(key: str) -> bool:
    """Return whether a key tells of a node's trouble, whose end is no loss."""
    return key.startswith(_OF_NODES) and " allocatable " not in key


# Owners are listed after what they own, so that a new owner cannot be missed.
_OWNED_FIRST = (
    ("v1", "Pod"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
)


def orphans(cluster: ClusterPort, namespace: str) -> list[Obj]:
    """Return the pods, replica sets and jobs whose controller has gone: garbage that is not collected yet."""
    objects = [obj for api_version, kind in _OWNED_FIRST for obj in cluster.list(api_version, kind, namespace)]
    present = {obj["metadata"]["uid"] for obj in objects}
    known = {kind for _, kind in _OWNED_FIRST}
    return [obj for obj in objects if _controller(obj) not in present and _controller(obj, "kind") in known]


def _counts(resource: ResourceLike) -> bool:
    return "list" in resource.verbs and resource.kind not in _VOLATILE_KINDS


def _scan(cluster: ClusterPort, resource: ResourceLike, namespaces: Sequence[str]) -> list[Obj]:
    if not resource.namespaced:
        return cluster.list(resource.api_version, resource.kind)
    return [obj for name in namespaces for obj in cluster.list(resource.api_version, resource.kind, name)]


def object_key(obj: Obj) -> str:
    """Return the name under which an object is in a fingerprint."""
    meta = obj["metadata"]
    name = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]
    return f"{obj['apiVersion']}/{obj['kind']} {name}"


def _controller(obj: Obj, field: str = "uid") -> str:
    owners = obj["metadata"].get("ownerReferences") or []
    return next((str(owner[field]) for owner in owners if owner.get("controller")), "")


def same(one: Obj, other: Obj) -> bool:
    """Return whether two states of an object differ in nothing that counts."""
    return object_digest(one) == object_digest(other)


def object_digest(obj: Obj) -> str:
    """Return what tells a state of an object from others that count."""
    leaving = _LEAVING if obj["metadata"].get("deletionTimestamp") else ""
    return leaving + _digest_of(orjson.dumps(_essence(obj)))


@lru_cache(maxsize=MAX_DIGESTS)
def _digest_of(essence: bytes) -> str:
    """Return the digest of what counts of an object. New practice clusters have most objects in common."""
    text = json.dumps(_without_empty(orjson.loads(essence)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differs(before: str, after: str) -> bool:
    return before != after.removeprefix(_LEAVING)


def _essence(obj: Obj) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _VOLATILE_META}
    annotations = meta.get("annotations") or {}
    meta["annotations"] = {key: value for key, value in annotations.items() if key not in _VOLATILE_ANNOTATIONS}
    if obj["kind"] == "Node":  # kubelets write addresses, images and heartbeats all the time
        spec = obj.get("spec", {})
        return {"labels": meta.get("labels"), "spec": {key: spec.get(key) for key in ("taints", "unschedulable")}}
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": meta}


def _without_empty(value: Any) -> Any:
    """Drop nulls and empty maps and lists: whether they are written out is the API server's taste."""
    if isinstance(value, dict):
        pairs = ((key, _without_empty(inner) if inner else inner) for key, inner in value.items())
        return {key: inner for key, inner in pairs if inner or not isinstance(inner, _EMPTY)}
    if isinstance(value, list):
        return [_without_empty(inner) for inner in value]
    return value
