"""``manage.py work``: the worker process, with all its lanes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from interview_site.lanes import Lanes

STOP_S = 3.0


class Command(BaseCommand):
    """Works until SIGTERM."""

    help = "Inject, revert and prepare: do the jobs of the queue, several at a time."
    requires_system_checks = []  # they look at every module of the site, which copies 11 MB of the warmed parent's

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Choose how many at a time."""
        parser.add_argument("--lanes", type=int, default=settings.WORKERS, help="jobs at a time (WORKERS)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Work; at the end, leave what hangs to whoever takes its lease."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        lanes = Lanes(options["lanes"])
        lanes.start()
        stop.wait()
        lanes.close(STOP_S)
        sys.stdout.flush()
        os._exit(0)  # threads that wait for Redis end with the process
