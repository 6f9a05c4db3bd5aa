"""The faults app: scenarios, clusters and the injection engine."""

from django.apps import AppConfig


class FaultsConfig(AppConfig):
    """Knows nothing of sessions; reaches clusters only through ``faults.kube``."""

    name = "faults"
    label = "faults"
    verbose_name = "Faults"
