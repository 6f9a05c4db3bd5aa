"""Changes in a cluster before a check failed, and their field managers."""

from __future__ import annotations

import copy

import pytest

from faults.checks import Condition, ObjectRead
from sessions.observer.cache import Cache
from sessions.observer.changes import Cause, describe

DEPLOYMENT = ("apps/v1", "Deployment")
POD = ("v1", "Pod")
CONDITION = Condition({"found": ObjectRead("apps/v1", "Deployment", "ml", name="inference")}, "true", "''")


def deployment(replicas=2, image="web:1", manager="kubectl-client-side-apply", **meta):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            **{"name": "inference", "namespace": "ml", "uid": "u1", "labels": {"app": "inference"}},
            **{"managedFields": [owns("kubelet", {"f:status": {}}, "status"), *owners(manager)], **meta},
        },
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
    }


def owners(manager):
    first = owns("kubectl-client-side-apply", {"f:spec": {"f:template": {}}}, time="2026-05-04T10:00:00Z")
    return [first, owns(manager, {"f:spec": {"f:replicas": {}}}, time="2026-05-04T11:00:00Z")]


def owns(manager, fields, subresource="", time="2026-05-04T09:00:00Z"):
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, "subresource": subresource, "time": time}


@pytest.fixture
def cache(time):
    cache = Cache([DEPLOYMENT, POD], time, lambda kind, namespace: None)
    cache.put(DEPLOYMENT, "ADDED", deployment())
    for kind in (DEPLOYMENT, POD):
        cache.synced(kind)
    return cache


def test_a_scaled_deployment_is_told_with_field_values_and_manager(cache, time):
    cache.put(DEPLOYMENT, "MODIFIED", deployment(replicas=0, manager="kubectl-scale"))
    cause = cache.changes.cause_of(CONDITION, time.advance(5))
    assert cause == Cause("Deployment ml/inference: spec.replicas 2 -> 0", "kubectl-scale", traceable=True)


def test_a_change_by_a_controller_is_nobodys(cache, time):
    cache.put(DEPLOYMENT, "MODIFIED", deployment(replicas=0, manager="kube-controller-manager"))
    assert not cache.changes.cause_of(CONDITION, time.advance(5)).traceable


def test_who_deleted_something_is_not_known(cache, time):
    cache.put(DEPLOYMENT, "DELETED", deployment())
    assert cache.changes.cause_of(CONDITION, time()) == Cause("Deployment ml/inference: deleted", "not known")


def test_a_first_list_and_a_new_status_are_no_changes(cache, time):
    cache.put(DEPLOYMENT, "MODIFIED", {**deployment(), "status": {"availableReplicas": 0}})
    assert cache.changes.cause_of(CONDITION, time()) == Cause()


def test_an_old_change_explains_nothing(cache, time):
    cache.put(DEPLOYMENT, "MODIFIED", deployment(replicas=0, manager="kubectl-scale"))
    assert cache.changes.cause_of(CONDITION, time.advance(600)) == Cause()


def test_a_tools_change_explains_more_than_what_the_cluster_made_of_it(cache, time):
    cache.put(DEPLOYMENT, "MODIFIED", deployment(replicas=0, manager="kubectl-scale"))
    pod = {"metadata": {"name": "inference-x", "namespace": "ml", "uid": "u2", "managedFields": []}}
    cache.put(POD, "ADDED", copy.deepcopy(pod))
    cache.put(POD, "DELETED", pod)
    condition = Condition({"pods": ObjectRead("v1", "Pod", "ml")}, "true", "''")
    assert cache.changes.cause_of(condition, time()).changed_by == "kubectl-scale"


def test_values_inside_lists_are_named_by_their_place():
    told = describe(deployment(), deployment(image="web:2"))
    assert told == "spec.template.spec.containers[0].image web:1 -> web:2"


def test_many_changes_at_once_are_told_in_short():
    before, after = deployment(), deployment()
    after["spec"] |= {"paused": True, "minReadySeconds": 5, "progressDeadlineSeconds": 7}
    assert describe(before, after).endswith("and 1 more")
