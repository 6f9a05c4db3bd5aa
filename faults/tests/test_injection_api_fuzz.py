"""The fault injection API against bodies and queries made from its own description, and against nonsense.

Schemathesis does the same at length in ``make torture``; here a few examples of every route, without a cluster that
answers: whatever comes, the answer is one that the description knows.
"""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults import crypto
from faults.api.injection import make_api
from faults.models import Cluster
from faults.services.api_tokens import INJECT, METRICS, READ
from faults.tests.injection import token

pytestmark = pytest.mark.django_db
SCHEMA = make_api().get_openapi_schema(path_prefix="/api/v1/")
OPERATIONS = [(method, path, about) for path, of in SCHEMA["paths"].items() for method, about in of.items()]
TEXTS = ["", "\x00", "\u202e", "../..", "a" * 5000, "worker", "default", "1mbit", "é", "{}", "null", "0"]
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.sampled_from(TEXTS))
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(TEXTS), inner)
)
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: a, user: {token: a}}]
"""


def resolved(about):
    """Return a schema without references."""
    return resolved(SCHEMA["components"]["schemas"][about["$ref"].rpartition("/")[2]]) if "$ref" in about else about


def values(about):
    """Return values that a schema allows, as far as this understands it, and now and then something else."""
    return st.one_of(fitting(resolved(about)), fitting(resolved(about)), JUNK)


def fitting(about):
    if choices := about.get("anyOf") or about.get("allOf"):
        return st.one_of(*(fitting(resolved(one)) for one in choices))
    if "const" in about or "enum" in about:
        return st.sampled_from(about.get("enum") or [about["const"]])
    if about.get("pattern"):
        return st.one_of(st.from_regex(about["pattern"], fullmatch=True), st.sampled_from(TEXTS))
    match about.get("type"):
        case "object" if "properties" in about:
            fields = {name: values(of) for name, of in about["properties"].items()}
            needed = {name: fields.pop(name) for name in about.get("required", ())}
            return st.fixed_dictionaries(needed, optional=fields)
        case "object":
            return st.dictionaries(st.sampled_from(TEXTS), SCALARS, max_size=3)
        case "array":
            return st.lists(values(about["items"]), max_size=3)
        case "integer":
            return st.integers(about.get("minimum"), about.get("maximum"))
        case "number":
            return st.floats(0, 100)
        case "boolean":
            return st.booleans()
    return SCALARS


@pytest.fixture
def program():
    """A program with every scope, on a cluster that nobody answers for."""
    cluster = Cluster.objects.create(name="silent", tier="dedicated", kubeconfig=crypto.seal(KUBECONFIG))
    secret = token(cluster, READ, INJECT, METRICS)
    return Client(headers={"Authorization": f"Bearer {secret}"}, raise_request_exception=False)


@pytest.mark.parametrize(("method", "path", "about"), OPERATIONS, ids=[f"{m} {p}" for m, p, _ in OPERATIONS])
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_answer_is_one_that_the_description_knows(program, method, path, about, data):
    where = path
    for one in [one for one in about.get("parameters", []) if one["in"] == "path"]:
        where = where.replace(f"{{{one['name']}}}", quote(str(data.draw(values(one["schema"]))), safe="") or "0")
    asked = [one for one in about.get("parameters", []) if one["in"] == "query"]
    query = {one["name"]: str(data.draw(values(one["schema"]))) for one in asked}
    body = (
        data.draw(values(about["requestBody"]["content"]["application/json"]["schema"]))
        if "requestBody" in about
        else ""
    )
    answer = program.generic(
        method.upper(), f"{where}?{urlencode(query)}", json.dumps(body), content_type="application/json"
    )
    known = {404, 405, *map(int, about["responses"])}
    assert answer.status_code in known, (where, query, body, answer.content[:300])
    if answer.status_code >= 400:
        assert set(answer.json()) == {"detail", "code", "action"}
        assert answer.json()["action"]
