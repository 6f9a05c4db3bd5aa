"""The queue's entry points: an id in, one call, nothing out. Every one may be delivered twice."""

from __future__ import annotations

from sessions import services


def prepare_session(session_id: int) -> None:
    """Prepare a session, or continue its preparation."""
    services.run_preparation(session_id=session_id)


def end_session_access(session_id: int) -> None:
    """Cut the candidate off."""
    services.sync_access(session_id=session_id)


def restore_session_access(session_id: int) -> None:
    """Let the candidate of a reopened session in again."""
    services.sync_access(session_id=session_id)


def release_session(session_id: int) -> None:
    """Revert a session's faults and let its cluster go."""
    services.run_release(session_id=session_id)
