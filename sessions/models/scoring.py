"""Ratings of an interview: one assessment for each interviewer, ratings with anchors, notes in time."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions.models.append_only import AppendOnly
from sessions.models.interview import InterviewSession, SessionQuestion, SessionScenario


class Assessment(models.Model):
    """One interviewer's judgement of one session."""

    class Recommendation(models.TextChoices):
        DEFINITELY_NOT = "definitely_not", "Definitely not"
        NO = "no", "No"
        YES = "yes", "Yes"
        STRONG_YES = "strong_yes", "Strong yes"
        NO_DECISION = "no_decision", "No decision"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="assessments")
    interviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="assessments")
    overall = models.CharField(max_length=16, choices=Recommendation.choices, default=Recommendation.NO_DECISION)
    takeaways = models.TextField(blank=True)
    strengths = models.TextField(blank=True)
    concerns = models.TextField(blank=True)
    private_notes = models.TextField(blank=True, help_text="Never exported.")
    revision = models.PositiveIntegerField(default=1)
    version = models.PositiveIntegerField(default=0, help_text="Counts edits; a stale edit is refused.")
    revision_reason = models.CharField(max_length=300, blank=True, help_text="Why it was opened again.")
    submitted_at = models.DateTimeField(null=True, blank=True, help_text="Empty while it is being edited.")
    first_submitted_at = models.DateTimeField(null=True, blank=True, help_text="Ends the blind phase for its writer.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["session", "id"]
        constraints = [
            models.UniqueConstraint(fields=["session", "interviewer"], name="one_assessment_per_interviewer"),
        ]

    def __str__(self) -> str:
        return f"{self.interviewer} on {self.session_id}"


class AssessmentRevision(AppendOnly):
    """A submission of an interviewer, word for word; a later change is a new revision."""

    assessment = models.ForeignKey(Assessment, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    reason = models.CharField(max_length=300, blank=True)
    submitted_at = models.DateTimeField()
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    content = models.JSONField(help_text="The assessment's fields and ratings as they were.")

    class Meta:
        ordering = ["assessment", "number"]
        constraints = [models.UniqueConstraint(fields=["assessment", "number"], name="revision_number_once")]

    def __str__(self) -> str:
        return f"revision {self.number} of assessment {self.assessment_id}"


class QuestionRecord(models.Model):
    """One interviewer's record of one question; nobody else reads it before both have submitted."""

    assessment = models.ForeignKey(Assessment, on_delete=models.CASCADE, related_name="question_records")
    question = models.ForeignKey(SessionQuestion, on_delete=models.CASCADE, related_name="records")
    asked_at = models.DateTimeField(null=True, blank=True)
    asked_ms = models.PositiveBigIntegerField(null=True, blank=True, help_text="Session time in milliseconds.")
    answer = models.TextField(blank=True, help_text="The candidate's answer, as this interviewer noted it.")
    follow_ups = models.JSONField(default=list, blank=True, help_text="Positions of the follow-ups that were used.")
    hints = models.JSONField(default=list, blank=True, help_text="Positions of the hints that were given.")
    version = models.PositiveIntegerField(default=0, help_text="Counts edits; a stale edit is refused.")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["assessment", "question"]
        constraints = [
            models.UniqueConstraint(fields=["assessment", "question"], name="question_record_once"),
        ]

    def __str__(self) -> str:
        return f"record of question {self.question_id} in assessment {self.assessment_id}"


class Rating(models.Model):
    """One level for one criterion of one subject; null is "not assessed", never zero."""

    class Subject(models.TextChoices):
        SCENARIO = "scenario", "Scenario"
        QUESTION = "question", "Question"
        PART = "part", "Part without a fault"
        INTERVIEW = "interview", "Whole interview"

    assessment = models.ForeignKey(Assessment, on_delete=models.CASCADE, related_name="ratings")
    subject = models.CharField(max_length=9, choices=Subject.choices, default=Subject.SCENARIO)
    scenario = models.ForeignKey(
        SessionScenario, on_delete=models.CASCADE, null=True, blank=True, related_name="ratings"
    )
    question = models.ForeignKey(
        SessionQuestion, on_delete=models.CASCADE, null=True, blank=True, related_name="ratings"
    )
    part = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Position in the session's outline.")
    criterion = models.CharField(max_length=80, help_text="Key among the subject's criteria.")
    level = models.PositiveSmallIntegerField(null=True, blank=True)
    note = models.TextField(blank=True)
    from_memory = models.BooleanField(default=False)
    version = models.PositiveIntegerField(default=0, help_text="Counts edits; a stale edit is refused.")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["assessment", "id"]
        constraints = [
            models.CheckConstraint(
                name="rating_has_one_subject",
                condition=Q(subject="scenario", scenario__isnull=False, question__isnull=True, part__isnull=True)
                | Q(subject="question", scenario__isnull=True, question__isnull=False, part__isnull=True)
                | Q(subject="part", scenario__isnull=True, question__isnull=True, part__isnull=False)
                | Q(subject="interview", scenario__isnull=True, question__isnull=True, part__isnull=True),
            ),
            models.UniqueConstraint(
                fields=["assessment", "scenario", "criterion"],
                condition=Q(subject="scenario"),
                name="rating_once_per_scenario",
            ),
            models.UniqueConstraint(
                fields=["assessment", "question", "criterion"],
                condition=Q(subject="question"),
                name="rating_once_per_question",
            ),
            models.UniqueConstraint(
                fields=["assessment", "part", "criterion"], condition=Q(subject="part"), name="rating_once_per_part"
            ),
            models.UniqueConstraint(
                fields=["assessment", "criterion"], condition=Q(subject="interview"), name="rating_once_per_interview"
            ),
            models.CheckConstraint(
                condition=Q(level__isnull=True) | Q(level__range=(1, 4)), name="rating_level_1_to_4"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.criterion}: {self.level or 'not assessed'}"


class Note(models.Model):
    """A note bound to a moment of the session."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="notes")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()
    session_ms = models.PositiveBigIntegerField()
    text = models.TextField(max_length=4000)

    class Meta:
        ordering = ["session", "session_ms", "id"]

    def __str__(self) -> str:
        return self.text[:60]
