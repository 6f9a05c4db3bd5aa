"""The headers of every answer: what upstream says of its handling, and nothing of what serves it."""

from __future__ import annotations

import http.client

import pytest

USUAL = {"cache-control", "content-type", "date", "audit-id"}
FRAMING = {"content-length", "transfer-encoding", "connection"}
PRIORITY = {"x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"}
"""Headers of a real API server that kubesim has not."""
PLAIN = {*USUAL, "x-content-type-options"}
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


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
        ("/api/v1/namespaces/default/pods/nosuch/log", "", USUAL),
    ],
)
def test_it_says_what_upstream_says(cluster, path, accept, expected):
    answer = cluster("GET", path, headers={"Accept": accept} if accept else {})
    assert {name.lower() for name in answer.headers} - FRAMING - PRIORITY == expected


def test_a_watch_is_plain_json(cluster):
    answer = cluster("GET", "/api/v1/namespaces?watch=true&timeoutSeconds=1")
    assert answer.headers["Content-Type"] == "application/json"


def test_who_is_not_known_is_told_no_more(cluster):
    answer = cluster("GET", "/api/v1/namespaces", headers={"Authorization": "Bearer nobody"}, anonymous=True)
    assert answer.code == 401
    assert {name.lower() for name in answer.headers} - FRAMING - PRIORITY == USUAL


def test_many_warnings_are_cut_to_what_fits(cluster, monkeypatch):
    monkeypatch.setattr(http.client, "_MAXHEADERS", 1_000)
    body = {"metadata": {"name": "many"}, "data": {}, **{f"{'long' * 200}{number}": 1 for number in range(300)}}
    answer = cluster("POST", "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Warn", body)
    texts = [text.removeprefix('299 - "').removesuffix('"') for text in answer.headers.get_all("Warning")]
    assert [len(text.replace('\\"', '"')) for text in texts] == [256] * 16
