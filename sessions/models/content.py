"""Content that admins curate: interview plans, question banks and versioned questions."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from faults.models import ScenarioVersion


class QuestionBank(models.Model):
    """A named collection of questions."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    slug = models.SlugField(max_length=80, unique=True)
    title = models.CharField(max_length=200)

    class Meta:
        ordering = ["title"]

    def __str__(self) -> str:
        return self.title


class Question(models.Model):
    """A question's identity inside its bank; its text lives in versions."""

    class Kind(models.TextChoices):
        FULL = "full", "With an expected answer"
        ARCHITECTURE = "architecture", "Architecture prompt"
        BARE = "bare", "Bare question"

    class Difficulty(models.TextChoices):
        EASY = "easy", "Easy"
        MEDIUM = "medium", "Medium"
        HARD = "hard", "Hard"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    bank = models.ForeignKey(QuestionBank, on_delete=models.PROTECT, related_name="questions")
    key = models.CharField(max_length=120, help_text="Stable identity inside the bank, made from the first heading.")
    category = models.CharField(max_length=120)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    position = models.PositiveIntegerField(default=0)
    tags = models.JSONField(default=list, blank=True, help_text="Words to find it by, such as inference.")
    difficulty = models.CharField(max_length=8, choices=Difficulty.choices, blank=True)
    minutes = models.PositiveSmallIntegerField(default=5, help_text="Minutes that it usually takes.")
    if_time_left = models.BooleanField("only if time is left", default=False)
    archived = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["bank", "position", "id"]
        constraints = [
            models.UniqueConstraint(fields=["bank", "key"], name="question_key_once_per_bank"),
            models.CheckConstraint(condition=Q(minutes__range=(1, 120)), name="question_takes_1_to_120_minutes"),
        ]

    def __str__(self) -> str:
        return self.key


class QuestionVersion(models.Model):
    """One frozen wording of a question. Markdown in every text field."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    question = models.ForeignKey(Question, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    title = models.CharField(max_length=300, help_text="The question, or the prompt's heading.")
    prompt = models.TextField(blank=True, help_text="The situation to put to the candidate, where there is one.")
    expected_answer = models.TextField(blank=True)
    follow_ups = models.JSONField(default=list, help_text="A list of texts.")
    hints = models.JSONField(default=list, help_text="A list of texts.")
    discussion_points = models.JSONField(default=list, help_text="A list of texts.")
    source_line = models.PositiveIntegerField(null=True, blank=True, help_text="Line in the imported file.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["question", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["question", "number"], name="question_version_number_once"),
            models.UniqueConstraint(fields=["question", "digest"], name="question_version_digest_once"),
        ]

    def __str__(self) -> str:
        return self.title


class Plan(models.Model):
    """An interview template's identity."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    slug = models.SlugField(max_length=80, unique=True)
    archived = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class PlanVersion(models.Model):
    """One frozen state of a plan. ``parts`` is its outline, in order, with minutes."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    summary = models.TextField(blank=True)
    parts = models.JSONField(
        help_text='[{"title": text, "minutes": int, "scenarios": [slug], "questions": [question uuid]}]; '
        'a part without scenarios may have "tasks" (Markdown) and "criteria" ([text]); one with scenarios may have '
        '"injection" ("button" or "automatic").'
    )
    cuts = models.JSONField(
        default=list,
        blank=True,
        help_text='Shorter forms: [{"minutes": int, "parts": [int or null]}]; a part with null is left out.',
    )
    scenarios = models.ManyToManyField(ScenarioVersion, blank=True, related_name="plans")
    close_while_paused = models.BooleanField(
        default=False, help_text="While an interview is paused, the candidate's access is closed."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["plan", "-number"]
        constraints = [models.UniqueConstraint(fields=["plan", "number"], name="plan_version_number_once")]

    def __str__(self) -> str:
        return f"{self.title} (v{self.number})"

    @property
    def minutes(self) -> int:
        """Return the minutes of all parts in full."""
        return sum(int(part["minutes"]) for part in self.parts)
