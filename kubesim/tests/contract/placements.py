"""What scheduler and controllers do with pods, as data: what is sent, and what a real control plane made of it.

``placed/AREA.yaml`` says what is sent, ``placed/AREA.answers.json`` what a real one answered. The second file
is recorded and never written by hand: ``python -m kubesim.tests.contract.placements --kubeconfig FILE [NAME]``, over
a cluster that has no nodes, and without kubelets.

A case has ``nodes`` (a number, or what is special of each by name), ``objects`` (anything, made first), ``pods``
(what is special of each by name, made one after the other) and ``then`` (the names of pods that are deleted). Of a
pod's entry ``requests``, ``limits``, ``ports``, ``image`` belong to its container, ``labels`` to its metadata and all
else to its spec; ``status`` is set afterwards, and what is ``ending`` is deleted and never goes. Where upstream
draws lots among equal nodes, ``ties`` makes only the number of pods per node count. ``gone`` lists objects
(``Kind/name``) that are deleted then, ``show`` kinds that are to be seen at the end, events among them.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.tests.contract.plain import Answer, Plain

FOLDER = Path(__file__).with_name("placed")
NAMESPACE = "placements"
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi"}
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/placements/deployments",
    "Service": "/api/v1/namespaces/placements/services",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/placements/poddisruptionbudgets",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/placements/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Endpoints": "/api/v1/namespaces/placements/endpoints",
    "Event": "/api/v1/namespaces/placements/events",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/placements/resourceclaims",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/placements/endpointslices",
}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OF_CONTAINER = ("requests", "limits", "ports", "image")
OF_POD = ("labels", "annotations", "status", "ending")
MERGE = "application/strategic-merge-patch+json"
SECONDS = 60.0
"""How long to wait for what must come."""
QUIET = {"kubesim": 0.05}
LONG_QUIET = 0.5
"""How long to wait for what must not come: kubesim does at once whatever it does."""


class Steady(Plain):
    """A cluster that is asked over one connection: a case asks often."""

    connection: HTTPConnection | None = None

    def __call__(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **_: Any
    ) -> Answer:
        """Send one request and return the whole answer."""
        self.connection = self.connection or self.connect()
        data = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, {**self.credentials, "Content-Type": kind})
        response = self.connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def close(self) -> None:
        """End the connection."""
        if self.connection is not None:
            self.connection.close()


@cache
def cases() -> dict[str, Any]:
    """Return what is sent, by name."""
    files = sorted(FOLDER.glob("*.yaml"))
    return {name: case for path in files for name, case in data.read(path).items()}


@cache
def answers() -> dict[str, Any]:
    """Return what the real one answered, by name."""
    files = sorted(FOLDER.glob("*.answers.json"))
    return {name: answer for path in files for name, answer in json.loads(path.read_text(encoding="utf-8")).items()}


def play(case: dict[str, Any], cluster: Plain) -> dict[str, Any]:
    """Send a case and return what came of it; nothing of it stays on the cluster."""
    undo: list[str] = []
    try:
        return dict(_play(case, cluster, undo))
    finally:
        for path in reversed(undo):
            _delete(cluster, path)
        _until(lambda: _cleared(cluster), "the pods to go")
        cluster("DELETE", f"/api/v1/namespaces/{NAMESPACE}/events")


def _play(case: dict[str, Any], cluster: Plain, undo: list[str]) -> Iterator[tuple[str, Any]]:
    _prepare(cluster)
    _make_nodes(cluster, case["nodes"], undo)
    for obj in case.get("objects") or ():
        _make(cluster, PATHS[obj["kind"]], obj, undo)
    for name, entry in (case.get("pods") or {}).items():
        _make_pod(cluster, pod(name, entry or {}))
        _settle(cluster, name, silent=bool(case.get("silent")))
        _change(cluster, name, entry or {})
    if case.get("replicas"):
        _until(lambda: _bound(cluster) == case["replicas"], "the replicas to be placed")
    yield "pods", _told(cluster, ties=bool(case.get("ties")))
    if case.get("ties"):
        placed = Counter(found["spec"]["nodeName"] for found in _pods(cluster) if found["spec"].get("nodeName"))
        yield "per node", sorted(placed.values())
    for name in case.get("then") or ():
        _delete(cluster, f"{PODS}/{name}")
    if case.get("then"):
        _until(lambda: _bound(cluster) == len(_pods(cluster)), "the others to be placed")
        yield "then", {found["metadata"]["name"]: found["spec"]["nodeName"] for found in _pods(cluster)}
    for kind, name in (entry.split("/") for entry in case.get("gone") or ()):
        _shown(cluster, kind)  # only what has settled goes
        cluster("DELETE", f"{PATHS[kind]}/{name}")
    for kind in case.get("show") or ():
        yield kind, _shown(cluster, kind)


def _prepare(cluster: Plain) -> None:
    cluster("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    _until(lambda: cluster("GET", account).code == 200, "the service account")


def _make_nodes(cluster: Plain, wanted: int | dict[str, Any], undo: list[str]) -> None:
    entries = {f"n{number + 1}": None for number in range(wanted)} if isinstance(wanted, int) else wanted
    for name, entry in entries.items():
        _make_node(cluster, name, entry or {}, undo)
    _until(lambda: all(_settles(cluster, name, entry or {}) for name, entry in entries.items()), "the nodes")


def _settles(cluster: Plain, name: str, entry: dict[str, Any]) -> bool:
    """Tell whether a node has just the taints that it should; if not, it is not known to be ready."""
    if _is_settled(cluster, name, entry):
        return True
    _report(cluster, name, entry)
    return False


def _make_node(cluster: Plain, name: str, entry: dict[str, Any], undo: list[str]) -> None:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"} | (entry.get("labels") or {})
    spec = {field: entry[field] for field in ("taints", "unschedulable") if field in entry}
    node = {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
    _make(cluster, "/api/v1/nodes", node, undo)
    _report(cluster, name, entry)


def _report(cluster: Plain, name: str, entry: dict[str, Any]) -> None:
    """Say what a node's kubelet would say."""
    capacity = CAPACITY | {key: str(value) for key, value in (entry.get("capacity") or {}).items()}
    types = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    conditions = [
        {"type": key, "status": value, "reason": "Told", "message": ""} | times for key, value in types.items()
    ]
    status = {"capacity": capacity, "allocatable": capacity, "conditions": conditions}
    status |= {"images": entry["images"]} if "images" in entry else {}
    answer = cluster("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, kind="application/merge-patch+json")
    assert answer.code == 200, answer.body


def _make(cluster: Plain, path: str, obj: dict[str, Any], undo: list[str]) -> None:
    answer = cluster("POST", path, obj)
    assert answer.code == 201, answer.body
    undo.append(f"{path}/{obj['metadata']['name']}")
    if obj["kind"] == "PersistentVolume":
        phases = ("Available", "Bound")
        _until(lambda: cluster("GET", undo[-1]).json["status"].get("phase") in phases, "the volume to be known")
    named = obj["spec"].get("volumeName", "") if obj["kind"] == "PersistentVolumeClaim" else ""
    if named and cluster("GET", f"{PATHS['PersistentVolume']}/{named}").code == 200:
        _until(lambda: cluster("GET", undo[-1]).json["status"].get("phase") == "Bound", "the claim to be bound")


def pod(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the pod of an entry."""
    container: dict[str, Any] = {"name": "main", "image": entry.get("image", "busybox:1.36")}
    resources = {field: entry[field] for field in ("requests", "limits") if field in entry}
    resources = {field: {key: str(value) for key, value in found.items()} for field, found in resources.items()}
    container |= {"resources": resources} | ({"ports": entry["ports"]} if "ports" in entry else {})
    spec = {field: value for field, value in entry.items() if field not in (*OF_CONTAINER, *OF_POD)}
    metadata = {"name": name, "labels": entry.get("labels") or {}, "annotations": entry.get("annotations") or {}}
    return {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 30} | spec}


def _make_pod(cluster: Plain, obj: dict[str, Any]) -> None:
    """Create a pod; a real one's admission may learn of its priority class a moment later."""
    _until(lambda: cluster("POST", PODS, obj).code == 201, f"{obj['metadata']['name']} to be admitted")


def _change(cluster: Plain, name: str, entry: dict[str, Any]) -> None:
    """Do what a kubelet would have done."""
    if "status" in entry:
        assert cluster("PATCH", f"{PODS}/{name}/status", {"status": entry["status"]}, kind=MERGE).code == 200
    if entry.get("ending"):
        cluster("DELETE", f"{PODS}/{name}")


# What came of it.


def _settle(cluster: Plain, name: str, *, silent: bool) -> None:
    """Wait until the scheduler has spoken of a pod, and for what it does at the same time."""
    if not silent:
        _until(lambda: _spoken(cluster, name), f"a word about {name}")
        if _get(cluster, name)["spec"].get("nodeName"):
            return
    time.sleep(QUIET.get(cluster.name, LONG_QUIET))


def _spoken(cluster: Plain, name: str) -> bool:
    found = _get(cluster, name)
    condition = _condition(found, "PodScheduled")
    if found["spec"].get("nodeName") or condition.get("reason") == "SchedulingGated":
        return True
    return bool(condition) and any(event["reason"] == "FailedScheduling" for event in _events(cluster, name))


def _told(cluster: Plain, *, ties: bool) -> dict[str, Any]:
    return {found["metadata"]["name"]: _verdict(cluster, found, ties=ties) for found in _pods(cluster) if _own(found)}


def _own(found: dict[str, Any]) -> bool:
    """Tell the pods of the case from those of its deployments, whose names nobody knows."""
    return not found["metadata"].get("ownerReferences")


def _verdict(cluster: Plain, found: dict[str, Any], *, ties: bool) -> dict[str, Any]:
    name, status = found["metadata"]["name"], found["status"]
    scheduled, disrupted = _condition(found, "PodScheduled"), _condition(found, "DisruptionTarget")
    node = found["spec"].get("nodeName", "")
    told = {
        "node": "one of them" if node and ties else node,
        "nominated": "one of them"
        if status.get("nominatedNodeName") and ties
        else status.get("nominatedNodeName", ""),
        "scheduled": "" if node else _words(scheduled),
        "disrupted": _words(disrupted),
        "going": "deletionTimestamp" in found["metadata"],
        "events": sorted({_event(event, node if ties else "") for event in _events(cluster, name)}),
    }
    return {key: value for key, value in told.items() if value}


def _shown(cluster: Plain, kind: str) -> list[Any]:
    """Return the objects of a kind once they have stayed the same for a while."""
    seen: list[Any] | None = None
    while True:
        found = cluster("GET", PATHS[kind]).json["items"]
        if found == seen:
            bare = _told_events if kind == "Event" else _bare
            told = sorted((bare(obj) for obj in found if _is_of_case(obj)), key=json.dumps)
            return _at_once(told) if kind == "Event" else told
        seen = found
        time.sleep(QUIET.get(cluster.name, 4 * LONG_QUIET))


def _is_of_case(obj: dict[str, Any]) -> bool:
    """Tell what a case made from what the cluster has anyway, and from what is told of pods already."""
    about = obj.get("involvedObject", {}).get("kind", "")
    return not obj["metadata"]["name"].startswith("kube") and about != "Pod"


def _at_once(events: list[str]) -> list[str]:
    """Leave out what a claim is told when all are looked at again: a real one may do so at any moment."""
    waiting = {event.partition(":")[0] for event in events if "WaitForFirstConsumer" in event}
    return [event for event in events if "WaitForPodScheduled" not in event or event.partition(":")[0] not in waiting]


def _told_events(event: dict[str, Any]) -> str:
    about = event["involvedObject"]
    return f"{about['kind']} {about['name']}: {_event(event, '')}"


def _bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what differs each time."""
    text = TIME.sub("<time>", UID.sub("<uid>", json.dumps(obj, sort_keys=True)))
    text = re.sub(r'"resourceVersion": "\d+"', '"resourceVersion": "<version>"', text)
    found: dict[str, Any] = json.loads(text)
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        found["metadata"].pop(field, None)
    found.get("subsets", []).sort(key=json.dumps)  # upstream sorts by a hash of its own
    if "generateName" in found["metadata"]:
        found["metadata"]["name"] = found["metadata"]["generateName"]
    return found


def _words(condition: dict[str, Any]) -> str:
    return " ".join(str(condition.get(key, "")) for key in ("status", "reason", "message")).strip()


def _event(event: dict[str, Any], node: str) -> str:
    source = event.get("reportingComponent") or event.get("source", {}).get("component", "")
    text = UID.sub(
        "<uid>", f"{event['type']} {event['reason']} {source} {event.get('action', '')}: {event['message']}"
    )
    return text.replace(f" to {node}", " to one of them") if node else text


def _condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = found["status"].get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _events(cluster: Plain, name: str) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=involvedObject.name={name},involvedObject.kind=Pod"
    return sorted(cluster("GET", path).json["items"], key=lambda event: int(event["metadata"]["resourceVersion"]))


def _get(cluster: Plain, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster("GET", f"{PODS}/{name}").json
    return found


def _pods(cluster: Plain) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster("GET", PODS).json["items"]
    return found


def _cleared(cluster: Plain) -> bool:
    """Delete what pods there are, as often as somebody makes new ones."""
    left = _pods(cluster)
    for found in left:
        _delete(cluster, f"{PODS}/{found['metadata']['name']}")
    return not left


def _bound(cluster: Plain) -> int:
    return sum(bool(found["spec"].get("nodeName")) for found in _pods(cluster))


def _is_settled(cluster: Plain, name: str, entry: dict[str, Any]) -> bool:
    taints = cluster("GET", f"/api/v1/nodes/{name}").json["spec"].get("taints") or ()
    wanted = {taint["key"] for taint in entry.get("taints") or ()}
    wanted |= {"node.kubernetes.io/unschedulable"} if entry.get("unschedulable") else set()
    return {taint["key"] for taint in taints} == wanted


def _delete(cluster: Plain, path: str) -> None:
    """Delete at once; what guards a volume in use has nothing to guard here."""
    cluster("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    if "/persistentvolume" in path:
        cluster("PATCH", path, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")


def _until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.02)


def main() -> None:
    """Record what a cluster without nodes answers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="the cases whose name contains one of these (default: all)")
    options = parser.parse_args()
    cluster, known = Steady("recorded", options.kubeconfig), answers()
    for path in sorted(FOLDER.glob("*.yaml")):
        kept: dict[str, Any] = {}
        for name in data.read(path):
            if not options.names or any(part in name for part in options.names):
                kept[name] = play(cases()[name], cluster)
            elif name in known:
                kept[name] = known[name]
        path.with_suffix(".answers.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
