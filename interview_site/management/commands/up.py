"""``manage.py up``: check, set up what is missing, start every process, say when all is ready."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import Any, TextIO

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from interview_site import outages, preflight, processes, supervisor, warm_parent


class Command(BaseCommand):
    """One supervisor for everything; Ctrl-C stops it all."""

    help = "Start the whole installation: Redis, practice clusters, web, workers and observer."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Set up what is missing, then become the supervisor, which runs until Ctrl-C."""
        began = time.monotonic()
        os.umask(0o077)  # all that is written here is nobody else's business
        lock = self._prepare()
        channel = self._fork_warm_parent(lock)  # its imports take as long as the migrations, and need none of them
        self._migrate()
        call_command("seed", stdout=self.stdout)
        os.set_inheritable(lock.fileno(), True)  # the supervisor holds it from now on
        folder = str(settings.BASE_DIR)
        supervisor.become(list(processes.commands()), folder, processes.readiness(began), channel, _sqlite_file())

    def _fork_warm_parent(self, lock: TextIO) -> socket.socket | None:
        """Leave behind a process that has imported everything, for the supervisor to fork from."""
        if not warm_parent.is_supported():
            return None
        sys.stdout.flush()
        connections.close_all()  # else two processes would hold one connection
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            lock.close()
            ours.close()
            warm_parent.serve(theirs)
            os._exit(0)
        theirs.close()
        return ours

    def _prepare(self) -> TextIO:
        """Return the lock on DATA_DIR; end with a line for each thing that is in the way."""
        try:
            lock = preflight.alone()
        except preflight.NotReady as exc:
            sys.exit(f"error: {exc}")
        if problems := preflight.check():
            sys.exit("\n".join(f"error: {problem}" for problem in problems))
        for note in preflight.notes():
            self.stdout.write(f"note: {note}")
        return lock

    def _migrate(self) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0)
        else:
            executor.check_replacements()  # a database that has all parts of a squashed migration notes that one, too
        connection.close()


def _sqlite_file() -> str | None:
    """Return the path of the database where it is a file."""
    database = settings.DATABASES["default"]
    return str(database["NAME"]) if database["ENGINE"] == outages.SQLITE else None
