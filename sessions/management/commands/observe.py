"""``manage.py observe``: the process that watches clusters and publishes panels."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from sessions import live
from sessions.observer.loop import Observer


class Command(BaseCommand):
    """Runs the observer until SIGTERM or Ctrl-C, and stops within a second."""

    help = "Watch the clusters of all sessions, evaluate checks, publish panels. Several may run; one is active."
    requires_system_checks = []  # they look at every module of the site, which copies 11 MB of the warmed parent's

    def handle(self, *args: Any, **options: Any) -> None:
        """Run in the foreground."""
        stop = threading.Event()
        live.switch_threads_promptly()
        observer = Observer(stop)

        def end(number: int, frame: FrameType | None) -> None:
            stop.set()
            observer.wake()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        observer.run()
