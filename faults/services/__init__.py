"""Everything that changes a cluster or a run. Keyword-only, and every one is safe to repeat."""

from faults.services.access import (
    CandidateAccess,
    CandidateGrants,
    access_is_open,
    candidate_access,
    candidate_grants,
    first_request_at,
    note_access_revoked,
    restore_access,
    revoke_access,
)
from faults.services.catalog import seed_catalog
from faults.services.clusters import ensure_practice_cluster, lend_cluster, release_cluster, restarts_of
from faults.services.mirrors import mirror_deadline
from faults.services.planning import plan_environment_run, plan_fault_run
from faults.services.rehearsal import apply_solution
from faults.services.reverting import recheck_reverted, revert_run
from faults.services.running import confirm_symptom, inject_run
from faults.services.work import Report

__all__ = [
    "CandidateAccess",
    "CandidateGrants",
    "Report",
    "access_is_open",
    "apply_solution",
    "candidate_access",
    "candidate_grants",
    "confirm_symptom",
    "ensure_practice_cluster",
    "first_request_at",
    "inject_run",
    "lend_cluster",
    "mirror_deadline",
    "note_access_revoked",
    "plan_environment_run",
    "plan_fault_run",
    "recheck_reverted",
    "release_cluster",
    "restarts_of",
    "restore_access",
    "revert_run",
    "revoke_access",
    "seed_catalog",
]
