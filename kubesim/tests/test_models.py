"""Every object loads in the models of the official client, which refuse what a real API server would never send."""

from __future__ import annotations

import pytest
from kubernetes import client as official

from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.schema.kinds import registry
from kubesim.schema.types import shape_of
from kubesim.store import Store
from kubesim.tests import examples

CONTAINERS = {
    "containers": [
        {
            "name": "main",
            "image": "train:1",
            "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": 0.5, "memory": "1.5Gi"}},
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        }
    ],
    "volumes": [
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": 1024}},
        {"name": "settings", "configMap": {"name": "c"}},
    ],
}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": CONTAINERS}
SELECTOR = {"matchLabels": {"app": "web"}}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
SUBJECTS = [{"kind": "User", "name": "ada"}]

OBJECTS = {
    "namespaces": {},
    "nodes": {"status": {"capacity": {"nvidia.com/gpu": 8, "memory": "1024Mi"}}},
    "pods": {"spec": CONTAINERS},
    "jobs.batch": {"spec": {"template": {"spec": {**CONTAINERS, "restartPolicy": "Never"}}}},
    "deployments.apps": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "replicasets.apps": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "events": {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "ml"}, "message": "m", "reason": "r"},
    "configmaps": {"data": {"a": "b"}},
    "secrets": {"stringData": {"a": "b"}},
    "serviceaccounts": {},
    "services": {"spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}},
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "resourcequotas": {"spec": {"hard": {"requests.nvidia.com/gpu": 800}}},
    "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"memory": "1Gi"}}]}},
    "roles.rbac.authorization.k8s.io": {"rules": RULES},
    "rolebindings.rbac.authorization.k8s.io": {"roleRef": {"kind": "Role", "name": "r"}, "subjects": SUBJECTS},
    "clusterroles.rbac.authorization.k8s.io": {"rules": RULES},
    "clusterrolebindings.rbac.authorization.k8s.io": {
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": SUBJECTS,
    },
    "leases.coordination.k8s.io": {"spec": {"holderIdentity": "n1", "renewTime": "2026-01-05T09:00:00.000000Z"}},
    "priorityclasses.scheduling.k8s.io": {"value": 100},
    "endpointslices.discovery.k8s.io": {"addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]},
    "poddisruptionbudgets.policy": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
} | examples.OBJECTS
KINDS = list(registry.stored())


@pytest.fixture
def ops():
    clock = ManualClock()
    operations = Operations(Store(clock), clock)
    operations.create(registry.by_resource("namespaces"), "", {"metadata": {"name": "ml"}})
    return operations


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
def test_a_new_object_of_each_kind_loads_in_the_official_models(ops, kind):
    name = examples.NAMES.get(kind.resource, "a")
    sent = {**OBJECTS[kind.resource], "metadata": {"name": name}}
    made = ops.create(kind, "ml" if kind.namespaced else "", sent)
    model = getattr(official, kind.schema)
    assert model.from_dict(made).metadata.name == name
    assert ops.patch(kind, "ml" if kind.namespaced else "", name, {"metadata": {"labels": {"x": "y"}}})


@pytest.mark.parametrize("kind", registry.all(), ids=lambda kind: f"{kind.resource}-{kind.version}")
def test_each_kind_has_its_type(kind):
    shape = shape_of(kind.schema)
    assert shape is not None
    assert {"apiVersion", "kind", "metadata"} <= set(shape.fields)


def test_what_a_kubelet_leaves_out_is_written_with_its_zero_value(ops):
    pods = registry.by_resource("pods")
    ops.create(pods, "ml", {"metadata": {"name": "a"}, **OBJECTS["pods"]})
    waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    made = ops.patch(pods, "ml", "a", {"status": {"containerStatuses": [waiting]}}, subresource="status")
    reported = made["status"]["containerStatuses"][0]
    assert (reported["ready"], reported["restartCount"], reported["imageID"], reported["lastState"]) == (
        False,
        0,
        "",
        {},
    )
    assert official.V1Pod.from_dict(made).status.container_statuses[0].restart_count == 0
