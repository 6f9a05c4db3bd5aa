"""The panic stop's figures: twenty sessions on practice clusters, each reverted and proven clean in time."""

from __future__ import annotations

import os
import resource
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from conftest import PracticeHost
from faults import practice as practice_clusters
from faults import services
from faults.models import FaultRun, ScenarioVersion

pytestmark = pytest.mark.torture
SESSIONS = 20
MAX_ISSUED_S, MAX_VERIFIED_S = 2.0, 5.0
NAMES = {"workloads": "ml-training"}


@pytest.mark.django_db(transaction=True)
def test_twenty_sessions_are_reverted_and_proven_clean_in_time(practice: PracticeHost) -> None:
    version = next(version for version in services.seed_catalog() if version.scenario.slug == "architecture-mismatch")
    deadline = datetime.now(UTC) + timedelta(hours=1)
    names = [f"panic-{uuid.uuid4().hex[:8]}" for _ in range(SESSIONS)]
    for name in names:
        prepare(name, version, deadline)
    computed = cpu_seconds()
    engaged = services.engage_panic(by="root").engaged_at
    outcomes = services.revert_engaged()
    runs = FaultRun.objects.all()
    issued, verified = (
        max((getattr(run, field) - engaged).total_seconds() for run in runs)
        for field in ("reverting_at", "reverted_at")
    )
    print(
        f"{len(names)} sessions, {len(outcomes)} runs: the last revert issued after {issued:.2f} s, the last proven "
        f"clean after {verified:.2f} s; {cpu_seconds() - computed:.2f} s of CPU here; load {os.getloadavg()[0]:.1f}"
    )
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert not any(practice_clusters.exists(name) for name in names)
    assert (issued < MAX_ISSUED_S, verified < MAX_VERIFIED_S) == (True, True)


def prepare(name: str, version: ScenarioVersion, deadline: datetime) -> None:
    cluster = services.ensure_practice_cluster(name=name, deadline=deadline)
    for run in (
        services.plan_environment_run(cluster=cluster, namespaces=NAMES, deadline=deadline),
        services.plan_fault_run(
            cluster=cluster, scenario_version=version, namespaces=NAMES, parameters={}, seed=1, deadline=deadline
        ),
    ):
        services.inject_run(run_id=run.pk, holder="test")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
