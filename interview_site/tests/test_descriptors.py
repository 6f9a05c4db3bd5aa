"""File descriptors and database connections of a web process stay flat, however many requests it answers."""

from __future__ import annotations

import gc
import os

import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.asgi import get_asgi_application

REQUESTS = 1000 if "TORTURE_ROUNDS" in os.environ else 150
WARM_UP = 20
MAX_SPREAD = 4
"""Descriptors of two connections that are being closed in the moment of a count; a leak adds one for each request."""
PATH = "/sessions/00000000-0000-4000-8000-000000000000/panels/all/"
FOLDERS = ("/proc/self/fd", "/dev/fd")

pytestmark = pytest.mark.django_db(transaction=True)


def open_files() -> list[str]:
    """Return where each descriptor of this process leads."""
    folder = next(folder for folder in FOLDERS if os.path.isdir(folder))
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{name}"))
        except OSError:  # the one with which the folder is read
            continue
    return found


@pytest.fixture
def cookie() -> bytes:
    """A browser that is signed in."""
    user = User.objects.create_user("ada")
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store.save()
    return f"{settings.SESSION_COOKIE_NAME}={store.session_key}".encode()


async def get(application, cookie: bytes) -> int:
    """Return the status of one request for a session that does not exist, which costs three queries."""
    headers = [(b"host", b"127.0.0.1"), (b"cookie", cookie)]
    scope = {"type": "http", "method": "GET", "path": PATH, "query_string": b"", "headers": headers}
    browser = ApplicationCommunicator(application, scope)
    await browser.send_input({"type": "http.request", "body": b""})
    status = (await browser.receive_output(30))["status"]
    while (await browser.receive_output(30)).get("more_body"):
        pass
    await browser.wait(30)
    return status


async def test_requests_leave_no_descriptor_and_no_database_behind(cookie):
    application = get_asgi_application()
    # SQLite keeps a closed connection's descriptors while another one of the process has a lock, and uses them again.
    assert {await get(application, cookie) for _ in range(WARM_UP)} == {404}
    gc.disable()  # whatever only a cycle keeps alive would be gone by chance
    try:
        before = open_files()
        statuses = {await get(application, cookie) for _ in range(REQUESTS)}
        after = open_files()
    finally:
        gc.enable()
    assert statuses == {404}
    assert sum(".sqlite3" in path for path in after) <= sum(".sqlite3" in path for path in before) + MAX_SPREAD
    assert len(after) <= len(before) + MAX_SPREAD
