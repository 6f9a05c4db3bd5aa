"""The assembled site as an app: its system checks and its commands."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    """Holds what belongs to no single part."""

    name = "interview_site"
    verbose_name = "Site"
