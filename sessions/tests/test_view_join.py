from __future__ import annotations

import pytest

from sessions import services
from sessions.selectors import CANDIDATE_KEY


@pytest.fixture
def url(ready, ada) -> str:
    link = services.issue_join_link(session=ready, actor=ada)
    return "/join/" + link.rstrip("/").rpartition("/")[2] + "/"


def test_looking_at_the_link_does_not_use_it_up(client, url, ready):
    for _ in range(2):
        response = client.get(url)
        assert "Join the interview" in response.content.decode()
        assert response["Referrer-Policy"] == "no-referrer"
    ready.refresh_from_db()
    assert ready.joined_at is None


def test_the_button_lets_this_browser_in(client, url, ready):
    response = client.post(url)
    assert response["Location"] == f"/c/{ready.uuid}/"
    assert client.session[CANDIDATE_KEY] == str(ready.uuid)


def test_a_used_link_opens_nothing(client, url):
    client.post(url)
    response = client.post(url)
    assert response.status_code == 409
    assert "Ask your interviewer for a new one." in response.content.decode()


@pytest.mark.parametrize("token", ["x", "%00", "a" * 300, "<script>"])
def test_an_odd_link_opens_nothing(client, db, token):
    assert client.post(f"/join/{token}/").status_code in (404, 409)


def test_it_rejects_put(client, url):
    assert client.put(url).status_code == 405


def test_a_new_link_lets_go_of_the_browser_that_came_in_by_the_old_one(client, url, ready, ada):
    client.post(url)
    page = f"/c/{ready.uuid}/"
    assert client.get(page).status_code == 200
    newer = services.issue_join_link(session=ready, actor=ada)
    assert [client.get(page + rest).status_code for rest in ("", "kubeconfig/", "panels/all/")] == [404, 404, 404]

    client.post("/join/" + newer.rstrip("/").rpartition("/")[2] + "/")
    assert client.get(page).status_code == 200


def test_joining_changes_the_cookie(client, url):
    client.get("/login/")
    session = client.session
    session["planted"] = True
    session.save()
    client.cookies["sessionid"] = planted = session.session_key
    client.post(url)
    assert client.cookies["sessionid"].value != planted


def test_the_cookie_is_for_this_site_alone(client, url):
    cookie = client.post(url).cookies["sessionid"]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
