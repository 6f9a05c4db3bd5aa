"""Device cookies: browsers that have signed in before have a throttle of their own.

OWASP's "device cookie" protocol. Guessing at an account slows down guessing from unknown browsers in that network; a
browser with a valid cookie for the account is counted by itself, so that no stranger can lock its person out. The
cookie opens nothing: the password is asked for as ever.
"""

from __future__ import annotations

import hashlib
import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

COOKIE = "known_browser"
MAX_AGE_S = 180 * 24 * 3600
MAX_ACCOUNTS = 4  # of one browser
_SALT = "sessions.known_browsers"


def device_of(request: HttpRequest, account: str) -> str:
    """Return the name of this browser where the account has signed in on it before, else an empty string."""
    return dict(_read(request)).get(_digest(account), "")


def remember(request: HttpRequest, response: HttpResponse, account: str) -> None:
    """Mark this browser as one on which the account has signed in."""
    known = [(digest, device) for digest, device in _read(request) if digest != _digest(account)]
    device = device_of(request, account) or secrets.token_urlsafe(16)
    value = signing.dumps([*known[-(MAX_ACCOUNTS - 1) :], (_digest(account), device)], salt=_SALT)
    response.set_cookie(
        COOKIE,
        value,
        max_age=MAX_AGE_S,
        path="/login/",
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _read(request: HttpRequest) -> list[tuple[str, str]]:
    try:
        found = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=MAX_AGE_S)
        return [(str(digest), str(device)) for digest, device in found]
    except (signing.BadSignature, TypeError, ValueError):
        return []


def _digest(account: str) -> str:
    return hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[:16]
