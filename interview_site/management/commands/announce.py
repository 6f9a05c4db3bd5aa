"""``manage.py announce``: wait until an installation answers, and say so. Started by ``up``."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from interview_site import readiness


class Command(BaseCommand):
    """Prints the line for which a person at the terminal waits."""

    help = "Wait until every process answers, and print when all is ready, or what is not."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the time at which the installation was started."""
        parser.add_argument("--since", type=float, default=None, help="a time of the steady clock; default: now")

    def handle(self, *args: Any, **options: Any) -> None:
        """Wait and print."""
        since = time.monotonic() if options["since"] is None else options["since"]
        seconds, waiting = readiness.wait(since)
        if waiting:
            print(f"Not ready after {seconds:.0f} s: {', '.join(waiting)}. The lines above say why.", flush=True)
        else:
            print(f"Ready after {seconds:.1f} s: {settings.PUBLIC_URL}/   (Ctrl-C stops everything)", flush=True)
