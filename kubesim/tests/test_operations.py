"""Requests: what is stored, what is answered, what is refused and with which words."""

from __future__ import annotations

import pytest

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.inprocess import InProcessClient
from kubesim.schema.kinds import registry
from kubesim.store import Store

NAMESPACES = registry.by_resource("namespaces")
PODS = registry.by_resource("pods")
NODES = registry.by_resource("nodes")
JOBS = registry.by_resource("jobs.batch")
DEPLOYMENTS = registry.by_resource("deployments.apps")
EVENTS = registry.by_resource("events")
BUDGETS = registry.by_resource("poddisruptionbudgets.policy")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def ops(clock):
    operations = Operations(Store(clock), clock)
    operations.create(NAMESPACES, "", {"metadata": {"name": "ml"}})
    return operations


TYPED = {"apiVersion": "apps/v1", "kind": "Deployment"}


def pod(name="a", **container):
    spec = {"containers": [{"name": "main", "image": "nginx:1.27", **container}]}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}


def template(**spec):
    body = {"containers": [{"name": "main", "image": "train:1"}], **spec}
    return {"metadata": {"labels": {"app": "web"}}, "spec": body}


def deployment(**spec):
    body = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return {"metadata": {"name": "web"}, "spec": body}


def job(**spec):
    return {"metadata": {"name": "train"}, "spec": {"template": template(restartPolicy="Never"), **spec}}


def refused(call, *args, **kwargs):
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_a_new_pod_has_what_upstream_gives_it(ops):
    made = ops.create(
        PODS, "ml", pod(resources={"limits": {"nvidia.com/gpu": 1, "cpu": "1000m", "memory": "1024Mi"}})
    )
    spec = made["spec"]
    assert list(made)[:3] == ["kind", "apiVersion", "metadata"]
    assert made["metadata"]["creationTimestamp"] == "2026-01-05T09:00:00Z"
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["serviceAccountName"], spec["priority"], spec["enableServiceLinks"]) == ("default", 0, True)
    assert [(t["key"], t["tolerationSeconds"]) for t in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    container = spec["containers"][0]
    assert container["resources"]["requests"] == {"nvidia.com/gpu": "1", "cpu": "1", "memory": "1Gi"}
    assert (container["imagePullPolicy"], container["terminationMessagePath"]) == (
        "IfNotPresent",
        "/dev/termination-log",
    )
    assert container["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert spec["volumes"][0]["projected"]["sources"][1]["configMap"]["name"] == "kube-root-ca.crt"


def test_no_token_is_mounted_where_the_account_says_so(ops):
    accounts = registry.by_resource("serviceaccounts")
    ops.create(accounts, "ml", {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False})
    wanted = pod()
    wanted["spec"]["serviceAccountName"] = "quiet"
    assert "volumes" not in ops.create(PODS, "ml", wanted)["spec"]


def test_a_service_account_that_does_not_exist_forbids_the_pod(ops):
    wanted = pod()
    wanted["spec"]["serviceAccountName"] = "ghost"
    error = refused(ops.create, PODS, "ml", wanted)
    assert error.code == 403
    assert error.message == (
        'pods "a" is forbidden: error looking up service account ml/ghost: serviceaccount "ghost" not found'
    )


def test_generated_names_end_in_five_letters(ops):
    names = {
        ops.create(PODS, "ml", {**pod(), "metadata": {"generateName": "x-"}})["metadata"]["name"] for _ in range(20)
    }
    assert len(names) == 20
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (lambda o: o.get(PODS, "ml", "x"), 404, 'pods "x" not found'),
        (lambda o: o.get(DEPLOYMENTS, "ml", "x"), 404, 'deployments.apps "x" not found'),
        (lambda o: o.create(PODS, "nowhere", pod()), 404, 'namespaces "nowhere" not found'),
        (lambda o: o.create(NAMESPACES, "", {"metadata": {"name": "ml"}}), 409, 'namespaces "ml" already exists'),
        (
            lambda o: o.create(PODS, "ml", {**pod(), "metadata": {"name": "a", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            lambda o: o.create(PODS, "ml", {"kind": "Job", "spec": {}}),
            400,
            'Job in version "v1" cannot be handled as a Pod',
        ),
        (lambda o: o.delete(PODS, "ml", "x"), 404, 'pods "x" not found'),
    ],
)
def test_errors_are_worded_as_upstream_words_them(ops, call, code, message):
    error = refused(call, ops)
    assert (error.code, error.message) == (code, message)


@pytest.mark.parametrize(
    ("kind", "obj", "message"),
    [
        (PODS, {"metadata": {"name": "a"}}, 'Pod "a" is invalid: spec.containers: Required value'),
        (PODS, pod(image=None), 'Pod "a" is invalid: spec.containers[0].image: Required value'),
        (
            PODS,
            pod("A"),
            'Pod "A" is invalid: metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist '
            "of lower "
            "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
            "'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            PODS,
            pod(imagePullPolicy="Sometimes"),
            'Pod "a" is invalid: spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported '
            "values: "
            '"Always", "IfNotPresent", "Never"',
        ),
        (
            PODS,
            pod(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            'Pod "a" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "data"',
        ),
        (
            PODS,
            pod(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            'Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than '
            "or equal to "
            "cpu limit of 1",
        ),
        (
            PODS,
            pod(resources={"requests": {"nvidia.com/gpu": "1"}}),
            'Pod "a" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non '
            "overcommitable resources",
        ),
        (
            JOBS,
            {"metadata": {"name": "train"}, "spec": {"template": template()}},
            'Job.batch "train" is invalid: spec.template.spec.restartPolicy: Required value: valid values: '
            '"OnFailure", '
            '"Never"',
        ),
        (
            DEPLOYMENTS,
            deployment(selector={"matchLabels": {"app": "db"}}),
            'Deployment.apps "web" is invalid: spec.template.metadata.labels: Invalid value: {"app":"web"}: '
            "`selector` does "
            "not match template `labels`",
        ),
        (
            DEPLOYMENTS,
            {"metadata": {"name": "web"}, "spec": {}},
            'Deployment.apps "web" is invalid: [spec.selector: Required value, spec.template.metadata.labels: '
            "Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: "
            "Required value]",
        ),
    ],
)
def test_invalid_objects_are_422_with_every_cause(ops, kind, obj, message):
    error = refused(ops.create, kind, "ml", obj)
    assert (error.code, error.reason, error.message) == (422, "Invalid", message)
    assert error.details["causes"][0]["field"]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            deployment(replicas="two"),
            'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into '
            "Go struct "
            "field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            deployment(template={"spec": {"containers": {"name": "x"}}}),
            'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal object into '
            "Go struct "
            "field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
    ],
)
def test_values_of_the_wrong_type_are_400(ops, obj, message):
    error = refused(ops.create, DEPLOYMENTS, "ml", obj)
    assert (error.code, error.message) == (400, message)


def test_unknown_fields_are_refused_warned_of_or_ignored(ops):
    typo = pod(imagee="x")
    strict = refused(ops.create, PODS, "ml", typo, options=Options(field_validation="Strict"))
    assert strict.message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
        '"spec.containers[0].imagee"'
    )
    warned = Options(field_validation="Warn")
    assert "imagee" not in ops.create(PODS, "ml", typo, options=warned)["spec"]["containers"][0]
    assert warned.warnings == ['unknown field "spec.containers[0].imagee"']


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
    by_status = {"spec": {"replicas": 9}, "status": {"readyReplicas": 1}}
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
    ops.patch(PODS, "ml", "a", {"status": {"phase": "Running"}}, subresource="status")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    ops.create(BUDGETS, "ml", budget)
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    ops.patch(BUDGETS, "ml", "b", {"status": counts}, subresource="status")
    error = refused(ops.create, PODS, "ml", {}, name="a", subresource="eviction")
    assert error.code == 429
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    ops.patch(BUDGETS, "ml", "b", {"status": {"disruptionsAllowed": 1}}, subresource="status")
    assert ops.create(PODS, "ml", {}, name="a", subresource="eviction")["status"] == "Success"


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
    note = {"metadata": {"name": "f"}, "regarding": {"name": "b", "namespace": "ml"}, "note": "x", "eventTime": None}
    ops.create(newer, "ml", note)
    assert ops.get(EVENTS, "ml", "f")["message"] == "x"


def test_a_lease_is_created_by_an_update(ops):
    leases, options = registry.by_resource("leases.coordination.k8s.io"), Options()
    lease = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}}
    ops.update(leases, "ml", "n1", lease, options=options)
    assert options.created
    assert refused(ops.update, DEPLOYMENTS, "ml", "web", deployment()).code == 404


def test_applying_creates_then_merges_and_takes_away_what_is_no_longer_wanted(ops):
    mine = Options(field_manager="ci")
    wanted = {
        **TYPED,
        **deployment(replicas=2),
        "metadata": {"name": "web", "labels": {"team": "ml", "tier": "back"}},
    }
    ops.patch(DEPLOYMENTS, "ml", "web", wanted, patch_type="apply", options=mine)
    assert mine.created
    ops.patch(
        DEPLOYMENTS, "ml", "web", {"metadata": {"labels": {"other": "x"}}}, options=Options(field_manager="kubectl")
    )
    less = {**TYPED, **deployment(replicas=3), "metadata": {"name": "web", "labels": {"team": "ml"}}}
    after = ops.patch(DEPLOYMENTS, "ml", "web", less, patch_type="apply", options=Options(field_manager="ci"))
    assert after["metadata"]["labels"] == {"team": "ml", "other": "x"}
    assert after["spec"]["replicas"] == 3
    managers = [(entry["manager"], entry["operation"]) for entry in after["metadata"]["managedFields"]]
    assert managers == [("ci", "Apply"), ("kubectl", "Update")]


def test_applying_over_anothers_field_is_a_conflict_unless_forced(ops):
    ops.create(DEPLOYMENTS, "ml", deployment(), options=Options(field_manager="kubectl-create"))
    wanted = {**TYPED, "spec": {"replicas": 4}}
    error = refused(
        ops.patch, DEPLOYMENTS, "ml", "web", wanted, patch_type="apply", options=Options(field_manager="ci")
    )
    assert (error.code, error.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "kubectl-create" using apps/v1: .spec.replicas',
    )
    forced = Options(field_manager="ci", force=True)
    after = ops.patch(DEPLOYMENTS, "ml", "web", wanted, patch_type="apply", options=forced)
    assert after["spec"]["replicas"] == 4
    second, first = after["metadata"]["managedFields"]
    assert "f:replicas" not in first["fieldsV1"]["f:spec"]
    assert second["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_a_container_that_is_no_longer_applied_goes(ops):
    two = [{"name": "main", "image": "a:1"}, {"name": "side", "image": "b:1"}]
    both = TYPED | deployment(template=template(containers=two))
    ops.patch(DEPLOYMENTS, "ml", "web", both, patch_type="apply", options=Options(field_manager="ci"))
    one = TYPED | deployment(template=template(containers=two[:1]))
    after = ops.patch(DEPLOYMENTS, "ml", "web", one, patch_type="apply", options=Options(field_manager="ci"))
    assert [entry["name"] for entry in after["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_a_manager_owns_what_it_changed(ops):
    ops.create(DEPLOYMENTS, "ml", deployment(), options=Options(field_manager="kubectl-create"))
    options = Options(field_manager="kubectl-scale")
    ops.patch(DEPLOYMENTS, "ml", "web", {"spec": {"replicas": 5}}, options=options)
    first, second = ops.get(DEPLOYMENTS, "ml", "web")["metadata"]["managedFields"]
    assert second["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert first["manager"] == "kubectl-create"
    assert "f:replicas" not in first["fieldsV1"]["f:spec"]
    assert 'k:{"name":"main"}' in first["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]


def test_a_secret_keeps_its_plain_data_encoded(ops):
    secrets = registry.by_resource("secrets")
    made = ops.create(secrets, "ml", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (made["type"], made["data"]) == ("Opaque", {"a": "Yg=="})
    assert "stringData" not in made


def test_a_collection_is_deleted_by_selector(ops):
    ops.create(PODS, "ml", pod("a"))
    ops.create(PODS, "ml", {**pod("b"), "metadata": {"name": "b"}})
    ops.delete_collection(PODS, "ml", label_selector="app=web")
    assert [obj["metadata"]["name"] for obj in ops.list(PODS, "ml").items] == ["b"]


async def test_a_watch_turns_changes_at_the_edge_of_its_selector_into_arrivals_and_departures(ops):
    client = InProcessClient(ops, ops.store)
    await client.create("pods", pod(), namespace="ml")
    version = (await client.list("pods")).resource_version
    for phase in ("Running", "Failed"):
        await client.patch("pods", "a", "ml", {"status": {"phase": phase}}, subresource="status")
    watch = client.watch("pods", field_selector="status.phase=Running", resource_version=version)
    assert [(await anext(watch)).type for _ in range(2)] == ["ADDED", "DELETED"]
    await watch.aclose()


async def test_a_watch_goes_on_with_what_happens_later(ops):
    client = InProcessClient(ops, ops.store)
    watch = client.watch("pods", "ml")
    await client.create("pods", pod(), namespace="ml")
    assert (await anext(watch)).type == "ADDED"
    await client.delete("pods", "a", "ml")
    assert (await anext(watch)).type == "DELETED"
    await watch.aclose()


async def test_events_go_an_hour_after_they_last_happened(ops, clock):
    ops.create(EVENTS, "ml", {"metadata": {"name": "old"}})
    await clock.advance(1800)
    ops.create(EVENTS, "ml", {"metadata": {"name": "newer"}})
    await clock.advance(1801)
    ops.create(EVENTS, "ml", {"metadata": {"name": "newest"}})
    assert [obj["metadata"]["name"] for obj in ops.list(EVENTS, "ml").items] == ["newer", "newest"]


def test_a_subresource_that_a_kind_does_not_have_is_not_found(ops):
    maps = registry.by_resource("configmaps")
    ops.create(maps, "ml", {"metadata": {"name": "c"}})
    error = refused(ops.patch, maps, "ml", "c", {}, subresource="status")
    assert (error.code, error.message) == (404, "the server could not find the requested resource")
