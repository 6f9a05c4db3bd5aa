"""The client's address and scheme: whose word counts."""

from __future__ import annotations

import pytest

from interview_site import proxies
from interview_site.proxies import TrustedProxies

PROXIES = ["10.0.0.0/24", "::1"]


async def seen_by_app(peer, headers, listed, scheme="http", kind="http"):
    """Return the client and the scheme that the application sees."""
    found = {}

    async def app(scope, receive, send):
        found.update(scope)

    scope = {"type": kind, "client": (peer, 1), "scheme": {"http": "http", "websocket": "ws"}[kind]}
    await TrustedProxies(app, listed, scheme)({**scope, "headers": headers}, None, None)
    return found["client"][0], found["scheme"]


FORWARDED = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"https")]


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "198.51.100.7", "10.0.1.1"])
async def test_nobody_is_believed_without_configuration(peer):
    assert await seen_by_app(peer, FORWARDED, []) == (peer, "http")


@pytest.mark.parametrize(
    ("peer", "client"), [("10.0.0.7", "203.0.113.9"), ("::1", "203.0.113.9"), ("127.0.0.1", "127.0.0.1")]
)
async def test_a_listed_proxy_is_believed_and_another_is_not(peer, client):
    assert (await seen_by_app(peer, FORWARDED, PROXIES))[0] == client


async def test_what_a_client_wrote_before_the_proxy_is_not_believed():
    headers = [(b"x-forwarded-for", b"192.0.2.1, 203.0.113.9, 10.0.0.8")]
    assert (await seen_by_app("10.0.0.7", headers, PROXIES))[0] == "203.0.113.9"


@pytest.mark.parametrize(("kind", "scheme"), [("http", "https"), ("websocket", "wss")])
async def test_the_configured_scheme_needs_no_header(kind, scheme):
    assert (await seen_by_app("127.0.0.1", [], [], "https", kind))[1] == scheme


async def test_a_trusted_proxy_says_that_a_request_came_without_tls():
    headers = [(b"x-forwarded-proto", b"http")]
    assert (await seen_by_app("10.0.0.7", headers, PROXIES, "https"))[1] == "http"
    assert (await seen_by_app("10.9.0.7", headers, PROXIES, "https"))[1] == "https"


def test_proxies_are_told_from_clients(settings):
    settings.TRUSTED_PROXIES = PROXIES
    assert [proxies.is_proxy()(each) for each in ("10.0.0.200", "10.0.1.1", "::1", "")] == [True, False, True, False]
