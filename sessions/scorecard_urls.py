"""Addresses of the scorecard: ``/sessions/<uuid>/scorecard/`` and its two files."""

from django.urls import path

from sessions.views import scorecard

urlpatterns = [
    path("sessions/<uuid:uuid>/scorecard/", scorecard.page, name="scorecard"),
    path("sessions/<uuid:uuid>/scorecard.pdf", scorecard.pdf, name="scorecard-pdf"),
    path("sessions/<uuid:uuid>/scorecard.json", scorecard.json, name="scorecard-json"),
]
