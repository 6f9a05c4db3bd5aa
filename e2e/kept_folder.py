"""A data folder as an earlier version left it, with its times moved so that its interview is live today.

``kept/291e3e1.tar.xz`` was written by that commit: ``manage.py up``, an interview of the demo plan prepared and
started, a note, a rating, a candidate's kubeconfig and a ConfigMap of theirs, Ctrl-C. Its keys open nothing else.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import tarfile
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from kubesim.auth.tokens import TokenSigner
from kubesim.changelog import ChangeLog

ARCHIVE = Path(__file__).parent / "kept" / "291e3e1.tar.xz"
STOPPED_AT = datetime(2026, 11, 22, 15, 33, 50, tzinfo=UTC)
SITE_PORT, KUBESIM_PORT = 18100, 18543
"""The ports it was made with: kubeconfigs that were handed out, and the stored one, lead there."""
ADDRESS = "127.0.0.1"
PASSWORD = "kept-from-before"  # of the account ``interviewer``
_MOVED = {
    "interview_sessions_interviewsession": ("prepared_at", "joined_at"),
    "interview_sessions_clockentry": ("at",),
    "faults_faultrun": ("deadline", "mirrored_deadline"),
}


def unpack(folder: Path, now: datetime) -> Path:
    """Return the data folder, moved from the moment it was stopped at to ``now``."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    data, later = folder / "data", now - STOPPED_AT
    _move_rows(data / "db.sqlite3", later)
    for cluster in (data / "kubesim" / "clusters").iterdir():
        _move_cluster(cluster, data / "candidate.kubeconfig", later)
    return data


def _move_rows(database: Path, later: timedelta) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, columns in _MOVED.items():
            for key, *times in connection.execute(f"select id, {', '.join(columns)} from {table}").fetchall():
                moved = [str(datetime.fromisoformat(time) + later) if time else None for time in times]
                sets = ", ".join(f"{column} = ?" for column in columns)
                connection.execute(f"update {table} set {sets} where id = ?", (*moved, key))


def _move_cluster(folder: Path, kubeconfig: Path, later: timedelta) -> None:
    """Move a practice cluster's deadline, and how long the candidate's token is good."""
    file = ChangeLog(folder)
    state = file.load() or {}
    key = b'["cluster"]'
    cluster = json.loads(state[key])
    deadline = datetime.fromisoformat(cluster["spec"]["deadline"]) + later
    cluster["spec"]["deadline"] = deadline.isoformat(timespec="microseconds").replace("+00:00", "Z")
    file.append({key: json.dumps(cluster).encode()}, datetime.now(UTC))
    text = yaml.safe_load(kubeconfig.read_text())
    user = text["users"][0]["user"]
    user["token"] = _prolonged(user["token"], cluster["secrets"]["signerKey"], later)
    kubeconfig.write_text(yaml.safe_dump(text))


def _prolonged(token: str, key: str, later: timedelta) -> str:
    """Return the same token with its times moved, signed with the cluster's own key."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    moved: Iterable[str] = ("exp", "iat", "nbf")
    claims |= {name: claims[name] + int(later.total_seconds()) for name in moved}
    return TokenSigner.from_pem(key.encode())._signed(claims)
