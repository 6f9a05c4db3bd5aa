"""What limits a request, and kinds with ways of their own: quotas, ranges, dry runs, events, leases."""

from __future__ import annotations

from kubesim.api.options import Options
from kubesim.schema.kinds import registry
from kubesim.tests.operations import DEPLOYMENTS, EVENTS, PODS, deployment, pod, refused


def test_a_quota_refuses_what_does_not_fit(ops):
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    ops.create(registry.by_resource("resourcequotas"), "ml", quota)
    ops.create(PODS, "ml", pod("big", resources={"limits": {"nvidia.com/gpu": "8"}}))
    error = refused(ops.create, PODS, "ml", pod("more", resources={"limits": {"nvidia.com/gpu": "1"}}))
    assert (error.code, error.message) == (
        403,
        'pods "more" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: '
        "requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
    )


def test_a_quota_of_limits_wants_them_stated(ops):
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.cpu": "8", "limits.memory": "8Gi"}}}
    ops.create(registry.by_resource("resourcequotas"), "ml", quota)
    error = refused(ops.create, PODS, "ml", pod())
    assert error.message == (
        'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: main; limits.memory for: main'
    )


def test_a_limit_range_sets_defaults(ops):
    item = {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    ops.create(registry.by_resource("limitranges"), "ml", {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    made = ops.create(PODS, "ml", pod())
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "1Gi"},
    }
    assert made["status"]["qosClass"] == "Burstable"


def test_a_dry_run_changes_nothing(ops):
    before = ops.store.resource_version
    made = ops.create(PODS, "ml", pod(), options=Options(dry_run=True))
    assert made["metadata"]["uid"]
    assert ops.store.resource_version == before


def test_events_are_one_store_under_two_groups(ops):
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"name": "a", "namespace": "ml"},
        "message": "hello",
        "count": 2,
    }
    ops.create(EVENTS, "ml", event)
    newer = registry.by_path("events.k8s.io", "v1", "events")
    seen = ops.get(newer, "ml", "e")
    assert (seen["apiVersion"], seen["note"], seen["deprecatedCount"]) == ("events.k8s.io/v1", "hello", 2)
    assert seen["regarding"]["name"] == "a"
    assert len(ops.list(newer, "ml", field_selector="regarding.name=a").items) == 1
    note = {
        "metadata": {"name": "f"},
        "regarding": {"name": "b", "namespace": "ml"},
        "note": "x",
        "eventTime": "2026-01-05T09:00:00.000000Z",
        "type": "Normal",
        "reason": "Tested",
        "action": "Test",
        "reportingController": "example.com/test",
        "reportingInstance": "test-1",
    }
    ops.create(newer, "ml", note)
    assert ops.get(EVENTS, "ml", "f")["message"] == "x"


def test_a_lease_is_created_by_an_update(ops):
    leases, options = registry.by_resource("leases.coordination.k8s.io"), Options()
    lease = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}}
    ops.update(leases, "ml", "n1", lease, options=options)
    assert options.created
    assert refused(ops.update, DEPLOYMENTS, "ml", "web", deployment()).code == 404
