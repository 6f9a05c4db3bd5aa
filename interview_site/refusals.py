"""Answers of middleware that refuse a request, in the form that its sender reads: a page, a toast, or JSON."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string


def refuse(
    request: HttpRequest, *, status: int, title: str, text: str, retry_after: int, is_signed_in_known: bool = True
) -> HttpResponse:
    """Return an answer that says what to do. htmx swaps no such answer; ``app.js`` shows its text as a toast.

    Unless ``is_signed_in_known``, the page asks nobody who reads it: without a database there is no telling.
    """
    if request.path.startswith("/api/"):
        response: HttpResponse = JsonResponse({"message": text, "field": ""}, status=status)
    elif "HX-Request" in request.headers:
        response = HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    else:
        asked = request if is_signed_in_known else None
        page = render_to_string("refused.html", {"title": title, "text": text}, asked)
        response = HttpResponse(page, status=status)
    response.headers["Retry-After"] = str(retry_after)
    response.headers["Cache-Control"] = "no-store"
    return response
