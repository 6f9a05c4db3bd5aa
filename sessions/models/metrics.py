"""Metrics of a session's pods over its time, as Prometheus told them."""

from __future__ import annotations

from django.db import models

from sessions.models.interview import InterviewSession


class MetricSample(models.Model):
    """The pods of a session at one moment of it."""

    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="metric_samples")
    at = models.DateTimeField()
    session_ms = models.PositiveBigIntegerField(help_text="Session time in milliseconds.")
    pods = models.JSONField(
        default=dict,
        help_text="By namespace/name: GPU utilisation in per cent, GPU memory in MiB, CPU in cores, restarts.",
    )

    class Meta:
        ordering = ["session", "session_ms"]
        constraints = [
            models.UniqueConstraint(fields=["session", "session_ms"], name="metric_sample_once_per_moment")
        ]

    def __str__(self) -> str:
        return f"{self.session_id} at {self.session_ms} ms"
