"""Tokens of the fault injection API: each opens one cluster, for some kinds of requests, until it expires."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256

from faults import clock
from faults.errors import FaultError
from faults.models import ApiEvent, ApiToken, Cluster

READ, INJECT, METRICS = "faults:read", "faults:inject", "metrics:read"
SCOPES = (READ, INJECT, METRICS)
PREFIX = "flt_"
"""Lets scanners of repositories find one that was committed."""
TOKEN_BYTES = 32
MAX_DAYS = 366
NOTED_EVERY = timedelta(minutes=1)


def issue_api_token(
    *, name: str, cluster: Cluster, scopes: Iterable[str], days: int, by: str
) -> tuple[ApiToken, str]:
    """Return a new token's row, and the token itself, which is told this once. Raises FaultError."""
    wanted = sorted(set(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise FaultError(f"There is no scope {unknown[0]}; valid are: {', '.join(SCOPES)}")
    if not wanted or not name.strip():
        raise FaultError("A token needs a name and at least one scope.")
    if not 1 <= days <= MAX_DAYS:
        raise FaultError(f"A token lives from 1 to {MAX_DAYS} days, not {days}.")
    secret, now = PREFIX + secrets.token_urlsafe(TOKEN_BYTES), clock.now()
    row = ApiToken.objects.create(
        name=name.strip()[:100],
        token_hash=hash_of(secret),
        cluster=cluster,
        scopes=" ".join(wanted),
        created_by=by,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    note_api_event(cluster=cluster, actor=by, action="token.issue", subject=row.name, detail=row.scopes)
    return row, secret


def revoke_api_token(*, token: ApiToken, by: str) -> bool:
    """Let a token open nothing any more; False where it was revoked before."""
    if not ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=clock.now()):
        return False
    note_api_event(cluster=token.cluster, actor=by, action="token.revoke", subject=token.name)
    return True


def find_api_token(secret: str, now: datetime | None = None) -> ApiToken | None:
    """Return the token that is valid now; None for any other. The look-up is by hash, so that time tells nothing."""
    now = now or clock.now()
    valid = ApiToken.objects.filter(revoked_at__isnull=True, expires_at__gt=now).select_related("cluster")
    token = valid.filter(token_hash=hash_of(secret)).first() if secret.startswith(PREFIX) else None
    if token is not None and (token.last_used_at is None or now - token.last_used_at > NOTED_EVERY):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def note_api_event(
    *, cluster: Cluster | None, actor: str, action: str, subject: str = "", outcome: str = "done", detail: str = ""
) -> None:
    """Write down what was asked of the API, and what became of it."""
    ApiEvent.objects.create(
        cluster=cluster,
        actor=actor[:150],
        action=action,
        subject=subject[:300],
        outcome=outcome[:40],
        detail=detail[:2000],
        at=clock.now(),
    )


def hash_of(secret: str) -> str:
    """Return what is kept of a token. It has 256 random bits, so that one round of SHA-256 is enough."""
    return sha256(secret.encode()).hexdigest()
