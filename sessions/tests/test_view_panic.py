"""The page of the panic stop."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from faults.models import Cluster, Panic
from sessions import services
from sessions.models import InterviewSession
from sessions.tests.test_view_panel import draw

URL = "/panic/"


@pytest.fixture
def staff(ada):
    ada.is_staff = True
    ada.save()
    return ada


def test_it_shows_what_would_be_taken_back_and_stops_it_once_confirmed(client, staff, live):
    client.force_login(staff)
    assert b"take back 2 runs in every cluster now" in client.get(URL).content
    response = client.post(URL, {"confirm": "on"})
    assert response.status_code == 302
    assert Panic.objects.get().engaged_by == "ada"
    text = client.get(URL).content.decode()
    assert "Engaged for every cluster" in text
    assert "Stopped with every cluster" in text
    assert "Allowed" not in text


def test_without_the_tick_nothing_happens(client, staff, live):
    client.force_login(staff)
    assert b"tick the box" in client.post(URL, follow=True).content
    assert not Panic.objects.exists()


def test_one_cluster_is_stopped_and_lifted_by_itself(client, staff, live):
    client.force_login(staff)
    assert b"2 active runs" in client.get(URL).content
    client.post(URL, {"confirm": "on", "cluster": "gpu-test"})
    assert Panic.objects.get().cluster.name == "gpu-test"
    assert b"Stopped by ada" in client.get(URL, headers={"HX-Request": "true"}).content
    client.post(URL, {"lift": "", "cluster": "gpu-test"})
    assert Panic.objects.get().lifted_by == "ada"
    assert client.post(URL, {"confirm": "on", "cluster": "nowhere"}).status_code == 404


def test_every_staff_page_says_that_it_is_engaged(client, staff, live):
    Panic.objects.create(engaged_by="root")
    client.force_login(staff)
    for name in ("session-list", "session-new", "admin:index"):
        assert b"Panic stop engaged" in client.get(reverse(name)).content
    assert b"Look, or lift it" in client.get(reverse("session-detail", args=[live.uuid])).content


def test_an_interviewer_is_told_who_stopped_it_since_when_and_what_still_works(client, grace, live):
    Panic.objects.create(engaged_by="root")
    client.force_login(grace)
    for name in ("session-list", "session-new"):
        page = client.get(reverse(name)).content.decode()
        assert "Panic stop engaged for every cluster" in page
        assert "by root, " in page
        assert "Sessions can be saved as drafts." in page
        assert "lift it" not in page
    page = client.get(reverse("session-detail", args=[live.uuid])).content.decode()
    assert re.search(r"Panic stop since \d\d:\d\d UTC, by root", page)
    assert page.count("Panic stop") == 1
    assert "Notes, ratings and questions work on." in page


def test_what_stops_another_sessions_practice_cluster_is_no_business_of_an_interviewer(client, grace, mallory, live):
    Panic.objects.create(engaged_by="root", cluster=Cluster.objects.get())
    client.force_login(mallory)
    assert b"Panic stop" not in client.get(reverse("session-list")).content
    client.force_login(grace)
    page = client.get(reverse("session-detail", args=[live.uuid])).content.decode()
    assert "by root, for this session" in page


def test_the_form_says_who_stopped_it_and_creates_nothing(client, grace, scenario_version):
    Panic.objects.create(engaged_by="root")
    client.force_login(grace)
    typed = {"candidate_name": "Sam", "row": ["part:a", f"s:{scenario_version.scenario.slug}"]}
    refused = client.post(reverse("session-new"), {**typed, "prepare": ""})
    assert refused.status_code == 422
    assert re.search("root engaged the panic stop at .*: nothing is prepared until", refused.content.decode())
    assert not InterviewSession.objects.exists()
    client.post(reverse("session-new"), {**typed, "draft": ""})
    assert InterviewSession.objects.get().state == "draft"


def test_the_live_page_hears_of_it_and_of_its_lifting_by_itself(live, staff):
    assert "Panic stop" not in draw(live, "notices")
    services.engage_panic(cluster=None, actor=staff)
    assert "Panic stop since" in draw(live, "notices")
    services.lift_panic(cluster=None, actor=staff)
    assert "Panic stop" not in draw(live, "notices")
    told = [kind for kind in live.events.values_list("kind", flat=True) if kind.startswith("panic.")]
    assert told == ["panic.engaged", "panic.lifted"]  # upon each, the observer draws every panel of the session


def test_an_interviewer_may_not(client, grace, live):
    client.force_login(grace)
    assert client.get(URL).status_code == 403
    assert client.post(URL, {"confirm": "on"}).status_code == 403
    assert not Panic.objects.exists()


def test_it_needs_a_login(client, db):
    assert client.get(URL).status_code == 302
    assert client.post(URL, {"confirm": "on"}).status_code == 302
    assert not Panic.objects.exists()


def test_it_rejects_other_methods(client, staff):
    client.force_login(staff)
    assert client.put(URL).status_code == 405
