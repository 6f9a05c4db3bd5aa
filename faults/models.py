"""Scenario versions, clusters, fault runs, their steps, and jobs to relay."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone


class Scenario(models.Model):
    """A scenario's identity; what it says and does lives in its versions."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    archived = models.BooleanField(default=False, help_text="Archived scenarios cannot be picked for new sessions.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class ScenarioVersion(models.Model):
    """One frozen state of a pack: every file of it, and the digest over them."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    scenario = models.ForeignKey(Scenario, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    digest = models.CharField(max_length=64, help_text="SHA-256 over the sorted file names and their contents.")
    files = models.JSONField(help_text="Path inside the pack -> text.")
    title = models.CharField(max_length=200)
    category = models.CharField(max_length=80)
    difficulty = models.CharField(max_length=20)
    minutes = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["scenario__slug", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["scenario", "number"], name="scenario_version_number_once"),
            models.UniqueConstraint(fields=["scenario", "digest"], name="scenario_version_digest_once"),
        ]

    def __str__(self) -> str:
        return f"{self.title} (v{self.number})"


class Cluster(models.Model):
    """A Kubernetes cluster we may break."""

    class Tier(models.TextChoices):
        PRACTICE = "practice", "Practice (simulated, fresh for each session)"
        DEDICATED = "dedicated", "Dedicated (leased to one session at a time)"
        SHARED = "shared", "Shared (namespaces of its own for each session)"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    tier = models.CharField(max_length=10, choices=Tier.choices)
    kubeconfig = models.TextField(blank=True, help_text="Encrypted; only faults.kube reads it.")
    prometheus_url = models.URLField("Prometheus address", blank=True)
    kept = models.BooleanField(
        default=False, help_text="Added by an admin: stays, with its kubeconfig, when a session gives it back."
    )
    archived = models.BooleanField(default=False, help_text="Not offered for new sessions.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    released_at = models.DateTimeField(null=True, blank=True, help_text="When a practice cluster was dropped.")
    refused_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when it refuses the stored credentials; empty while it takes them."
    )
    preflight_at = models.DateTimeField("last preflight", null=True, blank=True)
    preflight_error = models.TextField(
        blank=True, help_text="For which reason sessions would fail here, as the last preflight found."
    )

    inventory = models.JSONField(
        null=True, blank=True, editable=False, help_text="Nodes and API groups that the last preflight found."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ClusterLease(models.Model):
    """A session's hold on a cluster that an admin added; rows stay as the record of who had it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="leases")
    holder = models.UUIDField(help_text="The session's UUID.")
    exclusive = models.BooleanField(help_text="Nobody else may have the cluster meanwhile.")
    taken_at = models.DateTimeField(default=timezone.now)
    given_back_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"],
                condition=Q(exclusive=True, given_back_at__isnull=True),
                name="cluster_leased_to_one_session",
            ),
            models.UniqueConstraint(
                fields=["cluster", "holder"], condition=Q(given_back_at__isnull=True), name="cluster_leased_once_each"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster} for {self.holder}"


class Panic(models.Model):
    """A stop of all fault injection, in one cluster or in all, from its engagement until a person lifts it."""

    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, null=True, blank=True, related_name="panics", help_text="Empty: all."
    )
    engaged_at = models.DateTimeField(default=timezone.now)
    engaged_by = models.CharField(max_length=150)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"], condition=Q(lifted_at__isnull=True), name="panic_engaged_once_per_cluster"
            ),
            # NULLs are distinct to the one above.
            models.UniqueConstraint(
                Coalesce("cluster", Value(0)),
                condition=Q(cluster__isnull=True, lifted_at__isnull=True),
                name="panic_engaged_once_for_all",
            ),
        ]

    def __str__(self) -> str:
        return f"panic for {self.cluster or 'every cluster'} by {self.engaged_by}"


class FaultRun(models.Model):
    """One journaled set of changes in one cluster: a scenario's fault, or a session's environment."""

    class Purpose(models.TextChoices):
        ENVIRONMENT = "environment", "Environment (namespaces, candidate's identity)"
        FAULT = "fault", "Fault"
        API = "api", "Fault injected through the API"

    class Status(models.TextChoices):
        PLANNED = "planned", "Queued"
        INJECTING = "injecting", "Injecting"
        ACTIVE = "active", "Active"
        RESOLVED = "resolved", "Resolved"
        REVERTING = "reverting", "Reverting"
        REVERTED = "reverted", "Reverted"
        FAILED = "failed", "Failed"
        QUARANTINED = "quarantined", "Quarantined"

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    purpose = models.CharField(max_length=12, choices=Purpose.choices, default=Purpose.FAULT)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="runs")
    scenario_version = models.ForeignKey(
        ScenarioVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="runs"
    )
    namespaces = models.JSONField(default=dict, help_text="The pack's name of a namespace -> the real one.")
    parameters = models.JSONField(default=dict, help_text="The pack's parameters, resolved for this run.")
    seed = models.BigIntegerField(default=0)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.PLANNED)
    phase = models.CharField(max_length=60, blank=True, help_text="What it is doing now, in words.")
    detail = models.TextField(blank=True, help_text="The last line the phase reported.")
    error = models.TextField(blank=True)
    manual_command = models.TextField(blank=True, help_text="What a person must run when quarantined.")
    epoch = models.PositiveIntegerField(default=0, help_text="Fences off a worker that lost its lease.")
    lease_holder = models.CharField(max_length=80, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    deadline = models.DateTimeField(null=True, blank=True, help_text="Reverted at this time whatever happens.")
    mirrored_deadline = models.DateTimeField(
        null=True, blank=True, help_text="The deadline that the copy of the journal in the cluster knows."
    )
    attempts = models.PositiveIntegerField(default=0, help_text="Tries that failed since the last that did not.")
    tried_at = models.DateTimeField(null=True, blank=True, help_text="When the last try failed.")
    next_try_at = models.DateTimeField(null=True, blank=True, help_text="Not tried again before.")
    settling_at = models.DateTimeField(null=True, blank=True, help_text="Since when deleted objects do not go.")
    looked_seconds = models.FloatField(default=0, help_text="For how long the symptom could be looked for.")
    fingerprint_before = models.JSONField(null=True, blank=True)
    residue = models.JSONField(null=True, blank=True, help_text="Differences left after the revert; [] is clean.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    injecting_at = models.DateTimeField(null=True, blank=True)
    injected_at = models.DateTimeField(null=True, blank=True)
    symptom_at = models.DateTimeField(null=True, blank=True, help_text="When the symptom was confirmed.")
    reverting_at = models.DateTimeField(null=True, blank=True)
    reverted_at = models.DateTimeField(null=True, blank=True)
    reverted_version = models.PositiveBigIntegerField(
        default=0, help_text="The cluster's resourceVersion then; one that is older now came back from a snapshot."
    )
    dropped = models.BooleanField(default=False, help_text="Not reverted: it went with its cluster.")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(purpose__in=["environment", "api"]) | Q(scenario_version__isnull=False),
                name="fault_run_has_a_scenario",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.purpose} run {self.pk} ({self.status})"


class Step(models.Model):
    """One change, with the undo that was committed before it was sent."""

    class Status(models.TextChoices):
        RECORDED = "recorded", "Undo recorded"
        APPLIED = "applied", "Applied"
        REVERTED = "reverted", "Reverted"

    run = models.ForeignKey(FaultRun, on_delete=models.CASCADE, related_name="steps")
    index = models.PositiveSmallIntegerField()
    schema = models.PositiveSmallIntegerField(default=1, help_text="Version of the undo's format.")
    kind = models.CharField(max_length=40, help_text="The injector: manifest, patch, ...")
    target = models.JSONField(help_text="apiVersion, kind, namespace, name.")
    undo = models.JSONField(help_text="What reverting needs: before-image, injected fields.")
    target_uid = models.CharField(max_length=64, blank=True)
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.RECORDED)
    epoch = models.PositiveIntegerField(default=0)
    recorded_at = models.DateTimeField(default=timezone.now)
    applied_at = models.DateTimeField(null=True, blank=True)
    reverted_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=200, blank=True, help_text="What reverting found and did.")

    class Meta:
        ordering = ["run", "index"]
        constraints = [models.UniqueConstraint(fields=["run", "index"], name="step_index_once_per_run")]

    def __str__(self) -> str:
        return f"step {self.index} of run {self.run_id}"


class ApiToken(models.Model):
    """A program's key to the fault injection API of one cluster. Only its hash is kept."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(max_length=100, help_text="Who uses it, and for what.")
    token_hash = models.CharField(max_length=64, unique=True, editable=False, help_text="SHA-256.")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="api_tokens")
    scopes = models.CharField(max_length=200, help_text="Separated by spaces.")
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=~Q(scopes=""), name="api_token_has_a_scope"),
            models.CheckConstraint(
                condition=Q(expires_at__gt=models.F("created_at")), name="api_token_expires_after_its_making"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} for {self.cluster}"


class InjectedFault(models.Model):
    """A fault that the API has injected. Its run has the journal, the deadline, and how far it has come."""

    fault_id = models.CharField(max_length=80, unique=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="injected_faults")
    run = models.OneToOneField(FaultRun, on_delete=models.PROTECT, related_name="injected_fault")
    type = models.CharField(max_length=60, help_text="gpu_xid_79, network_frontend_worker, ...")
    target = models.CharField(max_length=300)
    node = models.CharField(max_length=253, blank=True, help_text="Of a GPU's fault.")
    gpu = models.PositiveSmallIntegerField(null=True, blank=True)
    details = models.JSONField(default=dict, help_text="The request, as it was carried out.")
    requested_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    error = models.TextField(blank=True, help_text="For which reason it could not be injected.")
    ended_by = models.CharField(max_length=150, blank=True, help_text="Who took it back; empty: its time was over.")
    recovered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(node="", gpu__isnull=True) | (~Q(node="") & Q(gpu__isnull=False)),
                name="injected_fault_names_node_and_gpu",
            ),
            # Recovery repairs the whole device, so that one would end the other.
            models.UniqueConstraint(
                fields=["cluster", "node", "gpu"],
                condition=Q(recovered_at__isnull=True, gpu__isnull=False),
                name="injected_fault_once_per_gpu",
            ),
        ]

    def __str__(self) -> str:
        return self.fault_id


class ApiEvent(models.Model):
    """One entry of the record of what programs asked of the fault injection API, and what became of it."""

    at = models.DateTimeField(default=timezone.now, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, null=True, related_name="api_events")
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=40)
    subject = models.CharField(max_length=300, blank=True, help_text="The fault, or what was to be one.")
    outcome = models.CharField(max_length=40, help_text="done, or the code of the refusal.")
    detail = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.subject} ({self.outcome})"


class Outbox(models.Model):
    """A job that must be enqueued, written in the transaction of the change that needs it."""

    job = models.CharField(max_length=120, help_text="Dotted path of the job function.")
    args = models.JSONField(default=list, help_text="Row ids only.")
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)
    taken_at = models.DateTimeField(null=True, blank=True, help_text="When a worker began it.")
    relays = models.PositiveSmallIntegerField(default=0, help_text="How often it was put into the queue.")

    class Meta:
        verbose_name_plural = "outbox"
        ordering = ["id"]
        indexes = [models.Index(fields=["created_at"], condition=Q(sent_at__isnull=True), name="outbox_unsent")]

    def __str__(self) -> str:
        return f"{self.job}{tuple(self.args)}"


class Lease(models.Model):
    """One holder at a time for a named duty (the active observer, a session's preparation)."""

    name = models.CharField(max_length=120, unique=True)
    holder = models.CharField(max_length=80, blank=True)
    epoch = models.PositiveIntegerField(default=0)
    until = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.holder or 'free'})"
