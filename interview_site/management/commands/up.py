"""``manage.py up``: check, set up what is missing, start every process, say when all is ready."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, TextIO

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from interview_site import preflight, processes, readiness
from interview_site.supervisor import Supervisor


class Command(BaseCommand):
    """One supervisor for everything; Ctrl-C stops it all."""

    help = "Start the whole installation: Redis, practice clusters, web, workers and observer."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C or until a process does not stay up."""
        os.umask(0o077)  # all that is written here is nobody else's business
        lock = self._prepare()
        self._migrate()
        call_command("seed", stdout=self.stdout)
        supervisor = Supervisor(processes.commands(), str(settings.BASE_DIR))
        threading.Thread(target=self._announce, args=(supervisor,), daemon=True).start()
        supervisor.loop()
        lock.close()
        if supervisor.returncode:
            sys.exit(supervisor.returncode)

    def _prepare(self) -> TextIO:
        """Return the lock on DATA_DIR; end with a line for each thing that is in the way."""
        try:
            lock = preflight.alone()
        except preflight.NotReady as exc:
            sys.exit(f"error: {exc}")
        if problems := preflight.check():
            sys.exit("\n".join(f"error: {problem}" for problem in problems))
        return lock

    def _migrate(self) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0)
        connection.close()

    def _announce(self, supervisor: Supervisor) -> None:
        """Say when all is ready, or what is not."""
        seconds, missing = readiness.wait(supervisor.stopping)
        if supervisor.stopping.is_set():
            return
        if missing:
            supervisor.say(f"Not ready after {seconds:.0f} s: {', '.join(missing)}. The lines above say why.")
        else:
            supervisor.say(f"Ready after {seconds:.1f} s: {settings.PUBLIC_URL}/   (Ctrl-C stops everything)")
