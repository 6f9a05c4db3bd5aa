"""What a cluster is born with: namespaces, service accounts, the CA's config map, roles, classes of priority."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import orjson

from kubesim import apiservices, data
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.auth import bootstrap
from kubesim.controllers.namespace import ROOT_CA, ROOT_CA_NOTE
from kubesim.errors import Obj, tolerating
from kubesim.saved import key_of_object
from kubesim.schema.registry import Kind
from kubesim.standing import MANAGER
from kubesim.store import Event
from kubesim.times import stamp

_flow_control: data.Reader[dict[str, dict[str, Obj]]] = data.beside(__file__, "flowcontrol.json")
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
QUEUES_MANAGER = "api-priority-and-fairness-config-producer-v1"
TRACKING = "kube-apiserver-legacy-service-account-token-tracking"
"""Since when the server has noted the use of tokens that are kept in secrets."""
AUTHORITIES = "extension-apiserver-authentication"
"""Where kubelets and other servers learn whose client certificates the API server takes."""
_planted: list[tuple[Kind, bytes, bytes]] = []
"""Objects of the first cluster that are alike in all: their JSON, and their identifiers in it."""
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""Any of its times: more than one second may pass while a cluster is planted."""


class Seeder:
    """Creates the first objects of a cluster, and those that every later namespace is given at once."""

    def __init__(self, operations: Operations, ca_pem: bytes) -> None:
        self._operations = operations
        self._ca = ca_pem.decode()

    def follow_namespaces(self) -> None:
        """Give every namespace that is made from now on its service account and config map, before anybody asks."""
        self._operations.store.subscribe(self._operations.registry.by_resource("namespaces"), self._on_namespace)

    def plant(self) -> None:
        """Create what a fresh cluster has: of what is alike in all, later ones of a process get copies."""
        store, at = self._operations.store, stamp(self._operations.clock.now())
        for name, kept in ((AUTHORITIES, self._authorities()), (TRACKING, {"since": at.partition("T")[0]})):
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            self._create("configmaps", "kube-system", {**head, "data": kept})
        for kind, raw, uid in _planted:
            store.create(kind, orjson.loads(_TIME.sub(at.encode(), raw.replace(uid, str(uuid4()).encode()))))
        if not _planted:
            made: dict[bytes, Event] = {}
            stop = store.subscribe(None, lambda event: made.update({key_of_object(event): event}))
            self._plant_alike()
            stop()
            for event in made.values():
                _planted.append((event.kind, event.object.raw, event.object["metadata"]["uid"].encode()))

    def _plant_alike(self) -> None:
        """Create what is alike in all clusters, but for times and identifiers."""
        for plural, alike in data.table(__file__, "seed.yaml").items():
            for obj in alike:
                self._create(plural, "", obj)
        for resource, namespace, obj in bootstrap.objects():
            self._create(resource, namespace, obj)
        for resource, obj in _fair_queues():
            self._create(resource, "", obj, QUEUES_MANAGER)
        self._plant_api_services()

    def _authorities(self) -> dict[str, str]:
        """Return whose certificates are taken: those of clients, and those of a proxy that names users in headers."""
        headers = {"extra-headers-prefix": "X-Remote-Extra-", "group-headers": "X-Remote-Group"}
        headers |= {"username-headers": "X-Remote-User", "allowed-names": "front-proxy-client"}
        named = {f"requestheader-{key}": f'["{value}"]' for key, value in headers.items()}
        return {"client-ca-file": self._ca, "requestheader-client-ca-file": self._ca, **named}

    def _plant_api_services(self) -> None:
        """Say of everything that is served that it is available."""
        operations, options = self._operations, Options(user="system:apiserver", field_manager=MANAGER)
        kind = operations.registry.by_resource(apiservices.RESOURCE)
        for obj in apiservices.objects(operations.registry, operations.clock.now()):
            made = operations.create(kind, "", obj, options=options)
            ready = {**made, "status": obj["status"]}
            operations.update(kind, "", made["metadata"]["name"], ready, subresource="status", options=options)

    def _on_namespace(self, event: Event) -> None:
        """Furnish a new namespace."""
        if event.type != "ADDED":
            return
        name = event.object["metadata"]["name"]
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self._create("serviceaccounts", name, account)
        meta = {"name": ROOT_CA, "annotations": ROOT_CA_NOTE}
        bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca.crt": self._ca}}
        self._create("configmaps", name, bundle, "kube-controller-manager")

    def _create(self, resource: str, namespace: str, obj: Obj, manager: str = MANAGER) -> None:
        """Create one object, unless it is there."""
        kind = self._operations.registry.by_resource(resource)
        options = Options(user="system:apiserver", field_manager=manager)
        with tolerating(409):
            self._operations.create(kind, namespace, obj, options=options)


def _fair_queues() -> Iterator[tuple[str, Obj]]:
    """Yield the priority levels and flow schemas of a fresh control plane (``flowcontrol.json``), as it has them."""
    notes = {"apf.kubernetes.io/autoupdate-spec": "true"}
    kinds = {"prioritylevelconfigurations": "PriorityLevelConfiguration", "flowschemas": "FlowSchema"}
    for plural, entries in _flow_control().items():
        for name, spec in entries.items():
            head = {"apiVersion": f"{FLOW_CONTROL}/v1", "kind": kinds[plural]}
            yield f"{plural}.{FLOW_CONTROL}", head | {"metadata": {"name": name, "annotations": notes}, "spec": spec}
