"""Admission and conversion webhooks: what they are asked, and what follows from what they say."""

from __future__ import annotations

import json
import random
import re
import time

import pytest

from kubesim.tests.contract import hooks as own
from kubesim.tests.contract.exchanges import LETTERS
from kubesim.tests.contract.hooks import patching, response

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
WAIT_S = 60
UNMARKED = {"matchExpressions": [{"key": "marker", "operator": "DoesNotExist"}]}
"""Which objects a test's own hooks are asked about: of several that refuse, any may be the one that is told."""


@pytest.fixture(scope="module")
def hooks(tmp_path_factory):
    with own.serving(tmp_path_factory.mktemp("hooks")) as hooks:
        yield hooks


@pytest.fixture
def configured(cluster, namespace, hooks):
    """Return a call that makes a configuration for the test's namespace and waits until it works."""
    made = []

    def configure(*specs, mutating=False, rule=RULE):
        name = f"contract-{''.join(random.choices(LETTERS, k=8))}"
        resource = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
        ready = hooks.says(f"/ready-{name}", response(allowed=False, status={"message": "ready"}))
        markers = {"name": "ready.example.com", "clientConfig": hooks.client(ready),
                   "objectSelector": {"matchLabels": {"marker": name}}}  # fmt: skip
        space = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        common = {"rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"], **space}
        asked = {**common, "objectSelector": UNMARKED} if rule is RULE else common
        webhooks = [{**common, "rules": [RULE], **markers}, *({**asked, **spec} for spec in specs)]
        answer = cluster("POST", f"{GROUP}/{resource}", {"metadata": {"name": name}, "webhooks": webhooks})
        assert answer.code == 201, answer.json
        made.append(f"{GROUP}/{resource}/{name}")
        marker = config_map(f"marker-{name}")
        marker["metadata"]["labels"] = {"marker": name}
        end = time.monotonic() + WAIT_S
        while "ready" not in cluster("POST", f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All", marker).message:
            assert time.monotonic() < end
        for seen in hooks.seen.values():
            seen.clear()

    yield configure
    for path in made:
        cluster("DELETE", path)


def hook(hooks, path, answer, name="own.example.com", **more):
    return {"name": name, "clientConfig": hooks.client(hooks.says(path, answer)), **more}


def config_map(name="a", **more):
    return {"metadata": {"name": name}, "data": {"k": "v"}, **more}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"allowed": False}, (400, "", 'admission webhook "own.example.com" denied the request without explanation')),
        (
            {"allowed": False, "status": {"message": "no", "code": 418, "reason": "Teapot"}},
            (418, "Teapot", 'admission webhook "own.example.com" denied the request: no'),
        ),
        (
            {"allowed": False, "status": {"reason": "because", "code": 200, "status": "Success"}},
            (400, "because", 'admission webhook "own.example.com" denied the request: because'),
        ),
    ],
)
def test_a_refusal_is_told_in_the_webhooks_words(cluster, namespace, hooks, configured, said, expected):
    configured(hook(hooks, "/deny", response(**said, warnings=["mind this"])))
    answer = cluster("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map())
    assert answer.status == expected
    assert answer.headers["Warning"] == '299 - "mind this"'


BROKEN = [
    (lambda review: b"oops", "failed to call webhook: an error on the server (\"oops\") has prevented the request"
     " from succeeding", "/broken"),
    (lambda review: b"oops", "failed to call webhook: couldn't get version/kind; json parse error: ", "/text"),
    (lambda review: {**response(allowed=True)(review), "response": {"uid": "other", "allowed": True}},
     'received invalid webhook response: expected response.uid="<uid>", got "other"', "/uid"),
    (lambda review: {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"},
     "received invalid webhook response: webhook response was absent", "/absent"),
    (response(allowed=True, patch="W10="), "received invalid webhook response: validating webhook may not return"
     " response.patch", "/patch"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "said", "path"), BROKEN, ids=[path for _, _, path in BROKEN])
def test_a_webhook_that_does_not_answer_well_refuses_or_is_passed_over(
    cluster, namespace, hooks, configured, answer, said, path
):
    configured(hook(hooks, path, answer, failurePolicy="Fail", objectSelector={"matchLabels": {"fail": "yes"}}),
               hook(hooks, path, answer, "other.example.com", failurePolicy="Ignore"))  # fmt: skip
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert cluster("POST", maps, config_map()).code == 201
    refused = cluster("POST", maps, {"metadata": {"name": "b", "labels": {"fail": "yes"}}})
    code, reason, message = refused.status
    text = re.sub(r"[0-9a-f-]{36}", "<uid>", message)
    assert (code, reason) == (500, "InternalError")
    assert text.startswith(f'Internal error occurred: failed calling webhook "own.example.com": {said}')
    assert refused.json["details"]["causes"] == [{"message": message.removeprefix("Internal error occurred: ")}]


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({"url": "https://127.0.0.1:1/x"}, 'Post "https://127.0.0.1:1/x?timeout=1s": dial tcp 127.0.0.1:1: connect:'
         " connection refused"),
        ({"service": {"name": "none", "namespace": "{ns}", "path": "/x"}},
         'Post "https://none.{ns}.svc:443/x?timeout=1s": service "none" not found'),
        ({"caBundle": ""}, 'Post "{url}/late?timeout=1s": tls: failed to verify certificate: x509: certificate signed'
         " by unknown authority"),
        ({}, 'Post "{url}/late?timeout=1s": context deadline exceeded'),
    ],
    ids=["refused", "no service", "untrusted", "late"],
)  # fmt: skip
def test_a_webhook_that_is_not_reached_is_told_as_go_tells_it(cluster, namespace, hooks, configured, client, said):
    def filled(text):
        return text.replace("{ns}", namespace).replace("{url}", hooks.url)

    asked = json.loads(filled(json.dumps(client)))
    whole = asked if "service" in asked else {**hooks.client(hooks.says("/late", own.late(1.5))), **asked}
    spec = {"name": "own.example.com", "clientConfig": whole, "timeoutSeconds": 1}
    configured(spec)
    answer = cluster("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map())
    head = 'Internal error occurred: failed calling webhook "own.example.com": failed to call webhook: '
    assert answer.status == (500, "InternalError", head + filled(said))


def test_a_new_object_is_shown_before_the_server_has_completed_it(cluster, namespace, hooks, configured):
    configured(hook(hooks, "/mutate", patching({"op": "add", "path": "/data/added", "value": "yes"})), mutating=True)
    configured(hook(hooks, "/validate", response(allowed=True)))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    made = cluster("POST", f"{maps}?fieldManager=me", {"metadata": {"generateName": "gen-"}, "data": {"k": "v"}}).json
    assert made["data"] == {"k": "v", "added": "yes"}
    assert [list(entry["fieldsV1"]["f:data"]) for entry in made["metadata"]["managedFields"]] == [[".", "f:k"]]
    review = hooks.seen["/mutate"][-1]
    request = review["request"]
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    about = {name: request[name] for name in ("kind", "resource", "requestKind", "requestResource", "operation")}
    assert about == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "operation": "CREATE",
    }
    assert sorted(request) == sorted([
        *about, "uid", "namespace", "userInfo", "object", "oldObject", "dryRun", "options",
    ])  # fmt: skip
    assert (request["oldObject"], request["dryRun"]) == (None, False)
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    shown = request["object"]["metadata"]
    assert {name for name, value in shown.items() if value} == {"generateName", "namespace", "managedFields"}
    later = hooks.seen["/validate"][-1]["request"]
    assert later["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert later["object"]["metadata"]["name"] == made["metadata"]["name"]
    assert "name" not in request
    assert later["name"] == made["metadata"]["name"]
    assert later["object"]["data"] == made["data"]


def test_changes_and_deletions_are_shown_with_what_was_there(cluster, namespace, hooks, configured):
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster("POST", maps, config_map())
    configured(hook(hooks, "/validate", response(allowed=True)))
    cluster("PATCH", f"{maps}/a", {"data": {"n": "1"}}, kind="application/merge-patch+json")
    cluster("DELETE", f"{maps}/a", {"propagationPolicy": "Background"})
    change, end = (review["request"] for review in hooks.seen["/validate"])
    assert (change["operation"], change["name"], change["options"]["kind"]) == ("UPDATE", "a", "UpdateOptions")
    assert (change["oldObject"]["data"], change["object"]["data"]) == ({"k": "v"}, {"k": "v", "n": "1"})
    assert (end["operation"], end["object"], end["oldObject"]["data"]) == ("DELETE", None, {"k": "v", "n": "1"})
    assert end["options"] == {
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background",
    }  # fmt: skip


def test_what_a_webhook_adds_is_completed_as_what_a_user_says(cluster, namespace, hooks, configured):
    added = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "nginx"}}
    rule = {**RULE, "resources": ["pods"], "operations": ["CREATE"]}
    configured(hook(hooks, "/sidecar", patching(added)), mutating=True, rule=rule)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "a", "image": "busybox"}], "nodeSelector": {"none": "here"}}
    made = cluster("POST", pods, {"metadata": {"name": "p"}, "spec": spec}).json["spec"]
    side = made["containers"][1]
    assert (side["imagePullPolicy"], side["terminationMessagePath"]) == ("Always", "/dev/termination-log")
    mounts = [[mount["name"] for mount in container["volumeMounts"]] for container in made["containers"]]
    assert mounts[0] == mounts[1]
    seen = hooks.seen["/sidecar"][-1]["request"]["object"]["spec"]["containers"][0]
    assert [mount["name"] for mount in seen["volumeMounts"]] == mounts[0]


def test_one_is_asked_again_where_a_later_one_has_changed_the_object(cluster, namespace, hooks, configured):
    first = hook(hooks, "/first", response(allowed=True), "first.example.com", reinvocationPolicy="IfNeeded")
    second = hook(hooks, "/second", patching({"op": "add", "path": "/data/n", "value": "1"}), "second.example.com")
    configured(first, second, mutating=True)
    assert cluster("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map()).code == 201
    assert [review["request"]["object"]["data"] for review in hooks.seen["/first"]] == [
        {"k": "v"}, {"k": "v", "n": "1"},
    ]  # fmt: skip
    assert len(hooks.seen["/second"]) == 1


def test_conditions_leave_requests_out(cluster, namespace, hooks, configured):
    conditions = [{"name": "c", "expression": "object.data.k == 'asked'"}]
    configured(hook(hooks, "/some", response(allowed=False), matchConditions=conditions))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert cluster("POST", maps, config_map()).code == 201
    assert cluster("POST", maps, config_map("b", data={"k": "asked"})).code == 400
    refused = cluster("POST", maps, config_map("c", data={}))
    assert refused.status == (403, "Forbidden", 'configmaps "c" is forbidden: expression \'object.data.k =='
                              " 'asked'' resulted in error: no such key: data")  # fmt: skip


def test_connections_are_asked_about(cluster, namespace, hooks, configured):
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {"containers": [{"name": "a", "image": "busybox"}], "nodeSelector": {"none": "here"}}
    cluster("POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    rule = {**RULE, "resources": ["pods/exec"], "operations": ["CONNECT"]}
    configured(hook(hooks, "/exec", response(allowed=False)), rule=rule)
    answer = cluster("POST", f"{pods}/p/exec?command=ls&command=-l&stdout=true&container=a")
    assert answer.status == (400, "", 'admission webhook "own.example.com" denied the request without explanation')
    request = hooks.seen["/exec"][-1]["request"]
    assert (request["operation"], request["subResource"], request["name"]) == ("CONNECT", "exec", "p")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert request["object"] == {
        "kind": "PodExecOptions", "apiVersion": "v1", "stdout": True, "container": "a", "command": ["ls", "-l"],
    }  # fmt: skip


def test_a_scale_is_shown_as_a_scale(cluster, namespace, hooks, configured):
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "busybox"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    cluster("POST", sets, {"metadata": {"name": "r"}, "spec": spec})
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["replicasets/scale"]}
    configured(hook(hooks, "/scale", response(allowed=False)), rule=rule)
    change = {"spec": {"replicas": 2}}
    answer = cluster("PATCH", f"{sets}/r/scale", change, kind="application/merge-patch+json")
    assert answer.code == 400
    request = hooks.seen["/scale"][-1]["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert request["subResource"] == "scale"
    assert (request["object"]["spec"], request["oldObject"]["spec"]) == ({"replicas": 2}, {})


@pytest.fixture
def versions(cluster, namespace, hooks):
    """A custom kind with two versions and a webhook between them; return its group."""
    group = f"{namespace}.example.com"

    def convert(review):
        wanted = review["request"]["desiredAPIVersion"]
        objects = []
        for obj in review["request"]["objects"]:
            rest = {name: value for name, value in obj.items() if name not in ("name", "first", "last")}
            if wanted.endswith("/v2"):
                first, _, last = obj["name"].partition(" ")
                objects.append({**rest, "apiVersion": wanted, "first": first, "last": last})
            else:
                objects.append({**rest, "apiVersion": wanted, "name": f"{obj['first']} {obj['last']}"})
        said = {"uid": review["request"]["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        return {**review, "request": None, "response": said}

    client = hooks.client(hooks.says("/convert", convert))
    text = {"type": "string"}
    shapes = {"v1": {"name": text}, "v2": {"first": text, "last": text}}
    made = [
        {"name": name, "served": True, "storage": name == "v1", "selectableFields": [{"jsonPath": f".{field}"}],
         "schema": {"openAPIV3Schema": {"type": "object", "properties": shapes[name]}}}
        for name, field in (("v1", "name"), ("v2", "last"))
    ]  # fmt: skip
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    names = {"plural": "people", "kind": "Person"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": made, "conversion": conversion}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert cluster("POST", path, {"metadata": {"name": f"people.{group}"}, "spec": spec}).code == 201
    end = time.monotonic() + WAIT_S
    while cluster("GET", f"/apis/{group}/v2/namespaces/{namespace}/people").code != 200:
        assert time.monotonic() < end
    yield group
    cluster("DELETE", f"{path}/people.{group}")


def person(group, version, called, **fields):
    return {"apiVersion": f"{group}/{version}", "kind": "Person", "metadata": {"name": called}, **fields}


def test_objects_are_kept_in_one_version_and_seen_in_each(cluster, namespace, hooks, versions):
    one, two = (f"/apis/{versions}/{version}/namespaces/{namespace}/people" for version in ("v1", "v2"))
    ada = cluster("POST", two, person(versions, "v2", "ada", first="Ada", last="L"))
    assert (ada.code, ada.json["first"], "name" in ada.json) == (201, "Ada", False)
    cluster("POST", one, person(versions, "v1", "bob", name="Bob M"))
    assert cluster("GET", f"{one}/ada").json["name"] == "Ada L"
    listed = cluster("GET", two).json["items"]
    assert [(item["apiVersion"], item["first"], item["last"]) for item in listed] == [
        (f"{versions}/v2", "Ada", "L"), (f"{versions}/v2", "Bob", "M"),
    ]  # fmt: skip
    assert [item["metadata"]["name"] for item in cluster("GET", f"{two}?fieldSelector=last%3DM").json["items"]] == [
        "bob"
    ]
    changed = cluster("PATCH", f"{two}/bob", {"last": "N"}, kind="application/merge-patch+json").json
    assert (changed["first"], changed["last"]) == ("Bob", "N")
    assert cluster("GET", f"{one}/bob").json["name"] == "Bob N"
    query = f"{two}?watch=true&fieldSelector=last%3DN&resourceVersion={ada.json['metadata']['resourceVersion']}"
    event = cluster.events(query, 1)[0]
    assert (event["type"], event["object"]["first"]) == ("ADDED", "Bob")
    assert cluster("DELETE", f"{two}/bob").code == 200


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (lambda review: {**review, "response": {"uid": review["request"]["uid"],
         "result": {"status": "Failure", "message": "not today"}}}, "failed: not today"),
        (lambda review: {**review, "response": {"uid": review["request"]["uid"], "result": {"status": "Success"}}},
         "returned 0 objects, expected 1"),
        (lambda review: {**review, "response": None}, "failed: no response provided"),
    ],
    ids=["refused", "too few", "nothing"],
)  # fmt: skip
def test_a_conversion_that_fails_is_told(cluster, namespace, hooks, versions, said, text):
    two = f"/apis/{versions}/v2/namespaces/{namespace}/people"
    hooks.says("/convert", said)
    answer = cluster("POST", two, person(versions, "v2", "ada", first="Ada", last="L"))
    assert answer.code == 500
    assert answer.message == f"conversion webhook for {versions}/v2, Kind=Person {text}"
