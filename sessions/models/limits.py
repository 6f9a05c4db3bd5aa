"""Recent attempts, counted so that guessing stays slow."""

from __future__ import annotations

from django.db import models


class Attempt(models.Model):
    """One try at something that is limited. Rows live for minutes; see ``sessions.limits``."""

    bucket = models.CharField(max_length=64, help_text="SHA-256 of what is limited, and for whom.")
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["bucket", "at"], name="attempts_of_a_bucket")]

    def __str__(self) -> str:
        return f"{self.bucket[:8]} at {self.at:%H:%M:%S}"
