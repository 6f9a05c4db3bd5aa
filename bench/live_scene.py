"""The scene of the live benchmark, run inside an installation: a live session, viewers, and a way into its cluster.

``manage.py shell`` runs it; it prints one JSON object.
"""

from __future__ import annotations

import json
import time

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore

from bench.installation import SCENARIO
from faults.selectors import kube_for
from sessions import selectors, services
from sessions.models import InterviewSession

PATIENCE_S = 60.0
USERS = 40  # each with a few tabs


def cookie_of(user: User) -> str:
    """Return the key of a cookie session in which the user is signed in."""
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store.save()
    return str(store.session_key)


def main() -> None:
    """Prepare and start a session of the first scenario, with an interviewer for every few viewers."""
    people = [User.objects.create_user(f"viewer-{number}") for number in range(USERS)]
    session = services.create_session(
        owner=people[0],
        interviewers=people,
        candidate_name="Bench",
        title="Live benchmark",
        scenario_versions=[row for row in selectors.pickable_scenarios() if row.scenario.slug == SCENARIO],
        minutes=60,
    )
    services.prepare(session=session, actor=people[0])
    end = time.monotonic() + PATIENCE_S
    while session.state != InterviewSession.State.READY and time.monotonic() < end:
        time.sleep(0.1)
        session.refresh_from_db()
    services.start(session=session, actor=people[0])
    session = InterviewSession.objects.select_related("cluster", "environment").get(pk=session.pk)
    assert session.cluster is not None
    assert session.environment is not None
    access = kube_for(session.cluster).access
    scene = {
        "session": str(session.uuid),
        "namespace": next(iter(session.environment.namespaces.values())),
        "cookies": [cookie_of(user) for user in people],
        "server": access.server,
        "ca": access.ca_pem,
        "token": access.token,
        "certificate": access.client_certificate_pem,
        "key": access.client_key_pem,
    }
    print("\n" + json.dumps(scene), flush=True)


main()
