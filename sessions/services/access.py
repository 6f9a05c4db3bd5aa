"""The candidate's way in: the join link, the credentials, and their end."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.urls import reverse

from faults import services as fault_services
from faults.models import FaultRun
from faults.services import CandidateAccess, CandidateGrants
from sessions import clock, events
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.services.rows import State, locked, require

TOKEN_BYTES = 24  # 192 bits
JOINABLE = (State.DRAFT, State.PREPARING, State.READY, State.LIVE, State.PAUSED)
OVER = (State.ENDED, State.SCORED)
RUNNING = (State.LIVE, State.PAUSED)
SHORTEST_TOKEN = 600  # seconds; a TokenRequest grants no less
UNUSABLE = "This link has been used, replaced or withdrawn. Ask your interviewer for a new one."


@transaction.atomic
def issue_join_link(*, session: InterviewSession, actor: User | None) -> str:
    """Return a new join link, which is shown once; only its hash is stored.

    It replaces any earlier one, and lets go of the browser that came in by that.
    """
    session = locked(session)
    require(session, JOINABLE, "be joined")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    InterviewSession.objects.filter(pk=session.pk).update(
        join_token_hash=_hash(token), browser_key=secrets.token_urlsafe(TOKEN_BYTES)
    )
    events.append(session, "link.issued", actor=actor)
    return settings.PUBLIC_URL + reverse("join", args=[token])


@transaction.atomic
def consume_join_token(token: str) -> InterviewSession:
    """Return the session that the token opens, and use the token up. Raises SessionError where it opens none.

    The caller binds the browser with ``selectors.bind_candidate``.
    """
    wanted = _hash(token)
    session = InterviewSession.objects.select_for_update().filter(join_token_hash=wanted).first()
    if session is None or not hmac.compare_digest(session.join_token_hash, wanted):
        raise SessionError(UNUSABLE, "token")
    require(session, JOINABLE, "be joined")
    session.join_token_hash = ""
    session.joined_at = session.joined_at or clock.now()
    session.save(update_fields=["join_token_hash", "joined_at"])
    events.append(session, "candidate.joined", actor=events.CANDIDATE)
    return session


def candidate_credentials(*, session: InterviewSession) -> CandidateAccess:
    """Return fresh credentials for the candidate's own kubectl, valid until the faults' deadline.

    Raises SessionError unless the session runs, ClusterError where the cluster does not answer.
    """
    session = _with_environment(session.pk)
    require(session, (State.LIVE, State.PAUSED), "hand out a kubeconfig")
    if session.environment is None:
        raise SessionError("This interview has no cluster: it consists of questions.")
    now = clock.now()
    seconds = int((clock.fault_deadline(session, now) - now).total_seconds())
    access = fault_services.candidate_access(run=session.environment, seconds=max(seconds, SHORTEST_TOKEN))
    with transaction.atomic():
        events.append(session, "kubeconfig.issued", actor=events.CANDIDATE)
    return access


def sync_access(*, session_id: int, verify: bool = False) -> None:
    """Make the candidate's access what the session's state asks for: closed after the end, else open.

    A pause closes it where the plan says so. Acts before it records: a cut waits for no lease and no disk. Looks
    again afterwards, so that an end and a reopening that cross each other settle on the newer one. ``verify`` acts
    on what is recorded as done, too.
    """
    session = _with_environment(session_id)
    pending = verify or not _access_settled(session)
    while pending:
        closed = session.is_closed()
        _change_rights(session.environment, closed)
        _record_access(session, closed)
        session = _with_environment(session_id)
        pending = closed != session.is_closed() or not _access_settled(session)


@dataclass(frozen=True, slots=True)
class AccessOrder:
    """The access that a session's state asks for, and whether it is recorded as given or taken.

    ``grants`` counts what its scenarios have added to it: bindings that were kept before do not know of the last.
    """

    session_id: int
    closed: bool
    settled: bool
    grants: int = 0


def access_orders() -> list[AccessOrder]:
    """Return the order of every session that has not been released and whose candidate may have had access."""
    rows = InterviewSession.objects.filter(
        Q(state__in=OVER, released_at__isnull=True)
        | Q(state__in=OVER, access_revoked_at__isnull=True)
        | Q(state__in=RUNNING)
    )
    sessions = rows.select_related("environment").only(
        "pk", "state", "close_while_paused", "access_revoked_at", "environment__parameters"
    )
    return [
        AccessOrder(session.pk, session.is_closed(), _access_settled(session), _number_of_grants(session))
        for session in sessions
    ]


def _number_of_grants(session: InterviewSession) -> int:
    return fault_services.number_of_grants(run=session.environment) if session.environment else 0


def grants_of_session(*, session_id: int) -> CandidateGrants | None:
    """Return what gives the session's candidate rights; None where there is nothing to take."""
    environment = _with_environment(session_id).environment
    return None if environment is None else fault_services.candidate_grants(run=environment)


def _with_environment(session_id: int) -> InterviewSession:
    return InterviewSession.objects.select_related("environment__cluster").get(pk=session_id)


def _change_rights(environment: FaultRun | None, closed: bool) -> None:
    if environment is None or environment.reverted_at is not None:
        return
    if closed:
        fault_services.revoke_access(run=environment)
    elif not fault_services.access_is_open(run=environment):
        fault_services.restore_access(run=environment)


def _access_settled(session: InterviewSession) -> bool:
    return session.is_closed() == (session.access_revoked_at is not None)


@transaction.atomic
def _record_access(session: InterviewSession, closed: bool) -> None:
    """Write down what was done, unless the state has moved on meanwhile or somebody else has done it."""
    now = clock.now()
    same = InterviewSession.objects.filter(pk=session.pk, state=session.state, access_revoked_at__isnull=closed)
    if same.update(access_revoked_at=now if closed else None):
        if closed and session.environment is not None:
            fault_services.note_access_revoked(run=session.environment)
        events.append(session, "access.revoked" if closed else "access.restored", at=now)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
