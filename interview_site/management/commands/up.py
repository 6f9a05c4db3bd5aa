"""``manage.py up``: check, set up what is missing, start every process, say when all is ready."""

from __future__ import annotations

import sys
import threading
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from interview_site import preflight, processes, readiness


class Command(BaseCommand):
    """One supervisor for everything; Ctrl-C stops it all."""

    help = "Start the whole installation: Redis, practice clusters, web, workers and observer."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C or until a process has died for good."""
        if problems := preflight.check():
            raise CommandError("\n".join(problems))
        self._migrate()
        call_command("seed", stdout=self.stdout)
        supervisor = processes.manager()
        threading.Thread(target=self._announce, daemon=True).start()
        supervisor.loop()
        if supervisor.returncode not in (0, 130, 143):
            sys.exit(supervisor.returncode)

    def _migrate(self) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0)
        connection.close()

    def _announce(self) -> None:
        seconds = readiness.wait()
        if seconds is None:
            self.stderr.write("Not everything has started; the lines above say why.")
        else:
            self.stdout.write(f"Ready after {seconds:.1f} s: {settings.PUBLIC_URL}/   (Ctrl-C stops everything)")
            self.stdout.flush()
