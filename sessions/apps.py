"""The sessions app: plans, interviews, live screens and scoring."""

from django.apps import AppConfig


class SessionsConfig(AppConfig):
    """Has a label of its own, since Django's own sessions app took the folder's name."""

    name = "sessions"
    label = "interview_sessions"
    verbose_name = "Interviews"
