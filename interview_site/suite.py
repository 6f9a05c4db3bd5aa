"""A pytest plugin for the suite as a whole: long files first, tiers apart, one line for each reason to skip.

Workers take whole files from one queue (``--dist loadfile``). A file of half a minute that is taken last leaves the
others idle for as long, so files are ordered by what they last took (``--store-durations`` writes it down).

Modules and collected tests live until the end. Looking through them for garbage again and again took half of the
time to collect all, and a second for each ``gc.collect()`` of a test; so nobody looks at those of the beginning
(``gc.freeze``). What comes later is looked through seldom: at Python's own pace it took a twelfth of the computing.
"""

from __future__ import annotations

import gc
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from interview_site.files_in_turn import FILES_IN_TURN, CountedTests, FilesInTurn
from interview_site.spared_fixtures import spare

DURATIONS = Path(__file__).parent / "tests" / "durations.json"
MIN_STORED_S = 1.0
YOUNG, SECOND, THIRD = 5_000, 10, 20
"""New objects until a look at the youngest, such looks until one at the next, and such until one at all others."""
LONG = ("TORTURE_ROUNDS", "CONTRACT_KUBECONFIG")  # where one of them is set, every tier is wanted
TIERS = ("torture", "comparison")
"""Markers of tests that `make test` leaves out: long proofs, and comparisons in depth (`make compare`)."""
_PREFIXES = ("Skipped: ", "unconditional skip")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that renews the stored durations."""
    parser.addoption(
        "--store-durations", action="store_true", help=f"write each file's seconds into {DURATIONS.name}"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let WhiteNoise look for a file when it is asked for: it would list all of them for each client of a test.

    Hash passwords of tests quickly: that each guess takes 0.2 s of computing is for those who guess.
    """
    settings.WHITENOISE_AUTOREFRESH = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    _take_files_in_turn(config)


def _take_files_in_turn(config: pytest.Config) -> None:
    """Let workers read a file when it is its turn."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        if worker.get(FILES_IN_TURN):
            config.pluginmanager.register(FilesInTurn(lambda items: ordered(items, stored())))
    elif takes_files_in_turn(config.getoption("dist", "no"), config.args):
        config.pluginmanager.register(CountedTests())


def takes_files_in_turn(dist: str, args: list[str]) -> bool:
    """Return whether workers are handed whole files; where a single test is named, they read all first."""
    return dist == "loadfile" and not any("::" in arg for arg in args)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Give each worker the real control plane of its own that ``{worker}`` in the kubeconfig's name stands for."""
    named, worker = (os.environ.get(name, "") for name in ("CONTRACT_KUBECONFIG", "PYTEST_XDIST_WORKER"))
    if named and worker:
        os.environ["CONTRACT_KUBECONFIG"] = named.replace("{worker}", worker)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage while tests are collected."""
    if hasattr(session.config, "workerinput") or not session.config.pluginmanager.hasplugin("dsession"):
        gc.disable()  # workers collect, or this process where there are none


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files that take longest first; every worker of xdist must come to the same order.

    Tests of another tier are left to those who ask for it: by the environment, or with ``-m``.
    """
    items[:] = ordered(items, stored())
    if left_out := tiers_left_out(config.getoption("markexpr", "")):
        for_later = {item for item in items if any(map(item.get_closest_marker, left_out))}
        items[:] = [item for item in items if item not in for_later]
        config.hook.pytest_deselected(items=[*for_later])
    spare(items)


def tiers_left_out(chosen: str) -> list[str]:
    """Return the markers whose tests do not run, given the expression of ``-m``."""
    if any(name in os.environ for name in LONG):
        return []
    return [tier for tier in TIERS if tier not in chosen]


def pytest_collection_finish() -> None:
    """Leave alone, from now on, what is there before the first test, and look at the rest seldom."""
    gc.freeze()
    gc.set_threshold(YOUNG, SECOND, THIRD)
    gc.enable()


def ordered(items: Iterable[pytest.Item], seconds: dict[str, float]) -> list[pytest.Item]:
    """Return the items with the longest files first, then by name; the order within a file stays."""

    def place(item: pytest.Item) -> tuple[float, str]:
        name = _file(item.nodeid)
        return -seconds.get(name, 0.0), name

    return sorted(items, key=place)


def stored() -> dict[str, float]:
    """Return the seconds that files took; without the stored ones, none."""
    try:
        found: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print every reason to skip with its count; store the durations where that was asked for."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped", sep="-")
        for line in reasons(skipped):
            terminalreporter.write_line(line)
    if config.getoption("--store-durations"):
        terminalreporter.write_line(store(terminalreporter.stats))


def reasons(reports: Iterable[Any]) -> list[str]:
    """Return one line for each reason, the most frequent first, with the file where it is alone."""
    counts: Counter[str] = Counter()
    files: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        reason = _reason(report)
        counts[reason] += 1
        files[reason].add(_file(report.nodeid))
    return [
        f"{count:5} {reason} ({_where(files[reason])})"
        for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def store(stats: dict[str, list[Any]]) -> str:
    """Write down the seconds of each file that has run, beside those of files that have not; return a line on it."""
    taken: dict[str, float] = defaultdict(float)
    for reports in stats.values():
        for report in reports:
            if isinstance(getattr(report, "duration", None), float):
                taken[_file(report.nodeid)] += report.duration
    seconds = {name: round(value, 1) for name, value in {**stored(), **taken}.items() if value >= MIN_STORED_S}
    lines = sorted(seconds.items(), key=lambda pair: (-pair[1], pair[0]))
    DURATIONS.write_text(json.dumps(dict(lines), indent=1) + "\n", encoding="utf-8")
    return f"{len(lines)} files of {MIN_STORED_S:.0f} s and more are stored in {DURATIONS.name}"


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return " ".join(text.split()) or "no reason given"


def _where(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else f"{len(names)} files"
