"""The page of the panic stop."""

from __future__ import annotations

import pytest
from django.urls import reverse

from faults.models import Cluster, Panic

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


def test_every_staff_page_says_that_it_is_engaged_and_no_other(client, staff, grace, live):
    Panic.objects.create(engaged_by="root", cluster=Cluster.objects.get())
    for user, shown in ((staff, True), (grace, False)):
        client.force_login(user)
        for url in (reverse("session-list"), reverse("session-detail", args=[live.uuid])):
            assert (b"Panic stop engaged" in client.get(url).content) is shown, (user, url)
    client.force_login(staff)
    assert b"Panic stop engaged" in client.get(reverse("admin:index")).content


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
