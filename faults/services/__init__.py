"""Everything that changes a cluster or a run. Keyword-only, and every one is safe to repeat."""

from faults.services.access import (
    CandidateAccess,
    CandidateGrants,
    access_is_open,
    candidate_access,
    candidate_grants,
    note_access_revoked,
    restore_access,
    revoke_access,
)
from faults.services.api_tokens import find_api_token, issue_api_token, note_api_event, revoke_api_token
from faults.services.catalog import seed_catalog
from faults.services.clusters import ensure_practice_cluster, lend_cluster, release_cluster, restarts_of
from faults.services.credentials import (
    credentials_refused_at,
    credentials_words,
    note_credentials,
    refusing_clusters,
)
from faults.services.granting import grant_rights, number_of_grants
from faults.services.injected_faults import MAX_SECONDS as MAX_FAULT_SECONDS
from faults.services.injected_faults import (
    ClusterInUse,
    GpuHasFault,
    GpuPlace,
    NoSuchFault,
    PlannedFault,
    fault_id_for,
    find_fault,
    inject_fault,
    inject_gpu_trouble,
    inject_xid,
    recover_fault,
)
from faults.services.inspection import inspect_cluster
from faults.services.leasing import (
    active_leases,
    busy_words,
    change_refusal,
    check_kubeconfig,
    exclusive_lease,
    give_back_cluster,
    lease_cluster,
    offered_clusters,
    preflight_refusal,
    save_cluster,
    why_not,
)
from faults.services.mirrors import mirror_deadline
from faults.services.panic import PanicOutcome, engage_panic, lift_panic, revert_engaged, runs_to_stop
from faults.services.panic_state import (
    engaged_panics,
    panic_covers,
    panics_over,
    refuse_while_engaged,
)
from faults.services.planning import draw_variant, plan_environment_run, plan_fault_run
from faults.services.rehearsal import apply_solution, candidate_shell, do_solution
from faults.services.requirements import (
    cluster_values,
    refusal_by_inventory,
    refusal_together,
    require_inventory,
)
from faults.services.reverting import recheck_reverted, revert_run
from faults.services.rollout_events import forget_rollouts
from faults.services.running import confirm_symptom, inject_run
from faults.services.terraform_code import read_code, write_code
from faults.services.toolbox_shell import ToolboxShell
from faults.services.toolboxes import has_gpu_for_toolbox, missing_toolbox, toolbox_image
from faults.services.work import Report

__all__ = [
    "CandidateAccess",
    "CandidateGrants",
    "ClusterInUse",
    "GpuHasFault",
    "GpuPlace",
    "MAX_FAULT_SECONDS",
    "NoSuchFault",
    "PanicOutcome",
    "PlannedFault",
    "Report",
    "ToolboxShell",
    "access_is_open",
    "active_leases",
    "apply_solution",
    "busy_words",
    "candidate_access",
    "candidate_grants",
    "candidate_shell",
    "change_refusal",
    "check_kubeconfig",
    "cluster_values",
    "confirm_symptom",
    "credentials_refused_at",
    "credentials_words",
    "do_solution",
    "draw_variant",
    "engage_panic",
    "engaged_panics",
    "ensure_practice_cluster",
    "exclusive_lease",
    "give_back_cluster",
    "fault_id_for",
    "find_api_token",
    "find_fault",
    "forget_rollouts",
    "grant_rights",
    "has_gpu_for_toolbox",
    "inject_fault",
    "inject_gpu_trouble",
    "inject_run",
    "inject_xid",
    "inspect_cluster",
    "issue_api_token",
    "lease_cluster",
    "lend_cluster",
    "lift_panic",
    "mirror_deadline",
    "missing_toolbox",
    "note_access_revoked",
    "note_credentials",
    "note_api_event",
    "number_of_grants",
    "offered_clusters",
    "panic_covers",
    "panics_over",
    "plan_environment_run",
    "plan_fault_run",
    "preflight_refusal",
    "read_code",
    "recheck_reverted",
    "recover_fault",
    "refusal_by_inventory",
    "refusal_together",
    "refuse_while_engaged",
    "refusing_clusters",
    "release_cluster",
    "require_inventory",
    "restarts_of",
    "restore_access",
    "revert_engaged",
    "revert_run",
    "revoke_access",
    "revoke_api_token",
    "runs_to_stop",
    "save_cluster",
    "seed_catalog",
    "toolbox_image",
    "why_not",
    "write_code",
]
