"""One interview: its frozen parts, its time line, and what was observed."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from faults.models import Cluster, FaultRun
from sessions.models.append_only import AppendOnly
from sessions.models.content import PlanVersion, QuestionVersion
from sessions.models.staging import StagedPart


class InterviewSession(models.Model):
    """One interview of one candidate."""

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        PREPARING = "preparing", "Preparing"
        READY = "ready", "Ready"
        LIVE = "live", "Live"
        PAUSED = "paused", "Paused"
        ENDED = "ended", "Ended"
        SCORED = "scored", "Scored"

    class ReleaseOutcome(models.TextChoices):
        REVERTED = "reverted", "Reverted: everything was taken back, and the cluster asked"
        DROPPED = "dropped", "Dropped: what was left went with the cluster"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="owned_sessions")
    interviewers = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="interview_sessions")
    candidate_name = models.CharField(max_length=120)
    title = models.CharField(max_length=200)
    plan_version = models.ForeignKey(PlanVersion, on_delete=models.PROTECT, null=True, blank=True)
    parts = models.JSONField(default=list, help_text="The outline, frozen from the plan or made from the picks.")
    minutes = models.PositiveSmallIntegerField(help_text="Planned length, extensions not counted.")
    scheduled_at = models.DateTimeField(null=True, blank=True)
    tier = models.CharField(max_length=10, choices=Cluster.Tier.choices, default=Cluster.Tier.PRACTICE)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    environment = models.OneToOneField(FaultRun, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    close_while_paused = models.BooleanField(
        default=False, help_text="While it is paused, the candidate's access is closed."
    )
    prepared_at = models.DateTimeField(
        null=True, blank=True, help_text="When preparing began; faults live 8 h at most."
    )
    join_token_hash = models.CharField(max_length=64, blank=True, help_text="SHA-256; the token itself is not kept.")
    browser_key = models.CharField(
        max_length=43, blank=True, help_text="What the joined browser's cookie session must hold; new with each link."
    )
    joined_at = models.DateTimeField(null=True, blank=True, help_text="When the candidate opened the join link.")
    first_request_at = models.DateTimeField(null=True, blank=True, help_text="The candidate's first API request.")
    quiet_until = models.DateTimeField(
        null=True, blank=True, help_text="Until then the interviewers see nothing of the cluster."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, blank=True)
    access_revoked_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when the candidate's access is closed; empty while it is open."
    )
    release_asked_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True, help_text="Faults reverted and the cluster let go.")
    residue = models.JSONField(null=True, blank=True, help_text="Differences left at the release; [] is clean.")
    outage_count = models.PositiveSmallIntegerField(
        default=0, help_text="Rows of the ledger; most sessions have none."
    )
    restart_count = models.PositiveSmallIntegerField(
        default=0, help_text="Entries of the time line about new starts of the cluster; most sessions have none."
    )
    release_outcome = models.CharField(max_length=8, choices=ReleaseOutcome.choices, blank=True)
    has_tied_faults = models.BooleanField(
        default=False,
        editable=False,
        help_text="Faults were injected by hand or by programs: what the page looks for.",
    )
    timeline_seal = models.CharField(
        max_length=64, blank=True, help_text="HMAC over the newest event's number and hash; see sessions.events."
    )

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "session"
        constraints = [
            models.UniqueConstraint(
                fields=["join_token_hash"], condition=~Q(join_token_hash=""), name="join_token_opens_one_session"
            ),
            models.CheckConstraint(condition=Q(minutes__range=(5, 450)), name="session_lasts_5_to_450_minutes"),
        ]

    def __str__(self) -> str:
        return f"{self.title}: {self.candidate_name}"

    def is_closed(self) -> bool:
        """Whether the state keeps the candidate out of the cluster: after the end, and in a pause that closes it."""
        if self.state == self.State.PAUSED:
            return self.close_while_paused
        return self.state in (self.State.ENDED, self.State.SCORED)

    def is_quiet(self, at: datetime) -> bool:
        """Whether the candidate works with nobody looking."""
        return self.quiet_until is not None and at < self.quiet_until


class SessionFault(models.Model):
    """A fault injected by hand or by a program while the session was on its cluster."""

    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="tied_faults")
    fault = models.ForeignKey("faults.InjectedFault", on_delete=models.PROTECT, related_name="session_faults")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["session", "fault"], name="fault_once_per_session"),
        ]

    def __str__(self) -> str:
        return f"{self.fault_id} in session {self.session_id}"


class SessionScenario(models.Model):
    """A scenario of a session, with the one fault run that injects it."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="scenarios")
    run = models.OneToOneField(FaultRun, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    scenario_version = models.ForeignKey("faults.ScenarioVersion", on_delete=models.PROTECT, related_name="+")
    part = models.PositiveSmallIntegerField(default=0)
    position = models.PositiveSmallIntegerField()
    fixed_at = models.DateTimeField(null=True, blank=True, help_text="When every check first passed.")
    held_at = models.DateTimeField(null=True, blank=True, help_text="When every check had held.")
    milestones = models.JSONField(
        default=dict,
        blank=True,
        help_text="By key: at, session_ms, and by whom it was ticked; empty: by checks.",
    )
    stage = models.ForeignKey(
        StagedPart,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="scenarios",
        help_text="Its part, where that begins during the interview; empty: it is there from the start.",
    )

    class Meta:
        ordering = ["session", "position"]
        constraints = [
            models.UniqueConstraint(fields=["session", "position"], name="session_scenario_position_once"),
            models.UniqueConstraint(fields=["session", "scenario_version"], name="scenario_version_once_per_session"),
        ]

    def __str__(self) -> str:
        return f"{self.scenario_version.title} in {self.session_id}"

    @property
    def is_open(self) -> bool:
        """Whether the candidate has it to work on: its part has begun. Only then it is checked and rated."""
        return self.stage is None or self.stage.began_at is not None

    @property
    def is_skipped(self) -> bool:
        """Whether its part was left out."""
        return self.stage is not None and self.stage.skipped_at is not None


class SessionQuestion(models.Model):
    """A question frozen into a session. Each interviewer keeps a record of their own on it (``QuestionRecord``)."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="questions")
    question_version = models.ForeignKey(QuestionVersion, on_delete=models.PROTECT, related_name="+")
    part = models.PositiveSmallIntegerField(default=0)
    position = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["session", "position"]
        constraints = [models.UniqueConstraint(fields=["session", "position"], name="session_question_position_once")]

    def __str__(self) -> str:
        return self.question_version.title


class PreparationPhase(models.Model):
    """One visible phase of getting ready or of releasing, with its progress."""

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        WAITING = "waiting", "Waiting for the cluster"
        DONE = "done", "Done"
        FAILED = "failed", "Needs you"

    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="phases")
    key = models.CharField(max_length=80)
    title = models.CharField(max_length=200)
    position = models.PositiveSmallIntegerField()
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    detail = models.TextField(blank=True, help_text="The last line it reported.")
    error = models.TextField(blank=True, help_text="The cause, and what to do about it.")
    attempts = models.PositiveIntegerField(default=0, help_text="Tries that failed since the last that did not.")
    tried_at = models.DateTimeField(null=True, blank=True, help_text="When the last try failed.")
    next_try_at = models.DateTimeField(null=True, blank=True, help_text="Tried again then, by itself.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["session", "position"]
        constraints = [models.UniqueConstraint(fields=["session", "key"], name="phase_key_once_per_session")]

    def __str__(self) -> str:
        return f"{self.title} ({self.status})"


class SessionEvent(AppendOnly):
    """One entry of the session's only time line. Append-only; each row carries the hash of the one before."""

    session = models.ForeignKey(InterviewSession, on_delete=models.PROTECT, related_name="events")
    seq = models.PositiveIntegerField()
    at = models.DateTimeField()
    session_ms = models.PositiveBigIntegerField(help_text="Session time in milliseconds.")
    kind = models.CharField(max_length=60)
    actor = models.CharField(max_length=150, help_text="user:<username>, candidate, or system.")
    payload = models.JSONField(default=dict)
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["session", "seq"]
        constraints = [models.UniqueConstraint(fields=["session", "seq"], name="session_event_seq_once")]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class ClockEntry(models.Model):
    """A change of the session's clock. Session time is the sum of the running intervals."""

    class Kind(models.TextChoices):
        START = "start", "Start"
        PAUSE = "pause", "Pause"
        RESUME = "resume", "Resume"
        EXTEND = "extend", "Extend"
        CREDIT = "credit", "Credit"
        END = "end", "End"

    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="clock_entries")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    at = models.DateTimeField()
    seconds = models.PositiveIntegerField(default=0, help_text="For extend and credit.")
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["session", "id"]
        verbose_name_plural = "clock entries"
        constraints = [
            models.UniqueConstraint(fields=["session"], condition=Q(kind="start"), name="session_starts_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%H:%M:%S}"


class Outage(models.Model):
    """A time in which the environment did not answer, through no fault of the candidate."""

    session = models.ForeignKey(InterviewSession, on_delete=models.CASCADE, related_name="outages")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=300)
    credited_s = models.PositiveIntegerField(default=0, help_text="Session time given back for it, in seconds.")

    class Meta:
        ordering = ["session", "began_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["session"], condition=Q(ended_at__isnull=True), name="one_outage_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.began_at:%H:%M:%S}: {self.reason}"


class HintRelease(models.Model):
    """A hint that was given, in the words that were shown."""

    scenario = models.ForeignKey(SessionScenario, on_delete=models.CASCADE, related_name="hint_releases")
    index = models.PositiveSmallIntegerField(help_text="Position in the pack's list of hints.")
    tier = models.PositiveSmallIntegerField()
    text = models.TextField()
    at = models.DateTimeField()
    session_ms = models.PositiveBigIntegerField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["scenario", "at"]
        constraints = [models.UniqueConstraint(fields=["scenario", "index"], name="hint_released_once")]

    def __str__(self) -> str:
        return f"hint {self.index}"


class CheckState(models.Model):
    """The newest verdict of one check or guard of one scenario."""

    class Verdict(models.TextChoices):
        PASS = "pass", "Pass"
        FAIL = "fail", "Fail"
        ERROR = "error", "Check error"
        NOT_RUN = "not_run", "Not run"

    scenario = models.ForeignKey(SessionScenario, on_delete=models.CASCADE, related_name="check_states")
    key = models.CharField(max_length=80)
    guard = models.BooleanField(default=False)
    verdict = models.CharField(max_length=8, choices=Verdict.choices, default=Verdict.NOT_RUN)
    finding = models.TextField(blank=True, help_text="What it saw.")
    checked_at = models.DateTimeField(null=True, blank=True)
    passing_since = models.DateTimeField(null=True, blank=True)
    held_at = models.DateTimeField(null=True, blank=True, help_text="When it had passed for as long as it must hold.")
    failing_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when it has failed without a break, outside any grace period."
    )
    failed_at = models.DateTimeField(null=True, blank=True, help_text="When its failing began to count.")
    grace_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Until then nothing counts as failed: we could not look, or have just begun to.",
    )
    told = models.CharField(
        max_length=8,
        choices=Verdict.choices,
        default=Verdict.NOT_RUN,
        help_text="The verdict that was last an event.",
    )
    broken_at = models.DateTimeField(
        null=True, blank=True, help_text="For a guard: since when it failed, the first time that this counted."
    )
    broken_finding = models.TextField(blank=True, help_text="For a guard: what was seen then.")
    change = models.TextField(blank=True, help_text="What changed before it failed: object, field, before and after.")
    changed_by = models.CharField(max_length=120, blank=True, help_text="The field manager, or that it is not known.")
    traceable = models.BooleanField(default=False, help_text="Whether a tool such as kubectl asked for the change.")

    class Meta:
        ordering = ["scenario", "id"]
        constraints = [models.UniqueConstraint(fields=["scenario", "key"], name="check_state_once")]

    def __str__(self) -> str:
        return f"{self.key}: {self.verdict}"
