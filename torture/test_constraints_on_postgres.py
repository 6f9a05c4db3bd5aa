"""The tests of constraints, locks and leases on PostgreSQL: each NULL and each lock is another one there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from torture.postgres import private_postgres, why_not

pytestmark = [pytest.mark.torture, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]
FILES = (
    *(f"faults/tests/test_{name}.py" for name in ("leases", "outbox", "reconciler", "services", "cluster_admin")),
    *(f"faults/tests/test_{name}.py" for name in ("crashes", "neighbours")),
    *(f"sessions/tests/test_{name}.py" for name in ("panic", "view_panic", "panic_while_preparing", "lifecycle")),
    *(f"sessions/tests/test_{name}.py" for name in ("access", "access_enforcer", "ending", "events", "limits")),
    *(f"sessions/tests/test_{name}.py" for name in ("outages", "scoring", "preparation", "release_stuck")),
    *(f"sessions/tests/test_{name}.py" for name in ("refused_credentials", "session_time", "quiet", "restarts")),
)


def test_what_the_database_has_to_keep_is_kept_by_postgresql() -> None:
    with private_postgres() as server:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES]
        done = subprocess.run(
            command, env={**os.environ, "DATABASE_URL": server.url}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout[-5000:]
