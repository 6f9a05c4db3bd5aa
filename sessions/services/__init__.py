"""Everything that changes a session. Each service is one transaction: the change, its event, and its job.

All take keyword arguments, and ``actor`` is the user who asked, or None for the system. They raise
``SessionError`` with a sentence for people. Who may see a session is settled in the look-up
(``selectors.session_for``), never here.
"""

from sessions.errors import SessionError, StaleEdit
from sessions.services.access import (
    AccessOrder,
    access_orders,
    candidate_credentials,
    consume_join_token,
    grants_of_session,
    issue_join_link,
    sync_access,
)
from sessions.services.applies import note_apply
from sessions.services.conduct import release_hint
from sessions.services.creation import create_session
from sessions.services.ending import NotRecordedYet, end_now, record_end
from sessions.services.gpu_faults import (
    check_gpu_fault,
    gpus_with_faults,
    inject_gpu_fault,
    nodes_to_hit,
    recover_gpu_fault,
)
from sessions.services.housekeeping import housekeep
from sessions.services.lifecycle import (
    credit,
    end,
    extend,
    pause,
    prepare,
    release,
    reopen,
    resume,
    retry_preparation,
    start,
)
from sessions.services.metrics import keep_sample
from sessions.services.milestones import mark_milestone
from sessions.services.notes import add_note
from sessions.services.outages import begin_outage, end_outage, note_absence
from sessions.services.panic import engage_panic, lift_panic
from sessions.services.plans_of_code import note_plan
from sessions.services.preparation import run_preparation
from sessions.services.question_records import mark_asked, save_question_record
from sessions.services.quiet import begin_quiet, end_quiet
from sessions.services.release import run_release
from sessions.services.restarts import note_restarts
from sessions.services.scoring import (
    revise_assessment,
    save_assessment,
    save_rating,
    save_subject_rating,
    submit_assessment,
)
from sessions.services.staging import hold_part, retry_part, run_parts, skip_part, start_part
from sessions.services.terraform_code import code_as_zip, take_code

__all__ = [
    "code_as_zip",
    "take_code",
    "AccessOrder",
    "NotRecordedYet",
    "SessionError",
    "StaleEdit",
    "access_orders",
    "add_note",
    "begin_outage",
    "begin_quiet",
    "candidate_credentials",
    "consume_join_token",
    "create_session",
    "credit",
    "end",
    "end_now",
    "end_outage",
    "end_quiet",
    "engage_panic",
    "extend",
    "gpus_with_faults",
    "grants_of_session",
    "hold_part",
    "housekeep",
    "issue_join_link",
    "keep_sample",
    "recover_gpu_fault",
    "nodes_to_hit",
    "check_gpu_fault",
    "inject_gpu_fault",
    "lift_panic",
    "mark_asked",
    "mark_milestone",
    "note_apply",
    "note_plan",
    "note_restarts",
    "pause",
    "note_absence",
    "prepare",
    "record_end",
    "release",
    "release_hint",
    "reopen",
    "resume",
    "retry_part",
    "retry_preparation",
    "revise_assessment",
    "run_parts",
    "run_preparation",
    "run_release",
    "save_assessment",
    "save_question_record",
    "save_rating",
    "save_subject_rating",
    "skip_part",
    "start",
    "start_part",
    "submit_assessment",
    "sync_access",
]
