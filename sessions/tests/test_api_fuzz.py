"""The JSON API against nonsense: never a crash, nothing half-written, and refusals that name the field."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions.models import InterviewSession

pytestmark = pytest.mark.usefixtures("time")

TEXTS = [
    "", " ", "\x00", "x\x00y", "\ud800", "\u202e" + "gnp.exe", "e" + "\u0301" * 10_000, "x" * 200_000,
    "\x1b]52;c;eA==\x07",
    "<img src=x onerror=alert(1)>", "{{7*7}}", "=cmd|'/C calc'!A0", "../../etc/passwd", "' OR 1=1 --",
    "\r\nSet-Cookie: a=b",
]  # fmt: skip
VALUES = [None, True, 0, -1, 2**31, 2**63, 10**400, 1e308, [], {}, [[]], {"a": {}}, *TEXTS]
TIMES = [
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",
    "2026-02-30T00:00:00Z",
    "1e9999",
]
FIELDS = (
    "candidate_name",
    "title",
    "plan_version",
    "scenarios",
    "questions",
    "interviewers",
    "minutes",
    "scheduled_at",
)
BODIES = [
    b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"NaN", b'{"candidate_name": NaN}', b'{"candidate_name": 1e999}',
    b'{"a":' * 20_000, b"[" * 100_000, b'{"candidate_name": "\\ud800"}',
]  # fmt: skip


@pytest.fixture
def as_ada(client, ada):
    client.force_login(ada)
    client.raise_request_exception = False
    return client


def refuse(answer):
    """Assert a refusal in the one shape that the API has."""
    assert 400 <= answer.status_code < 500, answer.content[:300]
    assert set(answer.json()) == {"message", "field"}
    assert isinstance(answer.json()["message"], str)
    assert answer.json()["message"]


def send(client, url, body):
    data = body if isinstance(body, bytes) else json.dumps(body)
    return client.post(url, data, content_type="application/json")


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_what_is_no_json_object_is_refused(as_ada, live, body):
    for url in ("/api/sessions", f"/api/sessions/{live.uuid}/extend"):
        refuse(send(as_ada, url, body))


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_takes_nonsense(as_ada, scenario_version, field):
    good = {"candidate_name": "Sam", "scenarios": [str(scenario_version.uuid)], "minutes": 45}
    for value in [*VALUES, *TIMES, *([value] for value in VALUES)]:
        before = InterviewSession.objects.count()
        answer = send(as_ada, "/api/sessions", {**good, field: value})
        if answer.status_code == 201:
            assert as_ada.get(f"/api/sessions/{answer.json()['uuid']}").status_code == 200
        else:
            refuse(answer)
            where = "" if answer.status_code == 400 else field  # what is no JSON has no fields
            assert answer.json()["field"].split(".")[0] == where, (value, answer.json())
            assert InterviewSession.objects.count() == before
    assert as_ada.get("/").status_code == 200  # which lists what was taken


@pytest.mark.parametrize("minutes", VALUES, ids=range(len(VALUES)))
def test_an_extension_takes_nonsense(as_ada, live, minutes):
    answer = send(as_ada, f"/api/sessions/{live.uuid}/extend", {"minutes": minutes})
    if answer.status_code != 200:
        refuse(answer)
        assert answer.json()["field"] == ("" if answer.status_code == 400 else "minutes")


def test_unknown_things_are_refused_in_the_same_shape(client, as_ada, live, mallory):
    refuse(as_ada.get("/api/sessions/00000000-0000-4000-8000-000000000000"))
    refuse(as_ada.get("/api/sessions/not-a-uuid"))
    refuse(as_ada.post(f"/api/sessions/{live.uuid}/%00"))
    refuse(as_ada.get("/api/faults/runs/"))
    client.logout()
    refuse(client.get("/api/sessions"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8) | JSON)
def test_any_json_is_answered(as_ada, body):
    answer = send(as_ada, "/api/sessions", body)
    if answer.status_code != 201:
        refuse(answer)
