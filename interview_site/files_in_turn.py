"""Files of tests that a worker reads when it is their turn.

xdist has every worker collect every test, so that all speak of the same ones: ten seconds of computing for each, a
twelfth of ``make test`` with five workers. Yet ``--dist loadfile`` hands out whole files. So workers collect the
names of files alone, agree on these, and each reads what is in a file when it is told to run it.

They also send five messages for each test: that it begins, how each of three steps went, and that it has ended. To
write, to pass on and to read these takes as long as a short test; one says all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

NAME = "all"
FILES_IN_TURN = "files_in_turn"
"""The name under which a worker is told to."""
STEP_BY_STEP = ("maxfail", "xmlpath", "durations")
"""Options for which each step of a test is told: whether to go on, and what to write, depends on them."""


class UnreadFile(pytest.File):
    """A file of tests that no worker has read yet."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the one item that stands for all tests of the file."""
        tests = UnreadTests.from_parent(self, name=NAME)
        if self.config.pluginmanager.hasplugin("django"):
            tests.add_marker("django_db")  # whoever asks first for tables has those made that any test may need
        yield tests


class UnreadTests(pytest.Item):
    """All tests of a file, whatever they are."""

    def runtest(self) -> None:
        """Fail: the tests of the file are run in place of this item, by the plugin below."""
        pytest.fail(f"{self.path} was not read in its turn")


class FilesInTurn:
    """A worker's plugin: collects the names of files, then the tests of one file after another."""

    def __init__(self, order: Callable[[list[pytest.Item]], list[pytest.Item]]) -> None:
        self._order = order
        self._reading = False
        self._count = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Any, parent: Any) -> pytest.File | None:
        """Return the file as one that is unread, until it is its turn."""
        return None if self._reading else UnreadFile.from_parent(parent, path=module_path)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, None, None]:
        """Hide unread files from plugins that choose among tests: these see the tests of each file later."""
        unread = [] if self._reading else items[:]
        if unread:
            items.clear()
        yield
        items.extend(self._order(unread))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Read a file and run its tests; what the next file needs as well is not torn down."""
        if not isinstance(item, UnreadTests):
            return self._run(item, nextitem)
        session, tests = item.session, self._read(item)
        self._count = len(tests)
        place = session.items.index(item)
        for number, test in enumerate(tests, 1):
            session.items[place] = test  # xdist looks there for the test that it is told of
            following = tests[number] if number < len(tests) else nextitem
            item.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
        session.items[place] = item
        if not tests:  # the test before it has left standing what this file's would have needed
            session._setupstate.teardown_exact(nextitem)
        return True

    def _run(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run one test and tell of it at once, or leave that to pytest."""
        if any(item.config.getoption(name) for name in STEP_BY_STEP):
            return None
        for report in told(runtestprotocol(item, log=False, nextitem=nextitem)):
            item.ihook.pytest_runtest_logreport(report=report)
        return True

    def _read(self, item: UnreadTests) -> list[pytest.Item]:
        assert item.parent is not None
        self._reading = True
        try:
            module = item.ihook.pytest_pycollect_makemodule(module_path=item.path, parent=item.parent.parent)
            tests = list(item.session.genitems(module))
            item.config.hook.pytest_collection_modifyitems(session=item.session, config=item.config, items=tests)
        finally:
            self._reading = False
        return tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Tell with each report of a test how many there are in its file."""
        report.tests_in_file = self._count


def told(reports: list[pytest.TestReport]) -> list[pytest.TestReport]:
    """Return the reports of a test that say more than that a step went well; the first has the seconds of all others.

    What was printed before the end is in the report of the test itself, too.
    """
    found = [report for report in reports if _says_something(report)]
    found[0].duration += sum(report.duration for report in reports if report not in found)
    return found


def _says_something(report: pytest.TestReport) -> bool:
    if report.when == "call" or not report.passed:
        return True
    return report.when == "teardown" and any("teardown" in name for name, _ in report.sections)


class CountedTests:
    """The plugin of the process that hands out the files: it learns how many tests there are as they are read."""

    def __init__(self) -> None:
        self._files: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remember who counts, for the share that is done."""
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker to take files in turn."""
        node.workerinput[FILES_IN_TURN] = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count the tests of a file in place of the file, once the first of them has run."""
        name = report.nodeid.partition("::")[0]
        if name not in self._files and hasattr(report, "tests_in_file"):
            self._files.add(name)
            self._session.testscollected += report.tests_in_file - 1
