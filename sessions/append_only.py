"""Lets the database itself refuse to rewrite the time line.

Installed after every migration rather than by one: SQLite rebuilds a table to alter it, and drops its triggers.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

TABLES = ("interview_sessions_sessionevent", "interview_sessions_assessmentrevision")
REFUSAL = "the record is append-only"

# SQLite empties tables with DELETE when a test database is flushed, so there only the models refuse deletion.
_SQLITE = """
CREATE TRIGGER IF NOT EXISTS {table}_append_only BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, '{refusal}'); END
"""
_POSTGRESQL = (
    """
CREATE OR REPLACE FUNCTION interview_sessions_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '{refusal}'; END $$
""",
    """
CREATE OR REPLACE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION interview_sessions_append_only()
""",
)
_STATEMENTS = {"sqlite": (_SQLITE,), "postgresql": _POSTGRESQL}


def install(using: str = "default", **_: Any) -> None:
    """Create the triggers where the tables exist; a receiver of ``post_migrate``, safe to repeat."""
    connection = connections[using]
    with connection.cursor() as cursor:
        present = set(connection.introspection.table_names(cursor))
        for table in sorted(present.intersection(TABLES)):
            for statement in _STATEMENTS.get(connection.vendor, ()):
                cursor.execute(statement.format(table=table, refusal=REFUSAL))
