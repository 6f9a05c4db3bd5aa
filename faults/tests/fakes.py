"""A cluster in a dictionary and a journal in a list, for tests that run the engine thousands of times."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import dataclass

import jsonpatch

from faults.engine import Engine, Record
from faults.engine.fields import merge
from faults.engine.model import Reply
from faults.engine.node_agents import SESSION
from faults.errors import AlreadyExists, Conflict, Invalid, NotFound, StaleEpoch, Unanswered, Unsupported
from faults.injectors import ACTIONS


@dataclass(frozen=True)
class FakeKind:
    """A kind, as discovery tells of it."""

    api_version: str
    kind: str
    namespaced: bool = True
    verbs: frozenset[str] = frozenset({"get", "list", "create", "patch", "delete"})


KINDS = [
    FakeKind("v1", "Namespace", namespaced=False),
    FakeKind("v1", "ConfigMap"),
    FakeKind("v1", "Pod"),
    FakeKind("batch/v1", "Job"),
    FakeKind("apps/v1", "Deployment"),
    FakeKind("apps/v1", "ReplicaSet"),
]
OF_THE_CLUSTER = [
    FakeKind("v1", "Node", namespaced=False),
    FakeKind("rbac.authorization.k8s.io/v1", "ClusterRole", namespaced=False),
]


def engine(cluster, journal, **keywords):
    """Return an engine that knows every kind of change."""
    return Engine(cluster, journal, ACTIONS, **keywords)


def _patched(obj, operations):
    try:
        return jsonpatch.apply_patch(obj, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as exc:
        raise Invalid(str(exc)) from exc


class FakeCluster:
    """``ClusterPort`` with UIDs, resourceVersions and preconditions. ``before_write`` sees every mutating call."""

    def __init__(self, more_kinds=()) -> None:
        self._kinds = [*KINDS, *more_kinds]
        self.objects: dict[tuple[str, str, str, str], dict] = {}
        self.pages: dict[str, dict[str, bytes]] = {}
        self.agents: dict[str, FakeAgent] = {}
        self.before_write = lambda verb, key: None
        self._numbers = itertools.count(1)
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})

    def kinds(self):
        return self._kinds

    def list(self, api_version, kind, namespace=""):
        wanted = (api_version, kind)
        found = [obj for key, obj in self.objects.items() if key[:2] == wanted and namespace in ("", key[2])]
        return copy.deepcopy(found)

    def cloud_assets(self, project):
        return []

    def get(self, api_version, kind, name, namespace=""):
        return copy.deepcopy(self._find(api_version, kind, namespace, name))

    def create(self, obj, *, field_manager="", dry_run=False):
        meta = obj["metadata"]
        key = (obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])
        self.before_write("create", key)
        if key in self.objects:
            raise AlreadyExists(f"{key} exists")
        self.objects[key] = merge(obj, {"metadata": {"uid": f"u{next(self._numbers)}", **self._version()}})
        return copy.deepcopy(self.objects[key])

    def patch(
        self, api_version, kind, name, namespace, patch, *, patch_type="merge", field_manager="", dry_run=False
    ):
        live = self._find(api_version, kind, namespace, name)
        if patch_type == "strategic":  # played on practice clusters, which know the merge keys of each kind
            raise Unsupported("the body of the request was in an unknown format")
        result = _patched(live, patch) if patch_type == "json" else copy.deepcopy(merge(live, patch))
        if result["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        if dry_run:
            return result
        self.before_write("patch", (api_version, kind, namespace, name))
        self.objects[api_version, kind, namespace, name] = merge(result, {"metadata": self._version()})
        return result

    def delete(
        self,
        api_version,
        kind,
        name,
        namespace="",
        *,
        uid="",
        version="",
        grace_seconds=None,
        propagation="Background",
    ):
        live = self._find(api_version, kind, namespace, name)
        if version and version != live["metadata"]["resourceVersion"]:
            raise Conflict("the resourceVersion in the precondition does not match")
        self.before_write("delete", (api_version, kind, namespace, name))
        if uid and live["metadata"]["uid"] != uid:
            raise Conflict("the UID in the precondition does not match")
        del self.objects[api_version, kind, namespace, name]

    def add_agent(self, node):
        """Run a node's agent, as a pod."""
        if ("v1", "Namespace", "", SESSION.namespace) not in self.objects:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SESSION.namespace}})
        meta = {"name": f"agent-{node}", "namespace": SESSION.namespace, "labels": dict(SESSION.labels)}
        spec = {"nodeName": node, "containers": [{"name": "agent", "args": ["--base-path=/k3"]}]}
        self.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}
        )
        self.agents.setdefault(f"agent-{node}", FakeAgent())

    def call(self, namespace, server, request):
        """Answer as a program would that keeps texts by their paths, or as a node's agent."""
        name = server.removeprefix("pods/").partition(":")[0]
        if namespace == SESSION.namespace:
            self._find("v1", "Pod", namespace, name)
            if request.method == "POST":
                self.before_write(request.path.rpartition("/")[2], ("v1", "Pod", namespace, name))
            status, body = self.agents[name].answer(request)
            return Reply(status, json.dumps(body).encode())
        key = ("v1", "Pod", namespace, server.removeprefix("pods/").partition(":")[0])
        if self._find(*key).get("status", {}).get("phase", "Running") != "Running":
            raise Unanswered("error trying to reach service: connection refused")
        pages = self.pages.setdefault(self.objects[key]["metadata"]["uid"], {})
        if request.method == "GET":
            return Reply(200, pages[request.path]) if request.path in pages else Reply(404, b"not found")
        self.before_write(request.method, key)
        if request.method == "DELETE":
            return Reply(200 if pages.pop(request.path, None) else 404, b"")
        pages[request.path] = json.dumps(request.body).encode()
        return Reply(201, b"")

    def edit(self, kind, name, change, api_version="v1", namespace="lab"):
        """Change an object as anybody else would."""
        key = (api_version, kind, namespace, name)
        if key in self.objects:
            self.objects[key] = merge(merge(self.objects[key], change), {"metadata": self._version()})

    def _find(self, *key):
        if key not in self.objects:
            raise NotFound(f"{key} not found")
        return self.objects[key]

    def _version(self):
        return {"resourceVersion": str(next(self._numbers))}


class FakeAgent:
    """A node's agent: leases and faults by name. Both outlive its pod, as they belong to the node."""

    def __init__(self) -> None:
        self.leases: dict[str, int] = {}
        self.faults: dict[str, dict] = {}

    def answer(self, request):
        path, body = request.path.removeprefix("/k3"), request.body
        if path == request.path:
            return 404, {"detail": "Not Found"}
        if path.startswith("/faults"):
            name = path.removeprefix("/faults").strip("/")
            if not name:
                return 200, {"faults": list(self.faults.values())}
            return (200, self.faults[name]) if name in self.faults else (404, {"detail": f"Fault {name} not found"})
        if path == "/lease":
            self.leases[body["holder"]] = body["seconds"]
            ended = [name for name, fault in self.faults.items() if not self.leases.get(fault["lease"])]
            self.faults = {name: fault for name, fault in self.faults.items() if name not in ended}
            return 200, {}
        if path == "/recover":
            return (200, {}) if self.faults.pop(body["fault_id"], None) else (404, {"detail": "not found"})
        if not self.leases.get(body["lease"]):
            return 403, {"detail": f"lease: {body['lease']} has no live lease here"}
        known = self.faults.setdefault(body["fault_id"], body)
        return (200, body) if known == body else (409, {"detail": "another fault"})


class MemoryJournal:
    """``Journal`` that outlives the engine, with an epoch that tests can take over."""

    def __init__(self) -> None:
        self.rows: dict[int, Record] = {}
        self.newest_epoch = 0
        self.saves = 0
        self.closed = False

    def open(self) -> MemoryHandle:
        self.newest_epoch += 1
        return MemoryHandle(self, self.newest_epoch)


@dataclass
class MemoryHandle:
    """One worker's handle on the journal."""

    store: MemoryJournal
    epoch: int

    def records(self):
        return [self.store.rows[index] for index in sorted(self.store.rows)]

    def save(self, *records):
        self.guard()
        self.store.saves += 1
        self.store.rows |= {record.index: copy.deepcopy(record) for record in records}

    def guard(self):
        if self.epoch != self.store.newest_epoch:
            raise StaleEpoch("overtaken")

    def close(self):
        self.store.closed = True
        return []
