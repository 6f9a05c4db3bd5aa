"""The candidate's way in: a link that shows a button, so that a link preview does not use it up."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from sessions import limits, selectors, services
from sessions.errors import SessionError
from sessions.typing import HttpRequest

COOKIE_S = 7 * 24 * 3600  # who joins early still has the page on the day


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Show the button; use the token up when it is pressed."""
    if request.method != "POST":
        return _private(render(request, "candidate/join.html", {"token": token}))
    address = limits.address(request)
    if wait := limits.attempt(limits.JOIN_ADDRESS, address):
        return _too_often(request, wait)
    try:
        session = services.consume_join_token(token)
    except SessionError as exc:
        return _private(render(request, "candidate/join.html", {"error_text": exc.message}, status=409))
    limits.forgive(limits.JOIN_ADDRESS, address)
    request.session.cycle_key()
    selectors.bind_candidate(request.session, session)
    request.session.set_expiry(COOKIE_S)
    return redirect("candidate-page", session.uuid)


def _too_often(request: HttpRequest, wait_s: int) -> HttpResponse:
    text = f"Too many links were tried from your address. Wait {wait_s} seconds, then open your link again."
    response = _private(render(request, "candidate/join.html", {"error_text": text}, status=429))
    response.headers["Retry-After"] = str(wait_s)
    return response


def _private(response: HttpResponse) -> HttpResponse:
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
