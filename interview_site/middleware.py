"""Response headers for every page, and small answers: static files and pages go out compressed."""

from __future__ import annotations

import gzip
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from faults.plain_text import plain

# No inline script, no eval, nothing from elsewhere. `ws:`/`wss:` to our own host are covered by 'self'.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


class ContentSecurityPolicy:
    """Sets the content security policy where a view has not set its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class WrongMethodPage:
    """Shows a page with a way back where an address is asked for in a way that it does not answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code != 405 or response.streaming or response.content:
            return response
        uuid = request.resolver_match.kwargs.get("uuid") if request.resolver_match else None
        page = render(request, "405.html", {"session_uuid": uuid}, status=405)
        page.headers["Allow"] = response.headers.get("Allow", "")
        return page


class PlainPages:
    """Shows in every page what acts instead of showing, whichever way it came into the database."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if self._is_plain_html(response):
            page = response.content.decode(response.charset)
            if (shown := plain(page)) != page:
                response.content = shown.encode(response.charset)
                if "Content-Length" in response.headers:
                    response.headers["Content-Length"] = str(len(response.content))
        return response

    @staticmethod
    def _is_plain_html(response: HttpResponse) -> bool:
        """Return whether a page is still to be looked through; what a view has zipped was drawn by our panels."""
        if response.streaming or "Content-Encoding" in response.headers:
            return False
        return response.headers.get("Content-Type", "").startswith("text/html")


class CompressedStatic:
    """Sends text files that WhiteNoise serves with gzip, each compressed once for as long as it does not change.

    They hold no secret, so that their size betrays none (BREACH). Pages are another matter: Django's own
    ``GZipMiddleware`` pads them by a random length, and their CSRF tokens are masked anew each time.
    """

    TYPES = ("text/css", "text/javascript", "application/javascript", "image/svg+xml")

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._kept: dict[str, tuple[str, bytes]] = {}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if not isinstance(response, StreamingHttpResponse) or not self._is_for_us(request, response):
            return response
        patch_vary_headers(response, ("Accept-Encoding",))
        if request.method != "GET" or "gzip" not in request.headers.get("Accept-Encoding", ""):
            return response
        small = self._compressed(request.path, response)
        response.streaming_content = [small]
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(small))
        return response

    def _is_for_us(self, request: HttpRequest, response: StreamingHttpResponse) -> bool:
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        is_static = request.path.startswith(f"/{settings.STATIC_URL.strip('/')}/")
        return is_static and response.status_code == 200 and kind in self.TYPES and "Content-Encoding" not in response

    def _compressed(self, path: str, response: StreamingHttpResponse) -> bytes:
        tag = response.headers.get("ETag", "")
        known = self._kept.get(path)
        if known is None or known[0] != tag:
            known = (tag, gzip.compress(response.getvalue(), 9, mtime=0))
            self._kept[path] = known
        return known[1]
