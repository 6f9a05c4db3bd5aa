"""Creation: what is stored, what is answered, what is refused and with which words."""

from __future__ import annotations

import pytest

from kubesim.api.options import Options
from kubesim.schema.kinds import registry
from kubesim.tests.operations import DEPLOYMENTS, JOBS, NAMESPACES, PODS, deployment, pod, refused, template


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
            'Job in version "v1" cannot be handled as a Pod: no kind "Job" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:110"',
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


@pytest.mark.parametrize("version", ["5", "0005", "18446744073709551615"])
def test_a_new_object_has_no_version_yet(ops, version):
    body = {"metadata": {"name": "a", "resourceVersion": version}, "spec": pod()["spec"]}
    assert (
        refused(ops.create, PODS, "ml", body).message == "resourceVersion should not be set on objects to be created"
    )
    tried = ops.create(PODS, "ml", body, options=Options(dry_run=True))
    assert tried["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    "version", ["", "0", "000", "x", "-1", "+5", " 5", "1.5", "18446744073709551616", "9" * 9000]
)
def test_what_is_no_version_counts_for_none(ops, version):
    made = ops.create(PODS, "ml", {"metadata": {"name": "a", "resourceVersion": version}, "spec": pod()["spec"]})
    assert int(made["metadata"]["resourceVersion"]) < 1000
