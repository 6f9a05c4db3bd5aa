"""Plans of Terraform's code, live and in the scorecard: what an apply would do now, and what has drifted."""

from __future__ import annotations

from io import BytesIO

import jsonschema
import pytest
from django.urls import reverse
from pypdf import PdfReader

from faults.terraform_plans import PlannedChanges
from sessions import events, panels, services
from sessions.models import InterviewSession, SessionEvent
from sessions.scorecards import as_pdf, build_scorecard
from sessions.scorecards.as_json import schema

EMPTY = PlannedChanges(known=True, serial=3).dump()
WRONG = PlannedChanges(True, 4, 0, 1, 0, ("~ module.tenant.quota.gpus",), ("kubernetes_role_v1.own",)).dump()
BROKEN = PlannedChanges(serial=4, error="Invalid reference").dump()
NO_STATE = PlannedChanges(error="there is no state").dump()


@pytest.fixture
def with_code(live):
    """Give the session a toolbox with Terraform; return it anew at each call."""
    run = live.environment
    workspace = {"state": "platform", "namespaces": [], "objects": [], "rights": [], "cloud-roles": []}
    run.parameters |= {"toolbox": {"namespace": "toolbox", "image": "none", "terraform": workspace}}
    run.save(update_fields=["parameters"])
    return lambda: InterviewSession.objects.get(pk=live.pk)


def note(session, plan, root="tenants"):
    return services.note_plan(session_id=session.pk, root=root, plan=plan)


def panel(session):
    return panels.render(session, "plans", panels.INTERVIEWER, None)


def test_a_plan_is_told_once_for_each_root_until_another_says_something_new(live):
    assert [note(live, EMPTY), note(live, EMPTY), note(live, EMPTY, "cloud")] == [True, False, True]
    assert [note(live, WRONG), note(live, EMPTY), note(live, BROKEN), note(live, BROKEN)] == [True, True, True, False]
    told = SessionEvent.objects.filter(session=live, kind=events.PLANNED, payload__root="tenants").order_by("seq")
    assert [event.payload["text"] for event in told] == [
        "no changes",
        "0 to add, 1 to change, 0 to destroy",
        "no changes",
        "no plan: Invalid reference",
    ]


def test_a_state_that_is_missing_is_told_of_where_there_was_one(live):
    assert [note(live, NO_STATE), note(live, EMPTY), note(live, NO_STATE)] == [False, True, True]


def test_before_the_start_and_after_the_end_nothing_is_told(ready, ended):
    assert not any(note(session, EMPTY) for session in (ready, ended))


def test_the_live_page_shows_the_newest_plan_with_changes_and_drift(live, with_code):
    assert "hidden" not in panel(with_code())
    assert "No plan of the toolbox" in panel(with_code())
    note(live, EMPTY)
    note(live, EMPTY, "cloud")
    note(live, WRONG)
    page = panel(with_code())
    assert "<b>cloud</b>: no changes" in page
    assert "<b>tenants</b>: 0 to add, 1 to change, 0 to destroy" in page
    assert "~ module.tenant.quota.gpus" in page
    assert "kubernetes_role_v1.own" in page
    assert page.count("no changes") == 1


def test_a_session_without_code_has_no_such_panel(live):
    assert "hidden" in panel(live)


def test_it_is_drawn_for_interviewers_alone_and_takes_no_room_on_the_time_line(live, with_code):
    note(live, WRONG)
    with pytest.raises(KeyError):
        panels.render(with_code(), "plans", panels.CANDIDATE, None)
    assert "quota" not in panels.render(with_code(), "timeline", panels.INTERVIEWER, None)


@pytest.fixture
def url(live, with_code):
    note(live, WRONG)
    return reverse("session-panel", args=[live.uuid, "plans"])


def test_its_interviewer_fetches_it(client, ada, url):
    client.force_login(ada)
    assert b"0 to add, 1 to change, 0 to destroy" in client.get(url).content


def test_another_interviewer_finds_none(client, mallory, url):
    client.force_login(mallory)
    assert client.get(url).status_code == 404


def test_without_a_login_it_asks_for_one(client, url):
    answer = client.get(url)
    assert answer.status_code in (302, 401, 403)
    assert b"quota" not in answer.content


def test_it_rejects_post(client, ada, url):
    client.force_login(ada)
    assert client.post(url).status_code == 405


def test_the_scorecard_has_the_last_known_plan_with_its_time(live, ada, client, time):
    note(live, EMPTY)
    time.advance(90)
    note(live, WRONG)
    card = build_scorecard(session=live, viewer=ada)
    jsonschema.Draft202012Validator(schema()).validate(card)
    assert [(plan["root"], plan["session_ms"], plan["serial"]) for plan in card["plans"]] == [("tenants", 90_000, 4)]
    assert card["plans"][0]["drift"] == ["kubernetes_role_v1.own"]
    printed = "".join(page.extract_text() for page in PdfReader(BytesIO(as_pdf(card))).pages)
    assert "0 to add, 1 to change, 0 to destroy" in printed
    client.force_login(ada)
    page = client.get(reverse("scorecard", args=[live.uuid])).content.decode()
    assert "Changed outside of Terraform: <code>kubernetes_role_v1.own</code>" in page


def test_a_scorecard_without_plans_says_nothing_of_them(live, ada):
    assert build_scorecard(session=live, viewer=ada)["plans"] == []
