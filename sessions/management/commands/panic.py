"""``manage.py panic``: takes every fault back and stops all injection, with no worker and no Redis."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from faults import services as fault_services
from faults.models import Cluster
from faults.services import PanicOutcome
from sessions import services


class Command(BaseCommand):
    """The panic stop, from a shell."""

    help = "Take every run back now, and inject nothing until --lift. Needs the database and the clusters only."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Choose where, and whether to engage or to lift."""
        parser.add_argument("--cluster", help="only in the cluster of this name; else in all")
        parser.add_argument("--lift", action="store_true", help="allow injection again")

    def handle(self, *args: Any, **options: Any) -> None:
        """Engage and revert, or lift; fails where a run could not be taken back."""
        cluster, actor = _cluster(options["cluster"]), f"{_user()} (command line)"
        where = cluster.name if cluster else "every cluster"
        if options["lift"]:
            if not services.lift_panic(cluster=cluster, actor=actor):
                raise CommandError(f"No panic is engaged for {where}.{_engaged()}")
            self.stdout.write(f"Lifted for {where}.{_engaged()}")
            return
        services.engage_panic(cluster=cluster, actor=actor)
        self.stdout.write(f"Engaged for {where}: nothing is injected until: manage.py panic --lift{_flag(cluster)}")
        failed = [outcome for outcome in fault_services.revert_engaged(self._tell) if outcome.error]
        if failed:
            raise CommandError(f"{len(failed)} of the runs are not reverted yet; the observer goes on trying.")

    def _tell(self, outcome: PanicOutcome) -> None:
        run = outcome.run
        if outcome.error:
            self.stderr.write(f"{run.uuid} in {run.cluster}: {outcome.error}")
        else:
            self.stdout.write(f"{run.uuid} in {run.cluster}: {run.status}, {len(run.residue or [])} left over")
        if run.manual_command:
            self.stderr.write(f"Run by hand:\n{run.manual_command}")


def _cluster(name: str | None) -> Cluster | None:
    if name is None:
        return None
    try:
        return Cluster.objects.get(name=name)
    except Cluster.DoesNotExist:
        raise CommandError(f"There is no cluster {name!r}.") from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "somebody"


def _engaged() -> str:
    left = [panic.cluster.name if panic.cluster else "every cluster" for panic in fault_services.engaged_panics()]
    return f" Still engaged for: {', '.join(left)}." if left else ""


def _flag(cluster: Cluster | None) -> str:
    return f" --cluster {cluster.name}" if cluster else ""
