"""The candidate's Terraform code: as a zip for their own machine, and back into the toolbox."""

from __future__ import annotations

from django.db import transaction

from faults import services as fault_services
from faults.code_archive import make_zip, read_zip
from faults.models import FaultRun
from sessions import events
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.services.rows import State, require


def code_as_zip(*, session: InterviewSession) -> bytes:
    """Return the code that is in the session's toolbox.

    Raises SessionError unless the candidate may work now, FaultError without any code, and ClusterError.
    """
    archive = make_zip(fault_services.read_code(run=_environment(session)))
    with transaction.atomic():
        events.append(session, "code.downloaded", actor=events.CANDIDATE)
    return archive


def take_code(*, session: InterviewSession, data: bytes) -> None:
    """Lay the code of a zip into the session's toolbox, in the place of what is there.

    Raises ArchiveRefused for a zip that is not taken, and what ``code_as_zip`` raises.
    """
    run, files = _environment(session), read_zip(data)
    fault_services.write_code(run=run, files=files)
    with transaction.atomic():
        events.append(session, "code.uploaded", actor=events.CANDIDATE, payload={"files": len(files)})


def _environment(session: InterviewSession) -> FaultRun:
    require(session, (State.LIVE, State.PAUSED), "hand out or take code")
    if session.is_closed():
        raise SessionError("Access is closed while the interview is paused.")
    if session.environment is None:
        raise SessionError("This interview has no cluster: it consists of questions.")
    return FaultRun.objects.select_related("cluster").get(pk=session.environment.pk)
