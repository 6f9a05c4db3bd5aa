"""Refusals of the fault injection API: a sentence, a code for programs, and what to do about it.

``detail`` is the field in which FastAPI services put the sentence, so that clients written for one find it.
"""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from ninja import Schema

from faults.errors import ClusterError, FaultError, Forbidden, LeaseHeld, NotFound, NotOnRealNodes, PanicEngaged
from faults.gpu_nodes import AgentSilent, NoAgent, NodeBoots, NoSuchGpu
from faults.services import ClusterInUse, GpuHasFault, NoSuchFault
from faults.xids import xids

AGENTS = "kubectl get pods -n fault-injection-system -l app=gpu-fault-injector -o wide"
RETRY_S, BOOT_S = 2, 5


class ProblemOut(Schema):
    """A refusal."""

    detail: str
    code: str
    action: str


class ApiProblem(Exception):
    """A refusal that is known where it is raised."""

    def __init__(self, status: int, code: str, detail: str, action: str, retry_after: int = 0) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.action = action
        self.retry_after = retry_after


def answer(problem: ApiProblem) -> JsonResponse:
    """Return a refusal as the API sends it."""
    body = {"detail": problem.detail, "code": problem.code, "action": problem.action}
    headers = {"Retry-After": str(problem.retry_after)} if problem.retry_after else {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JsonResponse(body, status=problem.status, headers=headers)


def not_found(request: HttpRequest, path: str = "") -> JsonResponse:
    """Answer for an address that the API does not have."""
    if "/gpu/inject/xid-" in request.path:
        known = ", ".join(map(str, xids()))
        return answer(ApiProblem(404, "xid_unknown", "The address names no Xid.", f"Use one of {known}."))
    action = "/api/v1/docs lists every address; programs read /api/v1/openapi.json."
    return answer(ApiProblem(404, "no_such_route", f"There is nothing at {request.path}.", action))


def problem_of(exc: ApiProblem | ClusterError | FaultError) -> ApiProblem:
    """Return the refusal that an error stands for."""
    if isinstance(exc, ApiProblem):
        return exc
    return _of_cluster_error(exc) if isinstance(exc, ClusterError) else _of_fault_error(exc)


def _of_fault_error(exc: FaultError) -> ApiProblem:
    match exc:
        case GpuHasFault():
            return ApiProblem(
                409, "gpu_has_fault", str(exc), f"Recover it first: DELETE /api/v1/faults/{exc.fault_id}"
            )
        case ClusterInUse():
            action = "Inject while the interview is live, or use a cluster without one."
            return ApiProblem(409, "session_not_live", str(exc), action)
        case NoSuchFault():
            return ApiProblem(404, "fault_not_found", str(exc), "List the faults: GET /api/v1/faults")
        case PanicEngaged():
            return ApiProblem(409, "injection_stopped", str(exc), "Ask an admin to lift the panic stop.")
        case LeaseHeld():
            return ApiProblem(409, "fault_busy", "The fault is being worked on.", "Send the request again.", RETRY_S)
    return ApiProblem(409, "refused", str(exc), "Change what the sentence names, then send the request again.")


def _of_cluster_error(exc: ClusterError) -> ApiProblem:
    match exc:
        case NoAgent():
            return ApiProblem(503, "agent_missing", exc.message, f"Look for it: {AGENTS}", RETRY_S)
        case AgentSilent():
            action = f"It may be starting: send the request again, or read its log; find it with: {AGENTS}"
            return ApiProblem(503, "agent_silent", exc.message, action, RETRY_S)
        case NodeBoots():
            action = "A fault would be gone after the boot: send the request again in a minute, or take another node."
            return ApiProblem(503, "node_boots", exc.message, action, BOOT_S)
        case NoSuchGpu():
            return ApiProblem(422, "gpu_not_found", exc.message, "List the node's GPUs with: nvidia-smi -L")
        case NotOnRealNodes():
            action = 'Use a simulated node, or an Xid in its kernel log alone ("layers": "log").'
            return ApiProblem(422, "unsupported_on_real_nodes", exc.message, action)
        case NotFound():
            kind = "namespaces" if exc.message.startswith("namespaces ") else "nodes"
            return ApiProblem(404, "not_in_cluster", exc.message, f"Names must match exactly: kubectl get {kind}")
        case Forbidden():
            action = "Give the site's account this right in the cluster."
            return ApiProblem(502, "cluster_forbids", f"The cluster forbids it: {exc.message}", action)
    if exc.retryable:
        return ApiProblem(503, "cluster_unreachable", exc.message, "Nothing was left behind: send it again.", RETRY_S)
    return ApiProblem(502, "cluster_refused", exc.message, f"Read the agent's log; find it with: {AGENTS}")
