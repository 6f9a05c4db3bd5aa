"""The queue's entry points: an id in, one call, nothing out. Every one may be delivered twice.

None waits and none repeats: phases write the next try into their row, and access is the enforcer's to settle.
"""

from __future__ import annotations

import logging

from faults.errors import ClusterError, FaultError
from faults.jobs import without_fuss
from sessions import services

log = logging.getLogger(__name__)


@without_fuss
def prepare_session(session_id: int) -> None:
    """Prepare a session, or continue its preparation."""
    services.run_preparation(session_id=session_id)


@without_fuss
def start_part(session_id: int) -> None:
    """Inject and prove the faults of a session's part, or take those of a skipped one back."""
    services.run_parts(session_id=session_id)


@without_fuss
def end_session_access(session_id: int) -> None:
    """Cut the candidate off."""
    _sync_access(session_id)


@without_fuss
def restore_session_access(session_id: int) -> None:
    """Let the candidate of a resumed or reopened session in again."""
    _sync_access(session_id)


@without_fuss
def release_session(session_id: int) -> None:
    """Revert a session's faults and let its cluster go."""
    services.run_release(session_id=session_id)


def _sync_access(session_id: int) -> None:
    try:
        services.sync_access(session_id=session_id)
    except (ClusterError, FaultError) as exc:
        log.info("The access of session %s is left to the enforcer: %s", session_id, exc)
