"""A worker process that kills itself where it is told to. Driven by ``test_crashes.py`` over its pipes.

Each request is one line of JSON; it is worked on in a forked child, as rq does, and answered with what became of the
child and of the run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "interview_site.settings"
django.setup()

import kubernetes.client  # noqa: E402, F401 - read here, not by each child anew
from django.core.management import call_command  # noqa: E402 - Django must be set up first
from django.db import connection  # noqa: E402

from faults import reconciler, selectors, services  # noqa: E402
from faults.engine import compare, fingerprint  # noqa: E402
from faults.kube.client import Kube  # noqa: E402
from faults.models import FaultRun, ScenarioVersion, Step  # noqa: E402
from torture import packs  # noqa: E402

NAMESPACES = {"workloads": "ml-training"}


def killing_at(point: str, hit: int) -> Callable[[str], None]:
    """Return a failpoint that kills this process with SIGKILL when ``point`` is reached for the ``hit``-th time."""
    reached = [0]

    def failpoint(name: str) -> None:
        reached[0] += name == point
        if name == point and reached[0] == hit:
            os.kill(os.getpid(), signal.SIGKILL)

    return failpoint


def plan(request: dict) -> dict:
    """Make a cluster, its environment (planned or active) and a planned fault."""
    deadline = datetime.now(UTC) + timedelta(hours=1)
    cluster = services.ensure_practice_cluster(name=f"crash-{uuid.uuid4().hex[:10]}", deadline=deadline)
    kube = selectors.kube_for(cluster)
    picture = fingerprint(kube, list(NAMESPACES.values()))
    environment = services.plan_environment_run(cluster=cluster, namespaces=NAMESPACES, deadline=deadline)
    if request["purpose"] == "environment":
        return {"run": environment.pk, "environment": environment.pk, "before": picture}
    services.inject_run(run_id=environment.pk, holder="setup")
    version = seed(request, kube)
    run = services.plan_fault_run(
        cluster=cluster, scenario_version=version, namespaces=NAMESPACES, parameters={}, seed=1, deadline=deadline
    )
    return {"run": run.pk, "environment": environment.pk, "before": picture}


def seed(request: dict, kube: Kube) -> ScenarioVersion:
    """Return the catalogue's first scenario, or one whose steps are patches and deletions."""
    if request["purpose"] == "fault":
        return next(
            version for version in services.seed_catalog() if version.scenario.slug == "architecture-mismatch"
        )
    with tempfile.TemporaryDirectory() as folder:
        packs.write_kinds(Path(folder), kube.list("v1", "Node")[0]["metadata"]["name"])
        versions = services.seed_catalog(folder=Path(folder))
    return next(version for version in versions if version.scenario.slug == "kinds-alone")


def inject(request: dict) -> dict:
    """Inject and confirm, dying on the way if asked to."""
    failpoint = killing_at(request.get("die_at", ""), request.get("hit", 1))
    services.inject_run(run_id=request["run"], holder=f"w{os.getpid()}", failpoint=failpoint)
    services.confirm_symptom(run_id=request["run"], holder=f"w{os.getpid()}", timeout_s=30)
    return {}


def revert(request: dict) -> dict:
    """Revert, dying on the way if asked to; ``lease_over``: as long after a death as a lease lasts."""
    failpoint = killing_at(request.get("die_at", ""), request.get("hit", 1))
    now = datetime.now(UTC) + timedelta(seconds=30 if request.get("lease_over") else 0)
    services.revert_run(run_id=request["run"], holder=f"w{os.getpid()}", now=now, failpoint=failpoint)
    return {}


def reconcile(request: dict) -> dict:
    """Do what the observer does when the dead worker's lease has run out."""
    return {"attended": reconciler.tick(datetime.now(UTC) + timedelta(seconds=30))}


def look(request: dict) -> dict:
    """Return the run's state, its steps' states, and what differs from the world before it."""
    run = FaultRun.objects.get(pk=request["run"])
    steps = list(Step.objects.filter(run=run).values_list("status", flat=True))
    difference: list[str] = []
    if request.get("before"):
        picture = fingerprint(selectors.kube_for(run.cluster), list(NAMESPACES.values()))
        difference = compare(request["before"], picture)
    return {"status": run.status, "steps": steps, "residue": run.residue, "difference": difference}


ACTS = {"plan": plan, "inject": inject, "revert": revert, "reconcile": reconcile, "look": look}


def in_child(request: dict) -> dict:
    """Fork, act, and return the answer, or by which signal the child died."""
    connection.close()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as pipe:
            json.dump(ACTS[request["act"]](request), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0} | (json.loads(text) if text else {})


def main() -> None:
    """Answer requests until the pipe is closed. The catalogue is read here, not by each child anew."""
    call_command("migrate", verbosity=0)
    services.seed_catalog()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(in_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
