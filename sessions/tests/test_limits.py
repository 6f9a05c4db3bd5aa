"""Guessing stays slow: signing in and joining."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client, RequestFactory

from sessions import known_browsers, limits, services
from sessions.limits import Limit
from sessions.models import Attempt

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("time")]
THREE = Limit("a test", 3)
PASSWORD = "correct horse battery"


@pytest.fixture
def person(ada) -> User:
    ada.set_password(PASSWORD)
    ada.save()
    return ada


def sign_in(client, password, name="ada", address="203.0.113.1", url="/login/"):
    return client.post(url, {"username": name, "password": password}, REMOTE_ADDR=address)


def test_a_window_slides(time):
    answers = []
    for seconds in (0, 10, 10, 10, 29, 1, 1):
        time.advance(seconds)
        answers.append(limits.attempt(THREE, "x"))
    assert answers == [0, 0, 0, 30, 1, 0, 9]
    assert limits.attempt(THREE, "somebody else") == 0


def test_what_was_right_is_forgiven_and_what_is_old_forgotten(time):
    for _ in range(3):
        limits.attempt(THREE, "x")
    limits.forgive(THREE, "x")
    assert limits.attempt(THREE, "x") == 0
    time.advance(3601)
    limits.attempt(THREE, "y")
    assert Attempt.objects.count() == 1


def test_an_account_takes_five_wrong_passwords_a_minute(client, person, time):
    codes = [sign_in(client, f"wrong {n}", address=f"203.0.113.{n}").status_code for n in range(5)]
    assert codes == [200] * 5
    refused = sign_in(client, PASSWORD, name="ＡＤＡ", address="203.0.113.99")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert "Too many attempts. Wait 60 seconds" in refused.content.decode()
    assert "_auth_user_id" not in client.session
    time.advance(61)
    assert sign_in(client, PASSWORD).status_code == 302


def test_each_further_try_doubles_the_wait_up_to_a_quarter_of_an_hour(client, person, time):
    waits = []
    for n in range(5):
        sign_in(client, f"wrong {n}")
    for _ in range(7):
        refused = sign_in(client, PASSWORD)
        waits.append(int(refused["Retry-After"]))
        time.advance(waits[-1])
        assert sign_in(client, "wrong").status_code == 200
    assert waits[:5] == [60, 120, 240, 480, 900]
    assert max(waits) == 900


def test_guessing_from_elsewhere_locks_nobody_out(client, person):
    for n in range(6):
        sign_in(client, f"wrong {n}", address="198.51.100.9")
    assert sign_in(client, PASSWORD, address="198.51.100.77").status_code == 429
    assert sign_in(client, PASSWORD, address="203.0.113.1").status_code == 302


def test_a_known_browser_is_let_in_while_its_own_network_guesses(client, person):
    assert sign_in(client, PASSWORD).status_code == 302
    client.post("/logout/")
    stranger = Client()
    assert [sign_in(stranger, "wrong", name=f"user-{n}").status_code for n in range(25)] == [200] * 25
    assert [sign_in(stranger, "wrong").status_code for _ in range(6)] == [200] * 5 + [429]
    assert sign_in(client, PASSWORD).status_code == 302


def test_a_known_browser_has_five_tries_of_its_own_and_then_those_of_a_stranger(client, person, time):
    sign_in(client, PASSWORD)
    client.post("/logout/")
    assert [sign_in(client, "wrong").status_code for _ in range(11)] == [200] * 10 + [429]
    time.advance(61)
    assert sign_in(client, PASSWORD).status_code == 302


@pytest.mark.parametrize("value", ["", "x", "W10:1x:y", "a" * 5000])
def test_a_forged_device_cookie_is_no_known_browser(client, person, value):
    stranger = Client()
    stranger.cookies[known_browsers.COOKIE] = value
    assert [sign_in(stranger, "wrong").status_code for _ in range(6)] == [200] * 5 + [429]


def test_a_device_cookie_of_one_account_is_none_of_another(client, person, grace):
    grace.set_password(PASSWORD)
    grace.save()
    assert sign_in(client, PASSWORD, name="grace").status_code == 302
    assert [sign_in(client, "wrong").status_code for _ in range(6)] == [200] * 5 + [429]
    assert sign_in(client, PASSWORD, name="grace").status_code == 302


def test_a_browser_knows_its_last_four_accounts_and_its_cookie_opens_nothing(client, db):
    for n in range(6):
        User.objects.create_user(f"person-{n}", password=PASSWORD)
        sign_in(client, PASSWORD, name=f"person-{n}")
    cookie = client.cookies[known_browsers.COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/login/")
    request = RequestFactory().get("/login/")
    request.COOKIES[known_browsers.COOKIE] = cookie.value
    known = [bool(known_browsers.device_of(request, f"person-{n}")) for n in range(6)]
    assert known == [False, False, True, True, True, True]
    stranger = Client()
    stranger.cookies[known_browsers.COOKIE] = cookie.value
    assert sign_in(stranger, "wrong", name="person-5").status_code == 200
    assert stranger.get("/").status_code == 302


def test_an_own_account_buys_no_guesses_at_others(client, person):
    codes = []
    for n in range(16):
        codes += [sign_in(client, "wrong", name=f"user-{n}-{k}").status_code for k in range(2)]
        Client().post("/login/", {"username": "ada", "password": PASSWORD}, REMOTE_ADDR="203.0.113.1")
    assert codes[-1] == 429


def test_a_flood_of_refused_tries_writes_nothing(client, person, django_assert_num_queries):
    for _ in range(5):
        limits.attempt(limits.SIGN_IN_ACCOUNT, "x")
    with django_assert_num_queries(1):
        assert limits.attempt(limits.SIGN_IN_ACCOUNT, "x") == 60


def test_a_clock_that_was_set_back_makes_no_wait_longer(time):
    for _ in range(5):
        limits.attempt(limits.SIGN_IN_ACCOUNT, "x")
    time.advance(-3600)
    assert limits.attempt(limits.SIGN_IN_ACCOUNT, "x") == 60


def test_guessing_at_one_account_from_everywhere_is_told_to_the_operator(client, person, caplog):
    for n in range(51):
        sign_in(client, "wrong", address=f"10.{n}.0.1")
    assert [record.message for record in caplog.records if record.name == "sessions.views.login"] == [
        "More than 50 wrong passwords in an hour for one account."
    ]
    assert sign_in(client, PASSWORD).status_code == 302


def test_a_right_password_wipes_the_slate(client, person):
    for _ in range(3):
        assert [sign_in(client, "wrong").status_code for _ in range(4)] == [200] * 4
        assert sign_in(client, PASSWORD).status_code == 302


def test_an_address_may_not_try_one_account_after_the_other(client, db):
    codes = [sign_in(client, "wrong", name=f"user-{n}").status_code for n in range(31)]
    assert (codes[:30], codes[30]) == ([200] * 30, 429)
    assert sign_in(client, "wrong", address="203.0.113.2").status_code == 200


def test_one_customers_ipv6_addresses_are_one(client, db):
    codes = [sign_in(client, "wrong", f"user-{n}", f"2001:db8:1:2::{n:x}").status_code for n in range(31)]
    assert codes[30] == 429
    assert sign_in(client, "wrong", address="2001:db8:1:3::1").status_code == 200


def test_the_admin_has_no_door_of_its_own(client, person):
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0] == "/login/?next=%2Fadmin%2F"
    assert sign_in(client, PASSWORD, url="/admin/login/").status_code == 302
    assert "_auth_user_id" not in client.session


def test_without_a_count_nobody_gets_in(client, person, monkeypatch):
    def broken(limit, who):
        raise DatabaseError("disk full")

    monkeypatch.setattr(limits, "attempt", broken)
    client.raise_request_exception = False
    assert sign_in(client, PASSWORD).status_code == 500
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize("name", ["\x00", "a" * 100_000, "\ud800".encode("utf-8", "surrogatepass"), "", "é" * 200])
def test_odd_names_are_just_wrong(client, db, name):
    assert sign_in(client, "wrong", name=name).status_code == 200


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_signing_in_leads_nowhere_else(client, person, target):
    answer = client.post("/login/?next=" + target, {"username": "ada", "password": PASSWORD, "next": target})
    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_ten_wrong_links_a_minute(client, ready, ada, time):
    codes = [client.post(f"/join/guess-{n}/").status_code for n in range(11)]
    assert codes == [409] * 10 + [429]
    link = services.issue_join_link(session=ready, actor=ada)
    good = "/join/" + link.rstrip("/").rpartition("/")[2] + "/"
    refused = client.post(good)
    assert (refused.status_code, refused["Referrer-Policy"]) == (429, "no-referrer")
    assert 0 < int(refused["Retry-After"]) <= 60
    time.advance(61)
    assert client.post(good).status_code == 302


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_session_is_prepared_six_times_a_minute(client, draft, ada, time, headers):
    client.force_login(ada)
    url = f"/sessions/{draft.uuid}/prepare/"
    codes = [client.post(url, headers=headers).status_code for _ in range(7)]
    assert 429 not in codes[:6]
    assert codes[6] == 429
    refused = client.post(f"/sessions/{draft.uuid}/retry/", headers=headers)
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert "More than 6 preparations of one session" in refused.content.decode()
    assert client.post(f"/sessions/{draft.uuid}/pause/").status_code == 302
    time.advance(61)
    assert client.post(url, headers=headers).status_code != 429


def test_a_program_prepares_a_session_as_seldom(client, draft, ada):
    client.force_login(ada)
    codes = [client.post(f"/api/sessions/{draft.uuid}/prepare").status_code for _ in range(7)]
    assert codes[6] == 429
    refused = client.post(f"/api/sessions/{draft.uuid}/prepare")
    assert refused["Retry-After"] == "60"
    assert set(refused.json()) == {"message", "field"}


def test_a_person_exports_ten_scorecards_a_minute(client, ended, ada, grace, time):
    client.force_login(ada)
    codes = [client.get(f"/sessions/{ended.uuid}/scorecard.json").status_code for _ in range(11)]
    assert codes == [200] * 10 + [429]
    refused = client.get(f"/sessions/{ended.uuid}/scorecard.pdf")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60")
    assert "More than 10 exports by one person" in refused.content.decode()
    assert client.get(f"/sessions/{ended.uuid}/scorecard/").status_code == 200
    client.force_login(grace)
    assert client.get(f"/sessions/{ended.uuid}/scorecard.json").status_code == 200
