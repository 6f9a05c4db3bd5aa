"""Entries of the ledger of outages being closed: by the cluster's answer, or by the interview's release."""

from __future__ import annotations

from datetime import datetime

from sessions import clock, events
from sessions.models import InterviewSession, Outage


def close_outage(session: InterviewSession, outage: Outage, at: datetime, credited_s: int) -> None:
    """Enter an outage's end and what was given back for it. The caller holds the session's row."""
    outage.ended_at, outage.credited_s = at, credited_s
    outage.save()
    seconds = round((at - outage.began_at).total_seconds())
    payload = {"reason": outage.reason, "seconds": seconds, "credited_s": credited_s}
    events.append(session, "outage.ended", payload=payload)


def close_open_outage(session: InterviewSession) -> None:
    """Close what a released interview left open, at its end: the cluster may never answer again."""
    outage = session.outages.filter(ended_at__isnull=True).first()
    if outage is not None:
        close_outage(session, outage, max(session.ended_at or clock.now(), outage.began_at), 0)
