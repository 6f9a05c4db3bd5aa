"""Preparations of pytest-django that a test is spared where it has not asked for them.

Each is a fixture that pytest sets up for every test, to find that a marker is missing or that nobody runs a server: a
third of what pytest computes for a short test, and there are thousands of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

SPARED = {
    "_django_db_marker": "django_db",
    "_django_set_urlconf": "urls",
    "_django_isolate_apps": "django_isolate_apps",
    "_template_string_if_invalid_marker": "ignore_template_errors",
    "_live_server_helper": "live_server",
    "_dj_autoclear_mailbox": "mailoutbox",
}
"""Fixtures by the marker, or by the other fixture, without which they change nothing; there is no mail but in one."""
OF_CLASSES = "_django_setup_unittest"
OF_SITES, SITES = "_django_clear_site_cache", "django.contrib.sites"


def spare(items: Iterable[pytest.Item]) -> None:
    """Take what changes nothing from the fixtures of each test."""
    tests: dict[int, list[Any]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function):
            tests[id(item._fixtureinfo)].append(item)
    for same in tests.values():
        _spare(same)


def _spare(same: list[Any]) -> None:
    """Spare the tests of one function, which have their fixtures in common."""
    info = same[0]._fixtureinfo
    asked = {marker.name for test in same for marker in test.iter_markers()} | {*info.names_closure}
    idle = {name for name, why in SPARED.items() if why not in asked}
    if same[0].cls is None:
        idle.add(OF_CLASSES)
    if SITES not in settings.INSTALLED_APPS:
        idle.add(OF_SITES)
    left = tuple(name for name in info.initialnames if name not in idle)
    replace(info, initialnames=left).prune_dependency_tree()  # of the list of names, which both have
