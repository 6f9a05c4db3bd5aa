"""An outage outside of our code is one line; a mistake of ours keeps its traceback."""

import os
import sqlite3
import subprocess
import sys

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError
from redis.exceptions import ConnectionError as RedisConnectionError

from conftest import ODD_FOLDER, free_port
from interview_site import outages


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OperationalError("no such table: x"), "Run: .venv/bin/python manage.py migrate"),
        (DatabaseError("file is not a database"), ".damaged"),
        (OperationalError("unable to open database file"), "Run: ls -l "),
        (RedisConnectionError("Connection refused.\nmore"), "Connection refused. Run: make run"),
    ],
)
def test_it_names_what_to_do(error, words, settings, monkeypatch):
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", "/data/db.sqlite3")
    line = outages.explain(error)
    assert words in line
    assert "\n" not in line


def test_a_server_that_is_gone_is_named(monkeypatch, settings):
    monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", "django.db.backends.postgresql")
    line = outages.explain(OperationalError("connection failed\n\tIs the server running?"))
    assert line == "DATABASE_URL cannot be used: connection failed. Run: unset DATABASE_URL   (to use SQLite)"


def test_a_mistake_of_ours_is_not_explained_away():
    assert outages.explain(IntegrityError("UNIQUE constraint failed")) is None
    assert outages.explain(KeyError("x")) is None


def manage(settings, folder, *args, **variables):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "manage.py", *args],
        cwd=settings.BASE_DIR,
        env={**os.environ, "DATA_DIR": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("command", ["up", "migrate"])
def test_a_damaged_database_is_one_line(settings, tmp_path, command):
    (tmp_path / "db.sqlite3").write_text("this is no database, and long enough to be looked at" * 100)
    ports = {"PORT": str(free_port()), "KUBESIM_PORT": str(free_port())}
    answer = manage(settings, tmp_path, command, **ports)
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"error: {tmp_path / 'db.sqlite3'} is damaged")
    assert answer.stderr.count("\n") == 1


def test_a_bad_variable_is_one_line(settings, tmp_path):
    answer = manage(settings, tmp_path, "up", PORT="abc")
    assert answer.returncode == 1
    assert answer.stderr == "error: PORT='abc' is not a whole number from 1 to 65535. Run: export PORT=8000\n"


def test_the_data_may_lie_in_any_folder(migrated):
    assert str(ODD_FOLDER) in str(migrated)
    with sqlite3.connect(migrated) as database:
        assert database.execute("select count(*) from django_migrations").fetchone()[0] > 10
    database.close()
