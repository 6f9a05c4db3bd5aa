"""Sockets of one person, and messages of one socket."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from conftest import ROOT
from interview_site import socket_limits
from interview_site.socket_limits import MAX_MESSAGES, MAX_SOCKETS, ExactOrigins, SocketLimits


async def accepting(scope, receive, send):
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})


numbers = itertools.count()


async def claiming(scope, receive, send):
    """Accept, once there is a place for the user, as the consumers do."""
    if scope["claim_place"](scope["user"]):
        await accepting(scope, receive, send)
    else:
        await send({"type": "websocket.close"})


def socket(app, user=None, cookie=""):
    """Return a socket of a user, who has a browser of its own for it, or of a browser."""
    cookie = cookie or f"{next(numbers):032}"
    headers = [(b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode())]
    return ApplicationCommunicator(app, {"type": "websocket", "user": user, "headers": headers})


async def answer_to_connect(one):
    await one.send_input({"type": "websocket.connect"})
    return (await one.receive_output(60))["type"]


async def leave(one):
    await one.send_input({"type": "websocket.disconnect", "code": 1000})
    await one.wait(60)


@pytest.mark.parametrize(("inner", "who"), [(claiming, {"user": 7}), (accepting, {"cookie": "a" * 32})])
async def test_one_person_has_eight_sockets_and_others_have_theirs(inner, who):
    app = SocketLimits(inner)
    mine = [socket(app, **who) for _ in range(MAX_SOCKETS)]
    assert {await answer_to_connect(one) for one in mine} == {"websocket.accept"}
    assert await answer_to_connect(socket(app, **who)) == "websocket.close"
    other = socket(app, user=8)
    assert await answer_to_connect(other) == "websocket.accept"
    await leave(mine.pop())
    again = socket(app, **who)
    assert await answer_to_connect(again) == "websocket.accept"
    for one in [*mine, other, again]:
        await leave(one)
    assert not app._open


@pytest.mark.parametrize(
    ("origins", "opens"),
    [
        ([b"https://a.example"], True),
        ([b"http://127.0.0.1:8000"], True),
        ([b"https://a.example:443"], False),
        ([b"https://A.example"], False),
        ([b"http://a.example"], False),
        ([b"https://a.example.evil"], False),
        ([b"https://a.example", b"https://a.example"], False),
        ([b"null"], False),
        ([], False),
    ],
)
async def test_the_origin_is_exactly_one_of_ours(origins, opens):
    app = ExactOrigins(accepting, ["https://a.example", "http://127.0.0.1:8000"])
    headers = [(b"origin", origin) for origin in origins]
    one = ApplicationCommunicator(app, {"type": "websocket", "headers": headers})
    assert await answer_to_connect(one) == ("websocket.accept" if opens else "websocket.close")
    await leave(one)


@pytest.mark.parametrize(
    ("variables", "origins"),
    [
        ({}, ["http://127.0.0.1:8000", "http://localhost:8000"]),
        ({"PORT": "80"}, ["http://127.0.0.1", "http://localhost"]),
        ({"BIND": "::1"}, ["http://[::1]:8000"]),
        ({"BIND": "10.0.0.7", "PUBLIC_HOST": "a.example"}, ["http://10.0.0.7:8000", "http://a.example:8000"]),
        ({"PUBLIC_HOST": "a.example", "PUBLIC_HTTPS": "True", "PUBLIC_PORT": "443"}, ["https://a.example"]),
        ({"BIND": "0.0.0.0", "PUBLIC_HOST": "a.example", "PUBLIC_PORT": "8080"}, None),
    ],
)
def test_the_settings_know_the_origins_of_our_pages(tmp_path, variables, origins):
    code = "from interview_site import settings; print(*settings.ORIGINS)"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PUBLIC_", "BIND", "PORT"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**clean, "DATA_DIR": str(tmp_path), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == (origins or ["http://a.example:8000", "http://a.example:8080"])


async def test_a_flood_of_messages_ends_the_socket():
    one = socket(SocketLimits(accepting, clock=lambda: 5.0), user=7)
    await answer_to_connect(one)
    for _ in range(MAX_MESSAGES):
        await one.send_input({"type": "websocket.receive", "text": "x"})
    assert await one.receive_nothing(0.01)
    await one.send_input({"type": "websocket.receive", "text": "x"})
    assert await one.receive_output(60) == {"type": "websocket.close", "code": socket_limits.REFUSED}
    await one.wait(60)


async def test_a_message_now_and_then_is_no_flood():
    tenths = iter(range(1000))
    one = socket(SocketLimits(accepting, clock=lambda: next(tenths) / 10), user=7)
    await answer_to_connect(one)
    for _ in range(200):
        await one.send_input({"type": "websocket.receive", "text": "x"})
    await asyncio.sleep(0)
    assert await one.receive_nothing(0.01)
    await leave(one)
