"""Words for a database or Redis that does not answer: one line with the command that mends it."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, OperationalError
from redis.exceptions import ConnectionError as RedisConnectionError

SQLITE = "django.db.backends.sqlite3"


def explain(exc: BaseException) -> str | None:
    """Return a line for what is wrong outside of our code; None where the traceback is needed."""
    if isinstance(exc, RedisConnectionError):
        return f"Redis does not answer: {first_line(exc)}. Run: make run"
    # Subclasses other than OperationalError (IntegrityError, ...) are mistakes of ours.
    if isinstance(exc, OperationalError) or type(exc) is DatabaseError:
        return of_database(exc)
    return None


def of_database(exc: DatabaseError) -> str:
    """Return what is wrong with the database and what to do."""
    why = first_line(exc)
    if "no such table" in why or "no such column" in why:
        return f"The database is not set up ({why}). Run: .venv/bin/python manage.py migrate"
    if settings.DATABASES["default"]["ENGINE"] != SQLITE:
        return f"DATABASE_URL cannot be used: {why}. Run: unset DATABASE_URL   (to use SQLite)"
    path = Path(str(settings.DATABASES["default"]["NAME"]))
    if "not a database" in why or "malformed" in why:
        return f"{path} is damaged ({why}). Run: mv {path} {path}.damaged   (then put a backup in its place)"
    return f"{path} cannot be used: {why}. Run: ls -l {path.parent}"


def first_line(exc: BaseException) -> str:
    """Return the first line of an error's text, without a full stop."""
    lines = str(exc).strip().splitlines()
    return (lines[0] if lines else type(exc).__name__).rstrip(".")
