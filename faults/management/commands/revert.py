"""``manage.py revert``: takes faults back at once, with no worker and no Redis."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from faults import clock, reconciler, services
from faults.errors import ClusterError, FaultError
from faults.jobs import holder_name
from faults.models import FaultRun


class Command(BaseCommand):
    """The panic button."""

    help = "Take fault runs back now. Needs the database and the cluster only."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Choose which runs."""
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--all", action="store_true", help="every run that is not reverted, quarantined ones too")
        which.add_argument("--overdue", action="store_true", help="those whose deadline has passed")
        which.add_argument("--run", type=UUID, action="append", help="the run with this UUID; may be given again")

    def handle(self, *args: Any, **options: Any) -> None:
        """Revert the newest first; go on past failures and report them all."""
        failed = [run for run in _chosen(options).order_by("-id") if not self._revert(run)]
        if failed:
            raise CommandError(f"{len(failed)} of the runs could not be reverted; see above.")

    def _revert(self, run: FaultRun) -> bool:
        try:
            after = services.revert_run(run_id=run.pk, holder=holder_name())
        except (ClusterError, FaultError) as exc:
            self.stderr.write(f"{run.uuid} in {run.cluster}: {exc}")
            return False
        self.stdout.write(f"{run.uuid} in {run.cluster}: {after.status}, {len(after.residue or [])} left over")
        if after.manual_command:
            self.stderr.write(f"Run by hand:\n{after.manual_command}")
        return after.status == FaultRun.Status.REVERTED


def _chosen(options: dict[str, Any]) -> QuerySet[FaultRun]:
    if options["overdue"]:
        return reconciler.overdue(clock.now())
    runs = FaultRun.objects.exclude(status=FaultRun.Status.REVERTED)
    return runs.filter(uuid__in=options["run"]) if options["run"] else runs
