"""Parts of a session whose faults are injected when they start, and not before the interview."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class StagedPart(models.Model):
    """A part that an interviewer starts, or that starts by itself: injected, proven, and only then shown."""

    class Start(models.TextChoices):
        BUTTON = "button", "When an interviewer presses the button"
        AUTOMATIC = "automatic", "By itself, when the part before it ends"

    session = models.ForeignKey(
        "interview_sessions.InterviewSession", on_delete=models.CASCADE, related_name="staged_parts"
    )
    number = models.PositiveSmallIntegerField(help_text="Position in the session's outline, from 0.")
    start = models.CharField(max_length=9, choices=Start.choices)
    asked_at = models.DateTimeField(null=True, blank=True, help_text="When its start was asked for.")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    began_at = models.DateTimeField(
        null=True, blank=True, help_text="When its faults were proven, and the candidate saw it."
    )
    began_ms = models.PositiveBigIntegerField(null=True, blank=True, help_text="Session time in milliseconds.")
    skipped_at = models.DateTimeField(null=True, blank=True, help_text="When it was left out, for good.")

    class Meta:
        ordering = ["session", "number"]
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="staged_part_once_per_session"),
            models.CheckConstraint(
                condition=Q(began_at__isnull=True) | Q(skipped_at__isnull=True), name="staged_part_began_or_skipped"
            ),
        ]

    def __str__(self) -> str:
        return f"part {self.number + 1} of {self.session_id}"

    @property
    def is_waiting(self) -> bool:
        """Whether nobody has asked for its start yet, and it has not been left out."""
        return self.asked_at is None and self.skipped_at is None

    @property
    def is_under_way(self) -> bool:
        """Whether its faults are being injected or proven."""
        return self.asked_at is not None and self.began_at is None and self.skipped_at is None
