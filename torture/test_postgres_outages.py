"""PostgreSQL away, restarted and locked under an installation: pages say so, access ends, and nothing is lost."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from torture.installation import Installation
from torture.interviews import Interviewer, LiveInterview, begin, state
from torture.postgres import Postgres, private_postgres, why_not

pytestmark = [pytest.mark.torture, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]
PROMISE_S = 2.0


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation for every test of the file."""
    with private_postgres() as server, Installation(tmp_path_factory.mktemp("pg"), database=server) as installation:
        yield installation


@pytest.fixture
def server(installation: Installation) -> Iterator[Postgres]:
    """The database's server, which runs again after each test."""
    assert installation.database is not None
    yield installation.database
    installation.database.mend()


@pytest.fixture
def interview(installation: Installation, server: Postgres) -> LiveInterview:
    """A session whose clock runs."""
    return begin(installation)[0]


def status_of(interviewer: Interviewer, path: str) -> tuple[int, str]:
    try:
        return 200, interviewer.get(path).decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def ready(interviewer: Interviewer) -> tuple[int, list[str]]:
    status, text = status_of(interviewer, "/readyz")
    return status, json.loads(text)["missing"]


def until(done: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come true"
        threading.Event().wait(0.1)


def test_pages_say_that_the_database_is_away_and_come_back_with_it(
    installation: Installation, server: Postgres, interview: LiveInterview
) -> None:
    interviewer, page = Interviewer(installation), f"/sessions/{interview.uuid}/"
    assert interviewer.post(f"{page}notes/", text="before")[0] == 200
    server.end()
    for path in ("/", page, f"{page}scorecard/"):
        status, text = status_of(interviewer, path)
        assert (status, "The database does not answer" in text) == (503, True), text
    assert interviewer.post(f"{page}notes/", text="during")[0] == 503
    assert ready(interviewer) == (503, ["database"])
    assert interview.is_open()
    server.start()
    assert interviewer.post(f"{page}notes/", text="after")[0] == 200
    until(lambda: ready(interviewer) == (200, []))
    _, text = status_of(interviewer, page)
    assert ("before" in text, "during" in text, "after" in text) == (True, False, True)


def test_access_ends_while_another_program_has_locked_every_table(
    installation: Installation, server: Postgres, interview: LiveInterview
) -> None:
    interviewer = Interviewer(installation)
    with server.locked("EXCLUSIVE"):
        pressed = interviewer.end(interview)
        seconds = interview.seconds_until_cut()
        pressed.join()
    print(f"tables locked: cut after {seconds:.2f} s")
    assert seconds < PROMISE_S
    until(lambda: state(installation, interview.uuid) == "ended")


def test_connections_that_were_cut_cost_no_page(
    installation: Installation, server: Postgres, interview: LiveInterview
) -> None:
    interviewer = Interviewer(installation)
    cut = 0
    for _ in range(10):
        cut += server.cut_connections()
        assert status_of(interviewer, f"/sessions/{interview.uuid}/")[0] == 200
    assert cut > 0
    interviewer.end(interview).join()
    assert interview.seconds_until_cut() < PROMISE_S
