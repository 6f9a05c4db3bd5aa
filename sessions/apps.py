"""The sessions app: plans, interviews, live screens and scoring."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from sessions import append_only


class SessionsConfig(AppConfig):
    """Has a label of its own, since Django's own sessions app took the folder's name."""

    name = "sessions"
    label = "interview_sessions"
    verbose_name = "Interviews"

    def ready(self) -> None:
        """Keep the time line append-only in the database, whatever migrations did to its table; hear of faults."""
        from sessions import fault_receivers  # models are there only now

        fault_receivers.connect()
        post_migrate.connect(append_only.install, sender=self, dispatch_uid="interview_sessions.append_only")
