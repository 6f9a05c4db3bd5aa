"""An end that cannot be written down: the candidate is out at once, and the end is recorded when it can be."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from sessions import clock, disk_space, end_requests, services
from sessions.access_enforcer import AccessEnforcer
from sessions.errors import SessionError
from sessions.models import InterviewSession, Note

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_request_left():
    end_requests.prepare()
    yield
    for request in end_requests.pending():
        end_requests.forget(request)


@pytest.fixture
def locked():
    """Return a context in which another process sits in a transaction, as one does that was stopped there."""
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite has one lock for all")

    @contextmanager
    def holding():
        code = "c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(flush=True); input()"
        command = [sys.executable, "-c", f"import sqlite3, sys; {code}"]
        name = str(connection.settings_dict["NAME"])
        process = subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    return holding


class Cut:
    """Stands for the bindings in a cluster: notes that they were deleted."""

    def __init__(self) -> None:
        self.done = threading.Event()

    def revoke(self) -> None:
        self.done.set()


def look(enforcer):
    enforcer.look()
    enforcer.wait(60)


def test_a_locked_database_delays_no_cut_and_loses_no_end(live, ada, locked, client, kinds, time):
    enforcer, cut = AccessEnforcer(), Cut()
    look(enforcer)
    enforcer._grants[live.pk] = cut
    client.force_login(ada)
    with locked():
        answer = client.post(f"/sessions/{live.uuid}/end/", headers={"HX-Request": "true"})
        pressed = time()
        assert answer.status_code == 409
        assert "the candidate is being cut off" in answer.content.decode()
        enforcer.look()
        assert cut.done.wait(60)
        time.advance(90)
    enforcer.wait(60)
    look(enforcer)
    live.refresh_from_db()
    assert (live.state, live.ended_at) == (InterviewSession.State.ENDED, pressed)
    assert clock.elapsed_ms(live) == 0
    assert kinds(live).count("session.ended") == 1
    assert end_requests.pending() == []


def test_an_end_before_an_enforcer_has_seen_the_session_cuts_all_the_same(live, ada, locked, monkeypatch):
    enforcer, cut = AccessEnforcer(), Cut()
    monkeypatch.setattr(services, "grants_of_session", lambda *, session_id: cut)
    monkeypatch.setattr(services, "access_orders", list)  # the session began after the last look
    with locked():
        with pytest.raises(services.NotRecordedYet):
            services.end_now(session=live, actor=ada)
        enforcer.look()
        assert cut.done.wait(60)
    enforcer.wait(60)


def test_another_process_finds_the_request(live, ada, locked):
    with locked(), pytest.raises(services.NotRecordedYet):
        services.end_now(session=live, actor=ada)
    end_requests._held.clear()  # the web process was killed
    [request] = end_requests.pending()
    assert request.session_id == live.pk
    look(AccessEnforcer())
    live.refresh_from_db()
    assert live.state == InterviewSession.State.ENDED


def test_a_request_that_was_overruled_ends_nothing(live, ada, locked, time):
    with locked(), pytest.raises(services.NotRecordedYet):
        services.end_now(session=live, actor=ada)
    [request] = end_requests.pending()
    services.end(session=live, actor=ada)
    services.reopen(session=live, actor=ada)
    end_requests.keep(request)
    look(AccessEnforcer())
    live.refresh_from_db()
    assert live.state == InterviewSession.State.LIVE
    assert end_requests.pending() == []


def test_an_end_that_is_recorded_at_once_leaves_no_request(live, ada):
    assert services.end_now(session=live, actor=ada).state == InterviewSession.State.ENDED
    assert end_requests.pending() == []


def test_a_draft_is_refused_as_ever(draft, ada):
    with pytest.raises(SessionError):
        services.end_now(session=draft, actor=ada)
    assert end_requests.pending() == []


def test_requests_outlast_a_full_file_and_torn_slots(live, caplog):
    requests = [
        end_requests.EndRequest(number, None, clock.now(), 0) for number in range(end_requests.MAX_REQUESTS + 1)
    ]
    for request in requests:
        end_requests.keep(request)
    assert set(requests) <= set(end_requests.pending())
    assert "kept in memory only" in caplog.text
    with end_requests._path().open("r+b") as file:
        os.pwrite(file.fileno(), b'["torn', 0)
    assert len(end_requests.pending()) == len(requests)
    for request in requests:
        end_requests.forget(request)
    assert end_requests.pending() == []


@pytest.fixture
def full_disk(tmp_path, settings):
    """Return a context in which the data folder's disk has no block left; a small tmpfs, so that it needs root."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", folder]).returncode:
        pytest.skip("a small file system can only be mounted by root")
    settings.DATA_DIR = folder
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    """Take every block."""
    with (folder / "ballast").open("ab", buffering=0) as file:
        try:
            while file.write(b"x" * 65536) == 65536:
                pass
            while file.write(b"x"):
                pass
        except OSError:
            return


def test_a_full_disk_takes_the_end_from_its_reserve(full_disk, monkeypatch, caplog):
    monkeypatch.setattr(disk_space, "MIN_FREE_BYTES", 2**20)
    end_requests.prepare()
    disk_space.keep_reserve()
    database = sqlite3.connect(full_disk / "db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE notes (text)")
    database.execute("INSERT INTO notes VALUES ('acknowledged')")
    fill(full_disk)
    with pytest.raises(sqlite3.OperationalError, match="full|disk I/O"):
        database.executemany("INSERT INTO notes VALUES (?)", [["y" * 5000]] * 1000)
    written = database.execute("SELECT count(*) FROM notes").fetchone()[0]

    request = end_requests.EndRequest(7, None, clock.now(), 3)
    end_requests.keep(request)  # into blocks that it has
    assert "memory only" not in caplog.text
    assert end_requests.EndRequest.load(end_requests._slots()[0]) == request
    assert disk_space.is_short()
    assert disk_space.use_reserve()
    assert not disk_space.use_reserve()
    database.execute("INSERT INTO notes VALUES ('the end')")
    assert database.execute("SELECT count(*) FROM notes").fetchone()[0] == written + 1
    end_requests.forget(request)
    database.close()


def test_an_end_on_a_full_disk_is_written_into_the_reserve(live, ada, monkeypatch, tmp_path, settings):
    settings.DATA_DIR = tmp_path
    end_requests.prepare()
    disk_space.keep_reserve()
    fault = FullUntil(lambda: not (tmp_path / disk_space.FILE_NAME).exists())
    with connection.execute_wrapper(fault):
        session = services.end_now(session=live, actor=ada)
    assert session.state == InterviewSession.State.ENDED
    assert fault.refused


class FullUntil:
    """Refuses writes as SQLite does on a full disk, until the condition holds."""

    def __init__(self, condition) -> None:
        self.condition, self.refused = condition, 0

    def __call__(self, execute, sql, params, many, context):
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and not self.condition():
            self.refused += 1
            raise OperationalError("database or disk is full")
        return execute(sql, params, many, context)


def test_what_cannot_be_saved_says_why_and_what_was_saved_stays(live, ada, client, settings):
    client.force_login(ada)
    assert client.post(f"/sessions/{live.uuid}/notes/", {"text": "first"}).status_code == 302
    with connection.execute_wrapper(FullUntil(lambda: False)):
        answer = client.post(f"/sessions/{live.uuid}/notes/", {"text": "second"})
    assert answer.status_code == 503
    assert "The disk is full" in answer.content.decode()
    assert list(Note.objects.values_list("text", flat=True)) == ["first"]


@pytest.mark.parametrize("method", ["get", "post"])
def test_where_not_even_the_reader_can_be_looked_up_the_page_says_why(live, ada, client, method):
    client.force_login(ada)
    client.raise_request_exception = False

    def refuse(execute, sql, params, many, context):
        raise OperationalError("database is locked")

    with connection.execute_wrapper(refuse):
        answer = getattr(client, method)(f"/sessions/{live.uuid}/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "Another process has locked the database" in answer.content.decode()


def test_short_room_is_told_on_pages_in_the_log_and_by_readyz(live, ada, client, monkeypatch, caplog):
    client.force_login(ada)
    watch = disk_space.DiskWatch()
    watch.look()
    assert "MiB are free" not in client.get(f"/sessions/{live.uuid}/").content.decode()

    monkeypatch.setattr(disk_space, "free_bytes", lambda: 100 * 2**20)
    watch.look()
    watch.look()
    assert caplog.text.count("100 MiB are free") == 1
    assert "100 MiB are free" in client.get(f"/sessions/{live.uuid}/").content.decode()
    assert "100 MiB are free" in client.get("/").content.decode()
    assert "100 MiB are free" in client.get("/readyz").json()["warnings"][0]
    assert "disk space" not in client.get("/readyz").json()["missing"]

    monkeypatch.setattr(disk_space, "free_bytes", lambda: 2**20)
    assert "disk space" in client.get("/readyz").json()["missing"]
    monkeypatch.undo()
    watch.look()
    assert "enough room" in caplog.text
