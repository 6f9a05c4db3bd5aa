"""The faults app: scenarios, clusters and the injection engine."""

from django.apps import AppConfig
from django.conf import settings

from faults import clock


class FaultsConfig(AppConfig):
    """Knows nothing of sessions; reaches clusters only through ``faults.kube``."""

    name = "faults"
    label = "faults"
    verbose_name = "Faults"

    def ready(self) -> None:
        """Read the time as every other process of this installation does."""
        clock.use_file(settings.DATA_DIR / "clock")
