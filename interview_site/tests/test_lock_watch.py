"""A process that was frozen while it wrote to SQLite is ended, so that the others can write again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest

from interview_site.lock_watch import LOOK_S, LockWatch, write_lock_holder

HOLD = "c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(flush=True); input()"


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "db.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    return path


@contextmanager
def writer(database):
    """Another process in a transaction, stopped there."""
    command = [sys.executable, "-c", f"import sqlite3, sys; {HOLD}", str(database)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def look(watch, times):
    return [watch.look() for _ in range(times)]


def write(database):
    """Write in a process of its own: the watch must be in one without connections."""
    code = "sqlite3.connect(sys.argv[1], timeout=0.2, isolation_level=None).execute('INSERT INTO notes VALUES (1)')"
    command = [sys.executable, "-c", f"import sqlite3, sys; {code}", str(database)]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_a_frozen_writer_is_ended_and_the_others_write_on(database):
    said = []
    with writer(database) as process:
        assert not write(database)
        assert write_lock_holder(database) == process.pid
        watch = LockWatch(database, lambda: {process.pid}, said.append, max_held_s=4 * LOOK_S)
        assert look(watch, 4) == [False] * 4
        assert watch.look()
        assert process.wait(60) == -signal.SIGKILL
        assert write(database)
    assert "it is ended and started again" in said[0]
    assert write_lock_holder(database) is None


def test_a_process_that_is_not_ours_is_told_of_and_left_alone(database):
    said = []
    with writer(database) as process:
        watch = LockWatch(database, lambda: {os.getpid()}, said.append, max_held_s=LOOK_S)
        assert look(watch, 3) == [False] * 3
        assert process.poll() is None
    assert f"kill {process.pid}" in said[0]


def test_writers_that_take_turns_are_nobodys_business(database):
    watch = LockWatch(database, lambda: set(), pytest.fail, max_held_s=2 * LOOK_S)
    for _ in range(4):
        with writer(database):
            assert not watch.look()
    assert not watch.look()


def test_without_a_database_nobody_holds_it(tmp_path):
    assert write_lock_holder(tmp_path / "db.sqlite3") is None
