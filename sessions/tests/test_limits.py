"""Guessing stays slow: signing in and joining."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError

from sessions import limits, services
from sessions.limits import Limit
from sessions.models import Attempt

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("time")]
THREE = Limit("a test", 3)
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _quick_hashes(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


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
