"""Random histories of requests, for Hypothesis: the same one is played on kubesim and on a real control plane.

A history is a list of steps on a few objects of a few kinds, by several managers. What is left of the times, uids
and versions that no two clusters share must be the same: every answer on the way, and every object in the end.
Kinds and fields are chosen so that no controller but the garbage collector has a word in what is compared; after a
deletion the runner waits until that one has come to rest.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from hypothesis import strategies as st

from kubesim.tests.contract.exchanges import make_namespace, normalised, told
from kubesim.tests.contract.plain import Answer, Plain

SECONDS = 20
REST_S = 60
"""How long the collector may take over what a history leaves: it asks a busy API server again ever later."""
DISCOVERY_S = 100
"""Two rounds of the collector's search for kinds, one of which another kind that has just gone may hold up."""
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
GROUP = "contract.example.com"
COLLECTOR = "kube-controller-manager"
BUNDLE = "kube-root-ca.crt"
"""What every namespace has, and every cluster another one."""
DIFF = re.compile(r"(?s)(if it was previously negative\)).*")
"""The structures of Go's that a forbidden change of a pod is shown in."""
UNDECLARED = re.compile(r"errors:\n(?:  .*\n)*?  (\S+: field not declared in schema)(?:\n  .*)*")
"""Upstream goes through fields in any order and ends at an undeclared one: what else it finds is drawn by lot."""
KINDS = {
    "configmaps": ("v1", "ConfigMap", "/api/v1"),
    "secrets": ("v1", "Secret", "/api/v1"),
    "services": ("v1", "Service", "/api/v1"),
    "pods": ("v1", "Pod", "/api/v1"),
    "deployments": ("apps/v1", "Deployment", "/apis/apps/v1"),
    "widgets": (f"{GROUP}/v1", "Widget", f"/apis/{GROUP}/v1"),
}
VERSIONED = ("configmaps", "secrets", "widgets")
"""Kinds that only their clients write, so that a version that somebody read is a version that there is."""
SCALED = ("deployments", "widgets")
_WIDGET = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "minimum": 0, "maximum": 5},
                "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "note": {"type": "string"}},
        },
    },
}
_SUBRESOURCES = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _WIDGET},
                "subresources": _SUBRESOURCES,
            }
        ],
    },
}


@dataclass(frozen=True)
class Step:
    """One request. ``{uid:kind/name}`` and ``{version:kind/name}`` in it stand for what is known by then."""

    method: str
    kind: str
    name: str
    path: str = ""
    type: str = "application/json"
    body: Any = None

    def __repr__(self) -> str:
        return f"{self.method} {self.kind}/{self.name}{self.path} {json.dumps(self.body)} ({self.type})"


NAMES = st.sampled_from(["a", "b"])
MANAGERS = st.sampled_from(["one", "two", "three"])
TEXTS = st.sampled_from(["x", "y", ""])
LABELS = st.dictionaries(st.sampled_from(["l", "m", "n.io/o"]), TEXTS, max_size=2)
FINALIZERS = st.lists(st.sampled_from(["example.com/a", "example.com/b"]), max_size=2, unique=True)
OWNER = st.sampled_from(["configmaps/a", "secrets/a", "widgets/b"])
_SOME_ENV = st.lists(
    st.builds(lambda name, value: {"name": name, "value": value}, st.sampled_from(["A", "B", "C"]), TEXTS),
    max_size=3,
    unique_by=lambda entry: entry["name"],
)
_SOME_PORTS = st.lists(
    st.sampled_from(
        [
            {"containerPort": 80},
            {"containerPort": 80, "protocol": "UDP"},
            {"containerPort": 81, "name": "p"},
        ]
    ),
    max_size=2,
    unique_by=json.dumps,
)


def _optional(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=parts)


CONTAINER = st.builds(
    lambda name, image, rest: {"name": name, "image": image, **rest},
    st.sampled_from(["main", "side"]),
    st.sampled_from(["i:1", "i:2"]),
    _optional(
        env=_SOME_ENV,
        ports=_SOME_PORTS,
        args=st.lists(TEXTS, max_size=2),
        resources=st.sampled_from([{}, {"limits": {"cpu": "1"}}, {"requests": {"cpu": "500m", "memory": "1Ki"}}]),
    ),
)
CONTAINERS = st.lists(CONTAINER, min_size=1, max_size=2, unique_by=lambda entry: entry["name"])
TOLERATIONS = st.lists(st.sampled_from([{"key": "k", "operator": "Exists"}, {"key": "q", "value": "v"}]), max_size=2)
POD_SPEC = st.builds(
    lambda containers, rest: {"containers": containers, "schedulerName": "nobody", **rest},
    CONTAINERS,
    _optional(tolerations=TOLERATIONS, nodeSelector=LABELS, terminationGracePeriodSeconds=st.integers(0, 2)),
)
DEPLOYMENT_SPEC = st.builds(
    lambda replicas, spec: {
        "replicas": replicas,
        "paused": True,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": spec},
    },
    st.integers(0, 3),
    POD_SPEC,
)
SERVICE_SPEC = st.builds(
    lambda ports, rest: {"clusterIP": "None", "ports": ports, **rest},
    st.lists(
        st.sampled_from(
            [
                {"name": "p", "port": 80},
                {"name": "q", "port": 80, "protocol": "UDP"},
                {"name": "r", "port": 81, "targetPort": "web"},
            ]
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda port: port["name"],
    ),
    _optional(selector=LABELS, publishNotReadyAddresses=st.booleans()),
)
WIDGET_SPEC = st.builds(
    lambda size, rest: {"size": size, **rest},
    st.sampled_from(["s", "l", "huge"]),
    _optional(
        replicas=st.integers(-1, 6),
        parts=st.lists(
            st.builds(
                lambda name, rest: {"name": name, **rest},
                st.sampled_from(["p", "q"]),
                _optional(count=st.integers(0, 2)),
            ),
            min_size=1,
            max_size=2,
        ),
        free=st.dictionaries(st.sampled_from(["f", "g"]), st.integers(0, 1) | TEXTS, max_size=2),
        unknown=TEXTS,
    ),
)
CONTENT: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "configmaps": _optional(
        data=st.dictionaries(st.sampled_from(["k", "l", "b a d"]), TEXTS, max_size=2), immutable=st.booleans()
    ),
    "secrets": _optional(
        data=st.dictionaries(st.sampled_from(["k", "l"]), st.just("eA=="), max_size=2),
        stringData=st.dictionaries(st.sampled_from(["l", "m"]), TEXTS, max_size=1),
        type=st.sampled_from(["Opaque", "example.com/t"]),
    ),
    "services": st.builds(lambda spec: {"spec": spec}, SERVICE_SPEC),
    "pods": st.builds(lambda spec: {"spec": spec}, POD_SPEC),
    "deployments": st.builds(lambda spec: {"spec": spec}, DEPLOYMENT_SPEC),
    "widgets": st.builds(
        lambda spec, rest: {"spec": spec, **rest},
        WIDGET_SPEC,
        _optional(status=st.just({"note": "mine"})),
    ),
}
PARTIAL = {
    "deployments": st.builds(
        lambda spec: {"spec": spec},
        _optional(
            replicas=st.integers(0, 3),
            template=st.builds(
                lambda spec: {"spec": spec}, _optional(containers=CONTAINERS, tolerations=TOLERATIONS)
            ),
        ),
    ),
    "services": st.builds(
        lambda spec: {"spec": spec},
        _optional(ports=st.lists(st.sampled_from([{"port": 80}, {"name": "s", "port": 82}]), max_size=2)),
    ),
    "pods": st.builds(
        lambda spec: {"spec": spec | {"schedulerName": "nobody"}},
        _optional(containers=CONTAINERS, tolerations=TOLERATIONS),
    ),
}


def _metadata(draw: st.DrawFn, kind: str, name: str) -> dict[str, Any]:
    metadata = draw(_optional(labels=LABELS, annotations=LABELS, finalizers=FINALIZERS))
    if kind != "pods" and draw(st.integers(0, 7)) == 0:
        owner = draw(OWNER)
        if owner != f"{kind}/{name}":
            version, named, _ = KINDS[owner.partition("/")[0]]
            reference = {"apiVersion": version, "kind": named, "name": owner[-1], "uid": f"{{uid:{owner}}}"}
            metadata["ownerReferences"] = [reference | draw(_optional(blockOwnerDeletion=st.just(True)))]
    return {"name": name, **metadata}


def _object(draw: st.DrawFn, kind: str, name: str, content: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    version, named, _ = KINDS[kind]
    return {"apiVersion": version, "kind": named, "metadata": _metadata(draw, kind, name), **draw(content)}


def _query(draw: st.DrawFn, *more: str) -> str:
    dry = ["dryRun=All"] if draw(st.integers(0, 9)) == 0 else []
    return "?" + "&".join([f"fieldManager={draw(MANAGERS)}", *dry, *more])


def _write(draw: st.DrawFn, kind: str, name: str) -> Step:
    """Create, replace, or apply a whole object."""
    verb = draw(st.sampled_from(["create", "create", "update", "apply", "force"]))
    obj = _object(draw, kind, name, CONTENT[kind])
    if verb == "create":
        return Step("POST", kind, "", _query(draw), body=obj)
    if verb == "update":
        if kind == "widgets" or (kind in VERSIONED and draw(st.booleans())):
            obj["metadata"]["resourceVersion"] = f"{{version:{kind}/{name}}}"
        return Step("PUT", kind, name, _query(draw), body=obj)
    if draw(st.booleans()) and kind in PARTIAL:
        obj = {**_object(draw, kind, name, st.just({})), **draw(PARTIAL[kind])}
    forced = ["force=true"] if verb == "force" else []
    return Step("PATCH", kind, name, _query(draw, *forced), APPLY, obj)


def _patch(draw: st.DrawFn, kind: str, name: str) -> Step:
    """Change some of an object."""
    types = [MERGE, JSON_PATCH, STRATEGIC] if kind != "widgets" else [MERGE, JSON_PATCH]
    media = draw(st.sampled_from(types))
    if media == JSON_PATCH:
        pointer = draw(
            st.sampled_from(["/metadata/labels/l", "/metadata/finalizers/0", "/metadata/labels", "/data/k"])
        )
        operation = draw(st.sampled_from(["add", "replace", "remove", "test"]))
        value = {"l": "x"} if pointer == "/metadata/labels" else draw(st.sampled_from(["x", "example.com/a"]))
        return Step("PATCH", kind, name, _query(draw), media, [{"op": operation, "path": pointer, "value": value}])
    change = {"metadata": draw(_optional(labels=LABELS | st.none(), finalizers=FINALIZERS | st.none()))}
    if draw(st.booleans()):
        change |= draw(PARTIAL.get(kind, CONTENT[kind]))
    return Step("PATCH", kind, name, _query(draw), media, change)


def _delete(draw: st.DrawFn, kind: str, name: str) -> Step:
    """Delete an object, or all of a kind."""
    options = _optional(
        propagationPolicy=st.sampled_from(["Foreground", "Background", "Orphan"]),
        gracePeriodSeconds=st.sampled_from([0, 1]),
        preconditions=st.sampled_from([{"uid": "other"}, {"uid": f"{{uid:{kind}/{name}}}"}]),
    )
    body = draw(st.none() | options)
    if draw(st.integers(0, 5)) == 0 and kind != "services":
        selector = draw(st.sampled_from(["", "?labelSelector=l%3Dx", "?labelSelector=%21l"]))
        return Step(
            "DELETE", kind, "", selector, body=body and {k: v for k, v in body.items() if k[0] == "p"} or None
        )
    return Step("DELETE", kind, name, body=body)


def _below(draw: st.DrawFn, kind: str, name: str) -> Step:
    """Write the scale or the status."""
    replicas = draw(st.integers(-1, 4))
    if kind == "widgets" and draw(st.booleans()):
        status = {"status": draw(_optional(note=TEXTS, replicas=st.integers(0, 3), unknown=TEXTS))}
        return Step("PATCH", kind, name, f"/status{_query(draw)}", MERGE, status)
    if draw(st.booleans()):
        return Step("PATCH", kind, name, f"/scale{_query(draw)}", MERGE, {"spec": {"replicas": replicas}})
    return Step("GET", kind, name, draw(st.sampled_from(["/scale", "/status"])))


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One request on one of the objects."""
    kind, name = draw(st.sampled_from(sorted(KINDS))), draw(NAMES)
    makers = [_write, _write, _patch, _patch, _delete, *([_below] if kind in SCALED else [])]
    return draw(st.sampled_from(makers))(draw, kind, name)


HISTORIES = st.lists(steps(), min_size=2, max_size=14)


class Run:
    """One history on one cluster, in a namespace of its own."""

    def __init__(self, cluster: Plain) -> None:
        self.cluster = cluster
        self.namespace = f"history-{secrets.token_hex(5)}"  # Hypothesis seeds the module random
        self._known: dict[str, dict[str, str]] = {}

    @contextmanager
    def space(self) -> Iterator[Run]:
        """Make the namespace and take it away again."""
        make_namespace(self.cluster, self.namespace)
        try:
            yield self
        finally:
            for kind in KINDS:
                for obj in self.objects(kind):
                    if obj["metadata"].get("finalizers"):
                        path = self.path(kind, obj["metadata"]["name"])
                        self.cluster("PATCH", path, {"metadata": {"finalizers": None}}, kind=MERGE)
            self.cluster("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of an object, or of a collection."""
        return f"{KINDS[kind][2]}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Return what there is of a kind, but for what every namespace has."""
        items = self.cluster("GET", self.path(kind)).json["items"]
        return [obj for obj in items if obj["metadata"]["name"] != BUNDLE]

    def send(self, step: Step) -> Answer:
        """Send one request; after a deletion wait for the garbage collector."""
        body = json.loads(self._filled(json.dumps(step.body))) if step.body is not None else None
        answer = self.cluster(step.method, self.path(step.kind, step.name) + step.path, body, kind=step.type)
        self._learn(step.kind, answer)
        if step.method == "DELETE" or "ownerReferences" in json.dumps(step.body):
            self.settle()
        return answer

    def play(self, history: list[Step]) -> Iterator[Any]:
        """Yield every answer, and then what is left of every kind, without what no two clusters share."""
        for step in history:
            answer = self.send(step)
            yield comparable(told(answer), self.namespace)
        self.settle()
        for kind in KINDS:
            yield comparable(self.objects(kind), self.namespace)

    def settle(self) -> None:
        """Wait until nothing is left for the garbage collector to do."""
        end = monotonic() + REST_S
        while self._waiting():
            assert monotonic() < end, f"the garbage collector does not come to rest: {self._waiting()}"

    def _waiting(self) -> list[str]:
        """Return the objects that wait for the garbage collector: orphans, and those that it shall end."""
        found = {kind: self.objects(kind) for kind in KINDS}
        alive = {obj["metadata"]["uid"] for objects in found.values() for obj in objects}
        waiting = []
        for kind, objects in found.items():
            for obj in objects:
                metadata = obj["metadata"]
                owners = {reference["uid"] for reference in metadata.get("ownerReferences", ())}
                orphan = bool(owners) and not owners & alive and not metadata.get("deletionTimestamp")
                finalizers = set(metadata.get("finalizers", ()))
                held = finalizers & {"orphan"} or (
                    finalizers & {"foregroundDeletion"} and not self._blocked(metadata["uid"], found)
                )
                if orphan or (metadata.get("deletionTimestamp") and held):
                    waiting.append(f"{kind}/{metadata['name']}")
        return waiting

    def _blocked(self, uid: str, found: dict[str, list[dict[str, Any]]]) -> bool:
        """Tell whether an object that is being deleted waits for dependents that wait for their own finalizers."""
        references = [
            (reference, obj["metadata"].get("deletionTimestamp"))
            for objects in found.values()
            for obj in objects
            for reference in obj["metadata"].get("ownerReferences", ())
            if reference["uid"] == uid
        ]
        return any(ref.get("blockOwnerDeletion") for ref, _ in references) and all(ending for _, ending in references)

    def _learn(self, kind: str, answer: Answer) -> None:
        metadata = (answer.json or {}).get("metadata", {})
        if answer.code < 300 and metadata.get("resourceVersion") and metadata.get("uid"):
            self._known[f"{kind}/{metadata['name']}"] = metadata

    def _filled(self, text: str) -> str:
        for path, metadata in self._known.items():
            text = text.replace(f"{{uid:{path}}}", metadata["uid"])
            text = text.replace(f"{{version:{path}}}", metadata["resourceVersion"])
        return text.replace("{ns}", self.namespace)


def comparable(value: Any, namespace: str) -> Any:
    """Return an answer without what no two clusters share, and without what the garbage collector has signed."""
    return _unsigned(normalised(value, namespace))


def _unsigned(value: Any) -> Any:
    if isinstance(value, str):
        return UNDECLARED.sub(r"\1", DIFF.sub(r"\1", value))
    if isinstance(value, dict):
        kept = {key: _unsigned(item) for key, item in value.items()}
        kept |= (
            {"items": [o for o in kept["items"] if (o.get("metadata") or {}).get("name") != BUNDLE]}
            if "items" in kept
            else {}
        )
        if "managedFields" in kept:
            entries = [entry for entry in kept["managedFields"] if entry.get("manager") != COLLECTOR]
            kept["managedFields"] = sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
        return kept
    return [_unsigned(item) for item in value] if isinstance(value, list) else value


@contextmanager
def defined(cluster: Plain) -> Iterator[None]:
    """Serve the custom kind of the histories, and have it collected, while the block lasts."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster("POST", path, DEFINITION)
    try:
        end = monotonic() + REST_S
        while cluster("GET", f"/apis/{GROUP}/v1/widgets").code != 200:
            assert monotonic() < end, "the custom kind is not served"
        _collected(cluster)
        yield
    finally:
        cluster("DELETE", f"{path}/{DEFINITION['metadata']['name']}")


def _collected(cluster: Plain) -> None:
    """Wait until the garbage collector knows the custom kind: a real one looks for new kinds every half minute."""
    run = Run(cluster)
    with run.space():
        widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}}
        made = cluster("POST", run.path("widgets"), widget).json["metadata"]
        cluster("DELETE", run.path("widgets", "a"), {"propagationPolicy": "Orphan"})
        query = f"{run.path('widgets')}?watch=1&timeoutSeconds={SECONDS}&resourceVersion={made['resourceVersion']}"
        known = any(_ended(cluster, query) for _ in range(DISCOVERY_S // SECONDS))
        assert known, "the garbage collector does not know the custom kind"


def _ended(cluster: Plain, query: str) -> bool:
    """Tell whether something is deleted before a watch ends."""
    with cluster.watching(query) as events:
        return any(event["type"] == "DELETED" for event in events)
