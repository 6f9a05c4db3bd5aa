"""Addresses of the WebSockets."""

from __future__ import annotations

from typing import Any, cast

from django.urls import path

from sessions.consumers import CandidateConsumer, InterviewerConsumer

# Django's ``path`` is typed for views; the URLRouter of channels takes ASGI applications.
websocket_urlpatterns = [
    path("ws/sessions/<uuid:uuid>/", cast(Any, InterviewerConsumer.as_asgi())),
    path("ws/candidate/<uuid:uuid>/", cast(Any, CandidateConsumer.as_asgi())),
]
