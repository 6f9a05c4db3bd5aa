"""Changes and deletions: conflicts, generations, what is immutable, finalizers, grace, scale and eviction."""

from __future__ import annotations

from kubesim.api.options import Options
from kubesim.schema.kinds import registry
from kubesim.tests.operations import BUDGETS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, deployment, job, pod, refused


def test_an_update_with_a_stale_version_is_a_conflict(ops):
    first = ops.create(DEPLOYMENTS, "ml", deployment())
    ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 2}})
    error = refused(ops.update, DEPLOYMENTS, "ml", "web", first)
    assert (error.code, error.reason) == (409, "Conflict")
    assert error.message == (
        'Operation cannot be fulfilled on deployments.apps "web": the object has been modified; please apply '
        "your changes "
        "to the latest version and try again"
    )


def test_an_update_with_version_0_means_whichever_there_is(ops):
    first = ops.create(DEPLOYMENTS, "ml", deployment())
    ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 2}})
    first["metadata"]["resourceVersion"] = "0"
    assert ops.update(DEPLOYMENTS, "ml", "web", first)["spec"]["replicas"] == first["spec"]["replicas"]


def test_generation_counts_changes_of_the_spec_only(ops):
    ops.create(DEPLOYMENTS, "ml", deployment())
    labelled = ops.patch(DEPLOYMENTS, "ml", "web", {"metadata": {"labels": {"a": "b"}}})
    scaled = ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 3}})
    reported = ops.patch(DEPLOYMENTS, "ml", "web", {"status": {"replicas": 3}}, subresource="status")
    assert [obj["metadata"]["generation"] for obj in (labelled, scaled, reported)] == [1, 2, 2]


def test_a_change_that_changes_nothing_writes_nothing(ops):
    ops.create(DEPLOYMENTS, "ml", deployment())
    before = ops.store.resource_version
    ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 1}})
    assert ops.store.resource_version == before


def test_status_and_spec_are_written_apart(ops):
    ops.create(DEPLOYMENTS, "ml", deployment())
    by_status = {"spec": {"replicas": 9}, "status": {"replicas": 1, "readyReplicas": 1}}
    assert ops.patch(DEPLOYMENTS, "ml", "web", by_status, subresource="status")["spec"]["replicas"] == 1
    by_spec = ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 4}, "status": {"readyReplicas": 7}})
    assert (by_spec["spec"]["replicas"], by_spec["status"]["readyReplicas"]) == (4, 1)


def test_a_jobs_template_is_immutable(ops):
    ops.create(JOBS, "ml", job())
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "train:2"}]}}}}
    error = refused(ops.patch, JOBS, "ml", "train", change, patch_type="strategic")
    assert error.code == 422
    assert error.message.startswith('Job.batch "train" is invalid: spec.template: Invalid value: {"labels":')
    assert error.message.endswith(": field is immutable")


def test_a_job_selects_its_pods_by_its_uid(ops):
    made = ops.create(JOBS, "ml", job())
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "app": "web",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "train",
        "controller-uid": uid,
        "job-name": "train",
    }
    counts = ("completions", "parallelism", "backoffLimit", "completionMode", "suspend")
    assert [spec[name] for name in counts] == [1, 1, 6, "NonIndexed", False]


def test_a_deployment_rolls_a_quarter_at_a_time(ops):
    spec = ops.create(DEPLOYMENTS, "ml", deployment())["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)


def test_only_images_and_tolerations_of_a_pod_change(ops):
    ops.create(PODS, "ml", pod())
    change = {"spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}
    changed = ops.patch(PODS, "ml", "a", change, patch_type="strategic")
    assert changed["spec"]["containers"][0]["image"] == "nginx:1.28"
    error = refused(ops.patch, PODS, "ml", "a", {"spec": {"nodeSelector": {"a": "b"}}})
    assert 'Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than' in error.message


def test_a_running_pod_is_deleted_gracefully_and_then_for_good(ops):
    ops.create(PODS, "ml", pod())
    ops.create(PODS, "ml", {"target": {"kind": "Node", "name": "n1"}}, name="a", subresource="binding")
    going = ops.delete(PODS, "ml", "a")
    assert going["metadata"]["deletionTimestamp"] == "2026-01-05T09:00:30Z"
    sooner = ops.delete(PODS, "ml", "a", delete_options={"gracePeriodSeconds": 5})
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    ops.delete(PODS, "ml", "a", delete_options={"gracePeriodSeconds": 0})
    assert ops.store.get(PODS, "ml", "a") is None


def test_a_pod_that_was_never_scheduled_is_deleted_at_once(ops):
    ops.create(PODS, "ml", pod())
    assert ops.delete(PODS, "ml", "a")["kind"] == "Pod"
    assert ops.store.get(PODS, "ml", "a") is None


def test_a_pod_is_bound_once(ops):
    ops.create(PODS, "ml", pod())
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    ops.create(PODS, "ml", binding, name="a", subresource="binding")
    bound = ops.get(PODS, "ml", "a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    error = refused(ops.create, PODS, "ml", binding, name="a", subresource="binding")
    assert error.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )


def test_finalizers_hold_an_object_until_the_last_is_gone(ops):
    maps = registry.by_resource("configmaps")
    ops.create(maps, "ml", {"metadata": {"name": "c", "finalizers": ["example.com/keep"]}})
    held = ops.delete(maps, "ml", "c")
    assert held["metadata"]["deletionTimestamp"]
    ops.patch(maps, "ml", "c", {"metadata": {"finalizers": None}})
    assert ops.store.get(maps, "ml", "c") is None


def test_deleting_a_job_without_a_policy_warns_of_its_pods(ops):
    ops.create(JOBS, "ml", job())
    options = Options()
    answer = ops.delete(JOBS, "ml", "train", options=options)
    assert answer["metadata"]["finalizers"] == ["orphan"]
    assert options.warnings[0].startswith("child pods are preserved by default when jobs are deleted")


def test_a_foreground_deletion_waits_for_dependents(ops):
    owner = ops.create(DEPLOYMENTS, "ml", deployment())
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner["metadata"]["uid"]}
    ops.create(PODS, "ml", {**pod(), "metadata": {"name": "a", "ownerReferences": [reference]}})
    waiting = ops.delete(DEPLOYMENTS, "ml", "web", delete_options={"propagationPolicy": "Foreground"})
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_a_delete_that_means_another_object_is_a_conflict(ops):
    ops.create(DEPLOYMENTS, "ml", deployment())
    error = refused(ops.delete, DEPLOYMENTS, "ml", "web", delete_options={"preconditions": {"uid": "other"}})
    assert error.code == 409
    assert "the UID in the precondition (other) does not match the UID in record (" in error.message


def test_nothing_is_created_in_a_terminating_namespace(ops):
    ops.create(PODS, "ml", pod())
    ending = ops.delete(NAMESPACES, "", "ml")
    assert ending["status"]["phase"] == "Terminating"
    error = refused(ops.create, PODS, "ml", pod("b"))
    assert error.code == 403
    assert error.message == (
        'pods "b" is forbidden: unable to create new content in namespace ml because it is being terminated'
    )
    finalized = {**ending, "spec": {"finalizers": []}}
    ops.update(NAMESPACES, "", "ml", finalized, subresource="finalize")
    assert ops.store.get(NAMESPACES, "", "ml") is None


def test_the_scale_of_a_deployment_is_read_and_written(ops):
    ops.create(DEPLOYMENTS, "ml", deployment())
    scale = ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 3}}, subresource="scale")
    assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["selector"]) == ("Scale", 3, "app=web")
    assert ops.get(DEPLOYMENTS, "ml", "web")["spec"]["replicas"] == 3


def test_a_disruption_budget_without_room_refuses_an_eviction(ops):
    ops.create(PODS, "ml", pod())
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    ops.patch(PODS, "ml", "a", {"status": ready}, subresource="status")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    ops.create(BUDGETS, "ml", budget)
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    counts["observedGeneration"] = 1
    ops.patch(BUDGETS, "ml", "b", {"status": counts}, subresource="status")
    error = refused(ops.create, PODS, "ml", {}, name="a", subresource="eviction")
    assert error.code == 429
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    ops.patch(BUDGETS, "ml", "b", {"status": {"disruptionsAllowed": 1}}, subresource="status")
    assert ops.create(PODS, "ml", {}, name="a", subresource="eviction")["status"] == "Success"
