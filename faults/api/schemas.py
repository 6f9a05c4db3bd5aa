"""Bodies of the fault injection API, in the form of the service that the guide was written for."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from faults.api.invalid import Number
from faults.api.problems import ProblemOut
from faults.models import FaultRun, InjectedFault
from faults.services.injected_faults import MAX_SECONDS

NODE_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
NodeName = Annotated[str, Field(pattern=NODE_PATTERN, description="As `kubectl get nodes` prints it.")]
Severity = Literal["low", "medium", "high", "critical"]
Layers = Annotated[
    Literal["log", "cuda", "combined"],
    Field(description="log: the kernel's log alone, processes go on; cuda: calls fail, silently; combined: both."),
]
GpuNumber = Annotated[Number, Field(ge=0, le=63, description="As `nvidia-smi -L` numbers it.")]
Seconds = Annotated[
    Number | None, Field(ge=1, le=MAX_SECONDS, description="null: until it is recovered, at most eight hours.")
]
REFUSED = dict.fromkeys((400, 401, 403, 404, 409, 422, 502, 503), ProblemOut)
"""The answers that every route may give."""
FaultStatus = Literal["pending", "injected", "active", "recovering", "recovered", "failed"]
Run = FaultRun.Status
_STATUSES: dict[str, FaultStatus] = {
    Run.PLANNED: "pending",
    Run.INJECTING: "pending",
    Run.ACTIVE: "active",
    Run.RESOLVED: "active",
    Run.REVERTING: "recovering",
    Run.REVERTED: "recovered",
    Run.FAILED: "failed",
    Run.QUARANTINED: "failed",
}


class Strict(Schema):
    """A body that has no unknown fields: a misspelt duration must not mean eight hours."""

    model_config = ConfigDict(extra="forbid")


class XidIn(Strict):
    """An Xid to inject. ``xid_type`` may be left out: the address says it."""

    node_name: NodeName
    xid_type: Number | None = None
    gpu_id: GpuNumber = 0
    layers: Layers = "log"
    duration: Seconds = None


class GpuFaultParameters(Strict):
    """Parameters of a GPU fault. ``xid_type`` and ``layers`` are an ``xid_error``'s, which needs the first."""

    gpu_id: GpuNumber = 0
    xid_type: Number | None = None
    layers: Layers | None = None


class GpuFaultIn(Strict):
    """A GPU fault by its type.

    ``throttle``: the hardware slows the clocks down as for a power brake. ``overheat``: the GPU gets as hot as where
    it slows itself down. ``memory_pressure``: a process takes nearly all memory that is free. ``compute_overload``: a
    process keeps the GPU busy. These four are for simulated nodes: real ones refuse them.
    """

    node_name: NodeName
    fault_type: Literal["xid_error", "throttle", "overheat", "memory_pressure", "compute_overload"]
    duration: Seconds = None
    severity: Severity = "medium"
    parameters: GpuFaultParameters = GpuFaultParameters()

    @model_validator(mode="after")
    def check_parameters(self) -> Self:
        """Refuse an Xid without its number, and the parameters of one where there is none."""
        wanted = self.parameters
        if self.fault_type == "xid_error":
            if wanted.xid_type is None:
                raise ValueError("parameters.xid_type is needed for fault_type xid_error")
        elif wanted.xid_type is not None or wanted.layers is not None:
            raise ValueError(f"parameters.xid_type and parameters.layers have no meaning for {self.fault_type}")
        return self


class InjectedOut(Schema):
    """Answer to an injection."""

    fault_id: str
    status: FaultStatus
    target: str
    injected_at: datetime | None
    message: str
    expires_at: datetime | None


class RecoveredOut(Schema):
    """Answer to a recovery."""

    fault_id: str
    status: FaultStatus
    recovered_at: datetime | None
    message: str


class FaultOut(Schema):
    """The record of a fault."""

    id: str
    fault_id: str
    type: str
    target: str
    status: FaultStatus
    created_at: datetime
    injected_at: datetime | None
    recovered_at: datetime | None
    expires_at: datetime | None
    requested_by: str
    error: str
    manual_command: str
    details: dict[str, Any]


class FaultListOut(Schema):
    """Faults, the newest first."""

    faults: list[FaultOut]
    count: int


class XidTypeOut(Schema):
    """One Xid that can be injected."""

    code: int
    name: str
    severity: Severity
    description: str


class XidTypesOut(Schema):
    """Every Xid that can be injected."""

    xid_types: list[XidTypeOut]


class HealthOut(Schema):
    """Sign of life."""

    status: Literal["healthy"]
    service: Literal["fault-injection-api"]
    timestamp: datetime


def status_of(fault: InjectedFault) -> FaultStatus:
    """Return how far a fault has come; one that could not be injected has failed, whatever was taken back."""
    if fault.error:
        return "failed"
    if fault.run.status == Run.INJECTING and fault.run.injected_at:
        return "injected"
    return _STATUSES[fault.run.status]


def injected(fault: InjectedFault, message: str) -> dict[str, Any]:
    """Return the answer to an injection."""
    return {
        "fault_id": fault.fault_id,
        "status": status_of(fault),
        "target": fault.target,
        "injected_at": fault.run.injected_at,
        "message": message,
        "expires_at": fault.run.deadline,
    }


def shown(fault: InjectedFault) -> dict[str, Any]:
    """Return a fault's record as the API shows it."""
    return {
        "id": fault.fault_id,
        "fault_id": fault.fault_id,
        "type": fault.type,
        "target": fault.target,
        "status": status_of(fault),
        "created_at": fault.created_at,
        "injected_at": fault.run.injected_at,
        "recovered_at": fault.recovered_at,
        "expires_at": fault.run.deadline,
        "requested_by": fault.requested_by,
        "error": fault.error or fault.run.error,
        "manual_command": fault.run.manual_command,
        "details": fault.details,
    }
