"""Scenarios and fault runs over HTTP as JSON: reading only. Runs are for staff: they tell what is broken, and how."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router, Schema
from ninja.errors import HttpError
from ninja.security import django_auth

from faults.models import FaultRun, ScenarioVersion

router = Router(auth=django_auth, tags=["faults"])


class ScenarioOut(Schema):
    """One version of a scenario."""

    uuid: UUID
    slug: str
    number: int
    title: str
    category: str
    difficulty: str
    minutes: int

    @staticmethod
    def resolve_slug(version: ScenarioVersion) -> str:
        """Return the scenario's slug."""
        return version.scenario.slug


class RunOut(Schema):
    """One fault run, with its progress."""

    uuid: UUID
    purpose: str
    cluster: str
    status: str
    phase: str
    detail: str
    error: str
    manual_command: str
    deadline: datetime | None
    injected_at: datetime | None
    symptom_at: datetime | None
    reverted_at: datetime | None
    residue: list[str] | None

    @staticmethod
    def resolve_cluster(run: FaultRun) -> str:
        """Return the cluster's name."""
        return run.cluster.name


@router.get("/scenarios/", response=list[ScenarioOut])
def list_scenarios(request: HttpRequest) -> QuerySet[ScenarioVersion]:
    """Return every version of the scenarios that can be picked, newest first within a scenario."""
    return ScenarioVersion.objects.filter(scenario__archived=False).select_related("scenario")


@router.get("/runs/", response=list[RunOut])
def list_runs(request: HttpRequest, status: str = "") -> QuerySet[FaultRun]:
    """Return the newest 200 runs, all or those of one status."""
    _staff_only(request)
    runs = FaultRun.objects.select_related("cluster").order_by("-id")
    return (runs.filter(status=status) if status else runs)[:200]


@router.get("/runs/{uuid:run}/", response=RunOut)
def read_run(request: HttpRequest, run: UUID) -> FaultRun:
    """Return one run."""
    _staff_only(request)
    return get_object_or_404(FaultRun.objects.select_related("cluster"), uuid=run)


def _staff_only(request: HttpRequest) -> None:
    if not getattr(request.user, "is_staff", False):
        raise HttpError(403, "Only staff may read fault runs.")
