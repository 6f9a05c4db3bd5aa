"""The request as our views see it: signed in, with htmx's details."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest as DjangoHttpRequest
from django_htmx.middleware import HtmxDetails


class HttpRequest(DjangoHttpRequest):
    """A request that passed ``login_required`` and the htmx middleware."""

    user: User
    htmx: HtmxDetails
