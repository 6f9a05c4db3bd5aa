"""The candidate's way in, and its end."""

from __future__ import annotations

import hashlib

import pytest
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.http import HttpResponse
from django.urls import path

from faults.models import FaultRun
from sessions import selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession

urlpatterns = [path("join/<str:token>/", lambda request, token: HttpResponse(), name="join")]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.usefixtures("time")]


def token_of(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def test_a_link_is_on_the_public_address_and_only_its_hash_is_kept(draft, ada, settings):
    settings.PUBLIC_URL = "https://interviews.example"
    url = services.issue_join_link(session=draft, actor=ada)
    token = token_of(url)
    draft.refresh_from_db()

    assert url == f"https://interviews.example/join/{token}/"
    assert len(token) >= 32  # 6 bits each: at least 192
    assert draft.join_token_hash == hashlib.sha256(token.encode()).hexdigest()
    assert token not in str([event.payload for event in draft.events.all()])


def test_it_opens_the_session_once(draft, ada, time):
    token = token_of(services.issue_join_link(session=draft, actor=ada))
    session = services.consume_join_token(token)
    assert (session, session.joined_at) == (draft, time.at)
    with pytest.raises(SessionError, match="has been used") as caught:
        services.consume_join_token(token)
    assert caught.value.field == "token"


def test_a_new_link_replaces_the_old(draft, ada):
    old, new = (token_of(services.issue_join_link(session=draft, actor=ada)) for _ in range(2))
    with pytest.raises(SessionError, match="replaced"):
        services.consume_join_token(old)
    assert services.consume_join_token(new) == draft


@pytest.mark.parametrize("token", ["", "x", "\x00", "x" * 10_000, "ä"])
def test_a_guess_opens_nothing(draft, token):
    with pytest.raises(SessionError):
        services.consume_join_token(token)


def test_the_end_withdraws_an_unused_link(live, ada):
    token = token_of(services.issue_join_link(session=live, actor=ada))
    services.end(session=live, actor=ada)
    with pytest.raises(SessionError, match="withdrawn"):
        services.consume_join_token(token)
    with pytest.raises(SessionError, match="to be joined"):
        services.issue_join_link(session=live, actor=ada)


def test_a_browser_is_bound_by_its_django_session(draft, rf):
    request = rf.get("/")
    request.session = SessionStore()
    assert selectors.candidate_session(request) is None
    request.session["candidate_of"] = str(draft.uuid)
    assert selectors.candidate_session(request) == draft


def test_credentials_are_handed_out_while_the_interview_runs_only(ready):
    with pytest.raises(SessionError, match="must be live or paused to hand out a kubeconfig"):
        services.candidate_credentials(session=ready)


def test_the_end_of_a_session_without_a_cluster_is_recorded(ended, time, kinds):
    InterviewSession.objects.update(environment=None)
    services.sync_access(session_id=ended.pk)
    services.sync_access(session_id=ended.pk)
    ended.refresh_from_db()
    assert ended.access_revoked_at == time.at
    assert kinds(ended).count("access.revoked") == 1


def test_an_environment_that_is_gone_needs_no_revoking(ended, time):
    FaultRun.objects.update(reverted_at=time.at)
    services.sync_access(session_id=ended.pk)
    ended.refresh_from_db()
    assert ended.access_revoked_at == time.at


def test_access_that_is_as_it_should_be_is_left_alone(live, kinds):
    before = kinds(live)
    services.sync_access(session_id=live.pk)
    assert kinds(live) == before
