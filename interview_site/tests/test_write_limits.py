"""Sixty changes a minute for one person, and what is told to who makes more."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpResponse
from django.test import RequestFactory

from interview_site.cluster_outages import ClusterOutages
from interview_site.write_limits import MAX_WRITES, WriteLimit
from sessions.errors import TooOften


class Seconds:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Seconds()


@pytest.fixture
def send(clock):
    """Return a function that sends a request through the limit."""
    limited = WriteLimit(lambda request: HttpResponse("done"), clock)

    def sent(method="POST", path="/sessions/x/pause/", cookies=None, **headers):
        request = RequestFactory().generic(method, path, headers=headers)
        request.user, request.session = AnonymousUser(), SessionBase()
        for key, value in (cookies or {}).items():
            request.session[key] = value
        return limited(request)

    return sent


ADA = {"_auth_user_id": "1"}
GRACE = {"_auth_user_id": "2"}
CANDIDATE = {"candidate_of": "x"}


def test_the_sixty_first_change_of_a_minute_waits(send, clock):
    for _ in range(MAX_WRITES):
        assert send(cookies=ADA).status_code == 200
        clock.now += 0.5
    refused = send(cookies=ADA)
    assert (refused.status_code, refused["Retry-After"]) == (429, "30")
    page = refused.content.decode()
    assert "You changed more than 60 things within a minute." in page
    assert "wait 30 seconds, then try again" in page
    assert send(cookies=GRACE).status_code == 200
    clock.now += 30
    assert send(cookies=ADA).status_code == 200
    assert send(cookies=ADA).status_code == 429


def test_looking_is_not_limited_and_nor_are_strangers(send):
    for _ in range(MAX_WRITES + 1):
        assert send("GET", cookies=ADA).status_code == 200
        assert send("POST", "/login/").status_code == 200
    assert send(cookies=ADA).status_code == 200


@pytest.mark.parametrize("path", ["/logout/", "/sessions/x/end/", "/api/sessions/x/end", "/admin/panic/"])
def test_closing_a_door_never_waits(send, path):
    for _ in range(MAX_WRITES + 1):
        send(cookies=ADA)
    assert send(cookies=ADA).status_code == 429
    assert send(path=path, cookies=ADA).status_code == 200


def test_a_candidates_browser_is_limited_too(send):
    codes = [send(path="/c/x/ask/", cookies=CANDIDATE).status_code for _ in range(MAX_WRITES + 1)]
    assert codes == [200] * MAX_WRITES + [429]


def test_htmx_gets_one_sentence_and_a_program_json(send):
    for _ in range(MAX_WRITES):
        send(cookies=ADA)
    toast = send(cookies=ADA, **{"HX-Request": "true"})
    assert (toast.status_code, toast["Content-Type"]) == (429, "text/plain; charset=utf-8")
    assert toast.content.decode().startswith("You changed more than 60 things")
    answer = send(path="/api/sessions", cookies=ADA)
    assert answer.status_code == 429
    assert answer.headers["Content-Type"] == "application/json"


def test_people_who_left_are_forgotten(send, clock, monkeypatch):
    monkeypatch.setattr("interview_site.write_limits.MAX_PEOPLE", 10)
    for number in range(30):
        send(cookies={"_auth_user_id": str(number)})
        clock.now += 10
    limited = send.__closure__[0].cell_contents
    assert len(limited._times) <= 11


def test_a_view_that_counts_by_itself_is_answered_alike():
    refused = WriteLimit(HttpResponse).process_exception(RequestFactory().post("/x/"), TooOften("More than 6.", 9))
    assert (refused.status_code, refused["Retry-After"]) == (429, "9")
    assert WriteLimit(HttpResponse).process_exception(RequestFactory().post("/x/"), ValueError()) is None
    assert ClusterOutages(HttpResponse).process_exception(RequestFactory().post("/x/"), ValueError()) is None
