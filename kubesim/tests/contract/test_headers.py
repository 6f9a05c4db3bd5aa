"""The headers of every answer: what upstream says of its handling, and nothing of what serves it."""

from __future__ import annotations

import http.client

import pytest

TELLING = {"audit-id", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"}
USUAL = {"cache-control", "content-type", "date", *TELLING}
FRAMING = {"content-length", "transfer-encoding", "connection"}
PLAIN = {*USUAL, "x-content-type-options"}
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ACCOUNTS = "system:serviceaccounts"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.mark.parametrize(
    ("path", "accept", "expected"),
    [
        ("/api/v1/namespaces/default", "", USUAL),
        ("/api/v1/namespaces?limit=500", "", USUAL),
        ("/api/v1/namespaces/nosuch", "", USUAL),
        ("/api/v1/namespaces?watch=true&timeoutSeconds=1", "", USUAL),
        ("/version", "", USUAL),
        ("/apis", "", USUAL),
        ("/apis", DISCOVERY, {*USUAL, "etag", "vary"}),
        ("/healthz", "", PLAIN),
        ("/nosuch", "", PLAIN),
        ("/api/v1/namespaces/default/pods/nosuch/log", "", USUAL - TELLING | {"audit-id"}),
    ],
)
def test_it_says_what_upstream_says(cluster, path, accept, expected):
    answer = cluster("GET", path, headers={"Accept": accept} if accept else {})
    assert {name.lower() for name in answer.headers} - FRAMING == expected


def test_a_watch_is_plain_json(cluster):
    answer = cluster("GET", "/api/v1/namespaces?watch=true&timeoutSeconds=1")
    assert answer.headers["Content-Type"] == "application/json"


def test_who_is_not_known_is_told_no_flow(cluster):
    answer = cluster("GET", "/api/v1/namespaces", headers={"Authorization": "Bearer nobody"}, anonymous=True)
    assert answer.code == 401
    assert {name.lower() for name in answer.headers} - FRAMING == USUAL - TELLING | {"audit-id"}


@pytest.mark.parametrize(
    ("user", "group", "path", "schema"),
    [
        ("ada", "system:masters", "/api/v1/namespaces", "exempt"),
        ("ada", "teachers", "/api/v1/namespaces", "global-default"),
        ("ada", "teachers", "/healthz", "probes"),
        ("system:kube-scheduler", "x", "/api/v1/pods", "kube-scheduler"),
        ("system:node:n", "system:nodes", "/api/v1/nodes/n", "system-node-high"),
        ("system:serviceaccount:kube-system:a", ACCOUNTS, "/api/v1/pods", "kube-system-service-accounts"),
        ("system:serviceaccount:default:a", ACCOUNTS, "/api/v1/pods", "service-accounts"),
    ],
)  # fmt: skip
def test_a_request_falls_under_the_first_schema_that_speaks_of_it(cluster, user, group, path, schema):
    headers = {"Impersonate-User": user, "Impersonate-Group": group}
    answer = cluster("GET", path, headers=headers)
    found = cluster("GET", f"{FLOWS}/flowschemas/{schema}").json
    level = cluster(
        "GET", f"{FLOWS}/prioritylevelconfigurations/{found['spec']['priorityLevelConfiguration']['name']}"
    )
    assert answer.headers["X-Kubernetes-Pf-Flowschema-Uid"] == found["metadata"]["uid"]
    assert answer.headers["X-Kubernetes-Pf-Prioritylevel-Uid"] == level.json["metadata"]["uid"]


def test_many_warnings_are_cut_to_what_fits(cluster, monkeypatch):
    monkeypatch.setattr(http.client, "_MAXHEADERS", 1_000)
    body = {"metadata": {"name": "many"}, "data": {}, **{f"{'long' * 200}{number}": 1 for number in range(300)}}
    answer = cluster("POST", "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Warn", body)
    texts = [text.removeprefix('299 - "').removesuffix('"') for text in answer.headers.get_all("Warning")]
    assert [len(text.replace('\\"', '"')) for text in texts] == [256] * 16
